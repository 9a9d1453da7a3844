//! Random documents against slow and simple references.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde::de::IgnoredAny;

use super::documents::{Document, document, leaves, number, same_value, spelled};
use super::{is_canonical, json};

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
