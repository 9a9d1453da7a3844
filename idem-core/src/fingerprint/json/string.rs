//! Strings without their escapes.

use super::super::form::hex;

/// Ends a string in the canonical spelling: valid UTF-8 has no such byte.
pub(super) const STRING_END: u8 = 0xff;

/// Writes the content of a string, given from behind its opening quote, and its end mark.
///
/// Gives the number of bytes read, the closing quote included; `None` if it is no string of RFC 8259 or spells a lone
/// surrogate.
#[inline]
pub(super) fn transcribe(source: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    // Eight bytes at a time, and copied before they are looked at: most strings are short, and a copy of fixed length
    // costs less than a call.
    while let Some(word) = source[at..].first_chunk::<8>() {
        let start = out.len();
        out.extend_from_slice(word);
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            let plain = (special.trailing_zeros() / 8) as usize;
            if word[plain] == b'"' {
                out[start + plain] = STRING_END;
                out.truncate(start + plain + 1);
                return Some(at + plain + 1);
            }
            out.truncate(start + plain);
            at += plain;
            break;
        }
        at += 8;
    }
    Some(at + transcribe_rest(&source[at..], out)?)
}

/// Writes a string from its first byte on that is not copied as it is.
#[inline(never)]
fn transcribe_rest(source: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        match source.get(at)? {
            b'"' => {
                out.push(STRING_END);
                return Some(at + 1);
            }
            b'\\' => at += unescape(&source[at..], out)?,
            0..0x20 => return None,
            plain => {
                out.push(*plain);
                at += 1;
            }
        }
    }
}

/// Sets the high bit of each byte that ends a plain run. A borrow can mark a byte above a true mark by mistake, never
/// one below, so the lowest mark is exact.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    (zero(quote) | zero(backslash) | below_space) & HIGH
}

/// Writes what one escape spells, given from its backslash on, and gives its length.
fn unescape(source: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    out.push(match source.get(1)? {
        b'"' => b'"',
        b'\\' => b'\\',
        b'/' => b'/',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => return unescape_unicode(source, out),
        _ => return None,
    });
    Some(2)
}

fn unescape_unicode(source: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let first = code_unit(source)?;
    let (scalar, length) = match first {
        0xd800..0xdc00 => {
            let second = code_unit(&source[6..]).filter(|unit| (0xdc00..0xe000).contains(unit))?;
            (0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
        }
        _ => (first, 6),
    };
    // A low surrogate without a high one is no character.
    let character = char::from_u32(scalar)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(length)
}

/// The code unit that `\uXXXX` spells.
fn code_unit(source: &[u8]) -> Option<u32> {
    let digits: &[u8; 4] = source.strip_prefix(b"\\u")?.first_chunk()?;
    digits.iter().try_fold(0, |unit, digit| Some((unit << 4) | u32::from(hex(*digit)?)))
}
