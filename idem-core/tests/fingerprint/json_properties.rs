//! Random documents against slow and simple references.

use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde::de::IgnoredAny;

use super::{is_canonical, json};

/// A document whose numbers are exact: digits and a power of ten.
#[derive(Clone, Debug, PartialEq)]
enum Document {
    Null,
    Bool(bool),
    Number { negative: bool, digits: Vec<u8>, exponent: i128 },
    Text(String),
    Array(Vec<Document>),
    Object(Vec<(String, Document)>),
}

fn number() -> impl Strategy<Value = Document> {
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

fn document() -> impl Strategy<Value = Document> {
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

fn spelled(document: &Document, choices: Vec<u8>) -> String {
    let mut out = String::new();
    write(document, &mut Choices { bytes: choices, next: 0 }, &mut out);
    out
}

/// Every single value of a document, to be changed one at a time.
fn leaves(document: &mut Document) -> Vec<&mut Document> {
    match document {
        Document::Array(elements) => elements.iter_mut().flat_map(leaves).collect(),
        Document::Object(members) => members.iter_mut().flat_map(|(_, value)| leaves(value)).collect(),
        leaf => vec![leaf],
    }
}

/// Whether two numbers are one value, by moving the digits of the one with the larger exponent until the exponents meet.
fn same_value(a: &Document, b: &Document) -> bool {
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

/// What the generator of [`near_json`] is made of.
const PIECES: [&str; 48] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "null",
    "true",
    "false",
    "nul",
    "0",
    "-0",
    "1",
    "12",
    "-",
    "+",
    ".",
    "e",
    "E",
    "1.5",
    "1e5",
    "01",
    "1e+",
    "\"a\"",
    "\"b\"",
    "\"\\u0061\"",
    "\"\\n\"",
    "\"\\x\"",
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud834\\udd1e\"",
    "\"é\"",
    " ",
    "\n",
    "\t",
    "\u{b}",
    "\u{feff}",
    "\0",
    "\"\u{1}\"",
    "{\"a\":",
    "\"a\":1",
    "\"b\":2",
    "[1",
    "[]",
    "{}",
    "1e-5",
];

/// Text that is often nearly JSON: a document in which pieces were replaced, or pieces alone.
fn near_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0..PIECES.len()).prop_map(|place| PIECES[place]);
    let pieces = vec(piece.clone(), 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    let damaged = (document(), vec(any::<u8>(), 1..40), any::<usize>(), 0_usize..3, piece).prop_map(
        |(document, choices, place, removed, piece)| {
            let mut bytes = spelled(&document, choices).into_bytes();
            let start = place % (bytes.len() + 1);
            let end = (start + removed).min(bytes.len());
            bytes.splice(start..end, piece.bytes());
            bytes
        },
    );
    prop_oneof![pieces, damaged]
}

/// Whether an object has a name twice; asked of documents that `serde_json` reads.
fn has_duplicate_names(document: &[u8]) -> bool {
    struct Names;
    impl<'de> serde::de::DeserializeSeed<'de> for Names {
        type Value = bool;
        fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
            deserializer.deserialize_any(self)
        }
    }
    impl<'de> serde::de::Visitor<'de> for Names {
        type Value = bool;
        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("JSON")
        }
        fn visit_unit<E>(self) -> Result<bool, E> {
            Ok(false)
        }
        fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
            Ok(false)
        }
        fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
            Ok(false)
        }
        fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
            Ok(false)
        }
        fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
            Ok(false)
        }
        fn visit_str<E>(self, _: &str) -> Result<bool, E> {
            Ok(false)
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
            let mut found = false;
            while let Some(inside) = elements.next_element_seed(Names)? {
                found |= inside;
            }
            Ok(found)
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
            let mut found = false;
            let mut seen = std::collections::BTreeSet::new();
            while let Some(name) = members.next_key::<String>()? {
                found |= !seen.insert(name);
                found |= members.next_value_seed(Names)?;
            }
            Ok(found)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_slice(document);
    serde::de::DeserializeSeed::deserialize(Names, &mut deserializer).unwrap_or(false)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn every_spelling_of_a_document_has_its_fingerprint(
        document in document(), one in vec(any::<u8>(), 1..60), other in vec(any::<u8>(), 1..60)
    ) {
        let (one, other) = (spelled(&document, one), spelled(&document, other));
        prop_assert!(is_canonical(one.as_bytes()), "{}", one);
        prop_assert_eq!(json(&one), json(&other), "{} and {}", one, other);
    }

    #[test]
    fn a_changed_value_changes_the_fingerprint(
        original in document(), place in any::<usize>(), value in document(), choices in vec(any::<u8>(), 1..60)
    ) {
        let mut changed = original.clone();
        let mut leaves = leaves(&mut changed);
        if leaves.is_empty() {
            return Ok(());
        }
        let place = place % leaves.len();
        let same = match (&*leaves[place], &value) {
            (a @ Document::Number { .. }, b @ Document::Number { .. }) => same_value(a, b),
            (a, b) => spelled(a, vec![0]) == spelled(b, vec![0]),
        };
        *leaves[place] = value;
        let (a, b) = (spelled(&original, choices.clone()), spelled(&changed, choices));
        prop_assert_eq!(json(&a) == json(&b), same, "{} and {}", a, b);
    }

    #[test]
    fn a_renamed_member_changes_the_fingerprint(value in document(), a in ".{0,12}", b in ".{0,12}") {
        let under = |name: &str| spelled(&Document::Object(vec![(name.to_owned(), value.clone())]), vec![0]);
        prop_assert_eq!(json(under(&a)) == json(under(&b)), a == b);
    }

    #[test]
    fn numbers_are_equal_if_and_only_if_their_exact_values_are(
        a in number(), b in number(), zeros in 0_usize..5, one in vec(any::<u8>(), 1..12), other in vec(any::<u8>(), 1..12)
    ) {
        prop_assert_eq!(json(spelled(&a, one.clone())) == json(spelled(&b, other.clone())), same_value(&a, &b));

        // Random pairs are hardly ever equal: one that is, and one next to it that is not.
        let Document::Number { negative, mut digits, exponent } = a.clone() else { return Ok(()) };
        digits.extend(vec![0; zeros]);
        let equal = Document::Number { negative, digits: digits.clone(), exponent: exponent - zeros as i128 };
        prop_assert!(same_value(&a, &equal));
        prop_assert_eq!(json(spelled(&a, one.clone())), json(spelled(&equal, other.clone())));
        if let Some(last) = digits.last_mut() {
            *last ^= 1;
        }
        let near = Document::Number { negative, digits, exponent: exponent - zeros as i128 };
        prop_assert!(!same_value(&a, &near));
        prop_assert!(json(spelled(&a, one)) != json(spelled(&near, other)));
    }

    #[test]
    fn what_is_json_is_decided_as_serde_json_decides_it(document in near_json()) {
        // Where `serde_json` is of another opinion, its reason is a number out of range or a lone surrogate; for values
        // that are skipped it checks neither, nor UTF-8.
        let well_formed = serde_json::from_slice::<IgnoredAny>(&document).is_ok() && core::str::from_utf8(&document).is_ok();
        let expected = match serde_json::from_slice::<serde_json::Value>(&document) {
            Ok(_) => !has_duplicate_names(&document),
            Err(error) => well_formed && error.to_string().starts_with("number out of range"),
        };
        if serde_json::from_slice::<serde_json::Value>(&document).is_err() && expected {
            // Duplicates behind such a number are not looked for.
            return Ok(());
        }
        prop_assert_eq!(is_canonical(&document), expected, "{}", String::from_utf8_lossy(&document));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200), content_type in ".{0,40}") {
        let profiles = [super::ignoring(["/a/*", "/*/b"]), super::selecting(["/a/*", "/*/b"])];
        let types = ["application/json", "application/x-www-form-urlencoded", "multipart/mixed; boundary=a", &content_type];
        for profile in &profiles {
            for content_type in types {
                super::posted(profile, content_type, bytes.clone());
            }
        }
    }

    #[test]
    fn damaged_json_and_multipart_make_nothing_panic(document in near_json(), cut in any::<usize>()) {
        let cut = &document[..cut % (document.len() + 1)];
        json(cut);
        let multipart = [b"--a\r\nA: b\r\n\r\n", cut, b"\r\n--a\r\n", cut, b"--a--"].concat();
        super::posted(&super::ignoring(["/a/*"]), "multipart/mixed; boundary=a", multipart);
    }
}
