//! Byte encodings that two different inputs never share.

/// Writes a length in as few bytes as it needs, seven bits a byte, the lowest first.
///
/// The last byte is the only one below 128, so a length says itself where it ends.
pub(super) fn put_length(out: &mut Vec<u8>, length: usize) {
    let mut rest = length;
    while rest >= 0x80 {
        out.push(low_seven_bits(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_seven_bits(rest));
}

/// Writes bytes behind their length.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Writes a value that may be absent; absent and empty differ.
pub(super) fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            out.push(1);
            put_bytes(out, bytes);
        }
    }
}

fn low_seven_bits(value: usize) -> u8 {
    u8::try_from(value & 0x7f).expect("seven bits fit a byte")
}

/// Appends a stretch of `whole`, in copies of fixed length where it is short and what follows it may be read too.
///
/// A copy of fixed length is two instructions, one of unknown length is a call; most of what is copied here is shorter
/// than 32 bytes.
#[inline]
pub(super) fn put_stretch(out: &mut Vec<u8>, whole: &[u8], stretch: core::ops::Range<usize>) {
    let length = stretch.end - stretch.start;
    match whole.get(stretch.start..stretch.start + 32) {
        Some(chunk) if length <= 32 => {
            out.extend_from_slice(chunk);
            out.truncate(out.len() - (32 - length));
        }
        _ => out.extend_from_slice(&whole[stretch]),
    }
}
