//! Random documents, random ways to write them, and a slow way to say which numbers are one value.

use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// A document whose numbers are exact: digits and a power of ten.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Document {
    Null,
    Bool(bool),
    Number { negative: bool, digits: Vec<u8>, exponent: i128 },
    Text(String),
    Array(Vec<Document>),
    Object(Vec<(String, Document)>),
}

pub(super) fn number() -> impl Strategy<Value = Document> {
    let exponent = prop_oneof![
        4 => -4_i128..4,
        1 => -400_i128..400,
        1 => any::<i64>().prop_map(i128::from),
        // 37 and 38 digits: beyond what is added in machine integers.
        1 => (-170_i128..170).prop_map(|near| near * 10_i128.pow(36)),
    ];
    (any::<bool>(), vec(0_u8..10, 1..24), exponent).prop_map(|(negative, digits, exponent)| Document::Number {
        negative,
        digits,
        exponent,
    })
}

pub(super) fn document() -> impl Strategy<Value = Document> {
    let leaf = prop_oneof![
        1 => Just(Document::Null),
        1 => any::<bool>().prop_map(Document::Bool),
        4 => number(),
        3 => ".{0,12}".prop_map(Document::Text),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Document::Array),
            btree_map("[a-c\u{0}\"\\\\é]{0,10}", inner, 0..6)
                .prop_map(|members| Document::Object(members.into_iter().collect())),
        ]
    })
}

/// Choices for one way to write a document, used up one by one.
struct Choices {
    bytes: Vec<u8>,
    next: usize,
}

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        let byte = self.bytes[self.next % self.bytes.len()];
        self.next += 1;
        usize::from(byte) % limit
    }

    fn space(&mut self) -> &'static str {
        ["", "", "", " ", "\n", "\t\r\n  "][self.below(6)]
    }
}

fn write(document: &Document, how: &mut Choices, out: &mut String) {
    *out += how.space();
    match document {
        Document::Null => *out += "null",
        Document::Bool(value) => *out += if *value { "true" } else { "false" },
        Document::Number { negative, digits, exponent } => write_number(*negative, digits, *exponent, how, out),
        Document::Text(text) => write_text(text, how, out),
        Document::Array(elements) => {
            out.push('[');
            for (place, element) in elements.iter().enumerate() {
                *out += if place > 0 { "," } else { "" };
                write(element, how, out);
            }
            *out += how.space();
            out.push(']');
        }
        Document::Object(members) => {
            let mut order: Vec<_> = members.iter().collect();
            for place in (1..order.len()).rev() {
                order.swap(place, how.below(place + 1));
            }
            out.push('{');
            for (place, (name, value)) in order.into_iter().enumerate() {
                *out += if place > 0 { "," } else { "" };
                *out += how.space();
                write_text(name, how, out);
                *out += how.space();
                out.push(':');
                write(value, how, out);
            }
            *out += how.space();
            out.push('}');
        }
    }
    *out += how.space();
}

/// Writes the value in another way: the point moved, zeros added, the exponent spelled out or not.
fn write_number(negative: bool, digits: &[u8], exponent: i128, how: &mut Choices, out: &mut String) {
    let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
    let mut text = text.trim_start_matches('0').to_owned();
    let mut exponent = exponent;
    if text.is_empty() {
        text.push('0');
    }
    let zeros = if text == "0" { 0 } else { how.below(3) };
    text += &"0".repeat(zeros);
    exponent -= zeros as i128;
    let decimals = how.below(text.len() + 3);
    if decimals > 0 {
        let padded = format!("{}{text}", "0".repeat((decimals + 1).saturating_sub(text.len())));
        let point = padded.len() - decimals;
        text = format!("{}.{}", &padded[..point], &padded[point..]);
        exponent += decimals as i128;
    }
    *out += if negative { "-" } else { "" };
    *out += &text;
    if exponent != 0 || how.below(4) == 0 {
        *out += ["e", "E"][how.below(2)];
        *out += if exponent < 0 { "-" } else { ["", "+"][how.below(2)] };
        *out += ["", "0", "000"][how.below(3)];
        *out += &exponent.unsigned_abs().to_string();
    }
}

fn write_text(text: &str, how: &mut Choices, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let must = matches!(character, '"' | '\\' | '\0'..='\u{1f}');
        if must || how.below(5) == 0 {
            for unit in character.encode_utf16(&mut [0; 2]) {
                *out += &if how.below(2) == 0 { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
            }
        } else {
            out.push(character);
        }
    }
    out.push('"');
}

pub(super) fn spelled(document: &Document, choices: Vec<u8>) -> String {
    let mut out = String::new();
    write(document, &mut Choices { bytes: choices, next: 0 }, &mut out);
    out
}

/// Every single value of a document, to be changed one at a time.
pub(super) fn leaves(document: &mut Document) -> Vec<&mut Document> {
    match document {
        Document::Array(elements) => elements.iter_mut().flat_map(leaves).collect(),
        Document::Object(members) => members.iter_mut().flat_map(|(_, value)| leaves(value)).collect(),
        leaf => vec![leaf],
    }
}

/// Whether two numbers are one value, by moving the digits of the one with the larger exponent until the exponents meet.
pub(super) fn same_value(a: &Document, b: &Document) -> bool {
    let parts = |number: &Document| match number {
        Document::Number { negative, digits, exponent } => (*negative, digits.clone(), *exponent),
        _ => (false, Vec::new(), 0),
    };
    let ((mut a_negative, mut a, mut a_exponent), (mut b_negative, mut b, mut b_exponent)) = (parts(a), parts(b));
    let strip = |digits: &mut Vec<u8>| digits.drain(..digits.iter().take_while(|digit| **digit == 0).count()).count();
    strip(&mut a);
    strip(&mut b);
    if a.is_empty() || b.is_empty() {
        return a.is_empty() && b.is_empty();
    }
    if a_exponent < b_exponent {
        (a_negative, a, a_exponent, b_negative, b, b_exponent) = (b_negative, b, b_exponent, a_negative, a, a_exponent);
    }
    // Farther apart than the longest digits that are generated, they cannot meet.
    if a_exponent.abs_diff(b_exponent) > 100 {
        return false;
    }
    while a_exponent > b_exponent {
        a.push(0);
        a_exponent -= 1;
    }
    a_negative == b_negative && a == b
}
