//! `application/x-www-form-urlencoded`: the decoded pairs, in their order.

use super::encode::put_bytes;
use super::members::Members;

/// Writes name and value of every pair that counts; `None` if a percent escape is broken.
///
/// Pairs are read as the URL standard reads them: an empty piece between two `&` is no pair, and a pair without `=` has
/// an empty value. Escapes are undone byte by byte; what they spell need not be UTF-8.
pub(super) fn canonical(body: &[u8], members: &Members) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() + 16);
    let (mut name, mut value) = (Vec::new(), Vec::new());
    for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let equals = pair.iter().position(|byte| *byte == b'=');
        decode(&pair[..equals.unwrap_or(pair.len())], &mut name)?;
        decode(equals.map_or(&[], |equals| &pair[equals + 1..]), &mut value)?;
        if members.keeps_name(&name) {
            put_bytes(&mut out, &name);
            put_bytes(&mut out, &value);
        }
    }
    Some(out)
}

fn decode(encoded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    let mut rest = encoded;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let ([high, low], after) = rest.split_first_chunk()?;
                rest = after;
                (hex(*high)? << 4) | hex(*low)?
            }
            plain => *plain,
        });
    }
    Some(())
}

/// The value of one hexadecimal digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
