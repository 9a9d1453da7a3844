//! Numbers as exact decimals.
//!
//! A number is written as the digits of an integer that ends in no zero, and the power of ten that it is multiplied by:
//! `12.50` is `125e-2`, `1500` is `15e2`, `7` is `7`, and every zero is `0`. The exponent is a number of its own and is
//! never expanded, so `1e999999999` costs what its eleven characters cost.

use super::super::encode::put_stretch;

/// Ends a number in the canonical spelling.
const NUMBER_END: u8 = b';';

/// Exponents of up to this many digits are added as machine integers.
const MACHINE_DIGITS: usize = 36;

/// Writes the number at the start of `source`, and gives its length; `None` if RFC 8259 has no such number.
pub(super) fn transcribe(source: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let number = Number::parse(source)?;
    match number.integer {
        // Most integers are spelled as we spell them.
        [.., b'1'..=b'9'] if number.fraction.is_empty() && number.exponent.is_empty() => {
            put_stretch(out, source, 0..number.length);
        }
        _ => number.write(source, out),
    }
    out.push(NUMBER_END);
    Some(number.length)
}

struct Number<'a> {
    negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent_negative: bool,
    exponent: &'a [u8],
    length: usize,
}

impl<'a> Number<'a> {
    fn parse(source: &'a [u8]) -> Option<Self> {
        let negative = source.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let integer = digits(&source[at..])?;
        if integer.len() > 1 && integer[0] == b'0' {
            return None;
        }
        at += integer.len();

        let mut fraction: &[u8] = &[];
        if source.get(at) == Some(&b'.') {
            fraction = digits(&source[at + 1..])?;
            at += 1 + fraction.len();
        }

        let mut exponent_negative = false;
        let mut exponent: &[u8] = &[];
        if let Some(b'e' | b'E') = source.get(at) {
            at += 1;
            if let Some(sign @ (b'+' | b'-')) = source.get(at) {
                exponent_negative = *sign == b'-';
                at += 1;
            }
            exponent = digits(&source[at..])?;
            at += exponent.len();
        }
        Some(Self { negative, integer, fraction, exponent_negative, exponent, length: at })
    }

    fn write(&self, source: &[u8], out: &mut Vec<u8>) {
        let mut integer = self.integer;
        let mut fraction = trim_end(self.fraction);
        // The power of ten that the digits are multiplied by, but for the exponent: one of the two is zero.
        let (mut zeros, decimals) = (0, fraction.len());
        if fraction.is_empty() {
            integer = trim_end(integer);
            zeros = self.integer.len() - integer.len();
        }
        if integer == b"0" {
            integer = &[];
            fraction = trim_start(fraction);
        }
        if integer.is_empty() && fraction.is_empty() {
            out.push(b'0');
            return;
        }

        if self.negative {
            out.push(b'-');
        }
        let start = usize::from(self.negative);
        put_stretch(out, source, start..start + integer.len());
        if !fraction.is_empty() {
            let end = start + self.integer.len() + 1 + decimals;
            put_stretch(out, source, end - fraction.len()..end);
        }
        let exponent = trim_start(self.exponent);
        if !exponent.is_empty() {
            write_sum(self.exponent_negative, exponent, zeros as i128 - decimals as i128, out);
        } else if decimals > 0 {
            out.extend_from_slice(b"e-");
            write_digits(decimals as u128, out);
        } else if zeros > 0 {
            out.push(b'e');
            write_digits(zeros as u128, out);
        }
    }
}

/// Writes the exponent `exponent + shift`.
fn write_sum(negative: bool, exponent: &[u8], shift: i128, out: &mut Vec<u8>) {
    if exponent.len() > MACHINE_DIGITS {
        write_long_sum(negative, exponent, shift, out);
        return;
    }
    let magnitude = exponent.iter().fold(0, |value, digit| value * 10 + i128::from(digit - b'0'));
    let sum = if negative { shift - magnitude } else { shift + magnitude };
    if sum != 0 {
        out.extend_from_slice(if sum < 0 { b"e-".as_slice() } else { b"e" });
        write_digits(sum.unsigned_abs(), out);
    }
}

/// Writes `exponent + shift` digit by digit.
///
/// The shift counts digits of the body, so it is smaller than any exponent that comes here: the sign stays, and the sum
/// is not zero.
fn write_long_sum(negative: bool, exponent: &[u8], shift: i128, out: &mut Vec<u8>) {
    out.push(b'e');
    if negative {
        out.push(b'-');
    }
    let start = out.len();
    out.extend_from_slice(exponent);
    if negative == (shift < 0) {
        add(out, start, shift.unsigned_abs());
    } else {
        subtract(out, start, shift.unsigned_abs());
    }
}

/// Adds to the decimal digits from `start` on.
fn add(out: &mut Vec<u8>, start: usize, amount: u128) {
    let mut carry = amount;
    for digit in out[start..].iter_mut().rev() {
        if carry == 0 {
            return;
        }
        carry += u128::from(*digit - b'0');
        *digit = ascii_digit(carry % 10);
        carry /= 10;
    }
    if carry > 0 {
        out.insert(start, ascii_digit(carry));
    }
}

/// Subtracts from the decimal digits from `start` on, which are worth more than `amount`.
fn subtract(out: &mut Vec<u8>, start: usize, amount: u128) {
    let mut borrow = amount;
    for digit in out[start..].iter_mut().rev() {
        if borrow == 0 {
            break;
        }
        let value = u128::from(*digit - b'0');
        let take = borrow % 10;
        borrow /= 10;
        if value < take {
            borrow += 1;
            *digit = ascii_digit(value + 10 - take);
        } else {
            *digit = ascii_digit(value - take);
        }
    }
    if out[start] == b'0' {
        out.remove(start);
    }
}

fn write_digits(value: u128, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(ascii_digit(value));
        return;
    }
    let start = out.len();
    let mut rest = value;
    while rest > 0 {
        out.push(ascii_digit(rest % 10));
        rest /= 10;
    }
    out[start..].reverse();
}

fn ascii_digit(value: u128) -> u8 {
    b'0' + u8::try_from(value).expect("a decimal digit is below ten")
}

/// The digits at the start of `source`, at least one.
fn digits(source: &[u8]) -> Option<&[u8]> {
    let length = source.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (length > 0).then(|| &source[..length])
}

fn trim_start(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|digit| **digit == b'0').count()..]
}

fn trim_end(digits: &[u8]) -> &[u8] {
    &digits[..digits.len() - digits.iter().rev().take_while(|digit| **digit == b'0').count()]
}
