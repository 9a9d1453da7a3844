//! The key header: both spellings, and every rule by its own error.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use idem_core::{IdempotencyKey, KeyError, KeyFormat};
use proptest::prelude::*;

fn error(text: impl AsRef<[u8]>) -> KeyError {
    IdempotencyKey::parse(text).expect_err("the key breaks a rule")
}

#[test]
fn the_raw_and_the_quoted_spelling_name_one_key() {
    let raw = IdempotencyKey::parse("8e03978e-40d5-43dd-bc93-6894a57f9324").unwrap();
    let quoted = IdempotencyKey::parse("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"").unwrap();
    assert_eq!(raw, quoted);
    assert_eq!(raw.as_str(), "8e03978e-40d5-43dd-bc93-6894a57f9324");
}

#[test]
fn blanks_around_the_key_are_not_part_of_it() {
    let key = IdempotencyKey::parse("order-4711").unwrap();
    assert_eq!(IdempotencyKey::parse(" \torder-4711 "), Ok(key.clone()));
    assert_eq!(IdempotencyKey::parse(" \"order-4711\"\t"), Ok(key));
}

#[test]
fn keys_are_case_sensitive() {
    assert_ne!(IdempotencyKey::parse("ORDER-4711"), IdempotencyKey::parse("order-4711"));
}

#[test]
fn every_broken_rule_has_its_own_error() {
    assert_eq!(error(""), KeyError::Empty);
    assert_eq!(error("  "), KeyError::Empty);
    assert_eq!(error("\"\""), KeyError::Empty);
    assert_eq!(error("1234567"), KeyError::TooShort { length: 7, shortest: 8 });
    assert_eq!(error("k".repeat(129)), KeyError::TooLong { length: 129, longest: 128 });
    assert_eq!(error("order-4711,order-4712"), KeyError::Repeated);
    assert_eq!(error("\"order-4711\", \"order-4712\""), KeyError::Repeated);
    assert_eq!(error("order-4711;v=1"), KeyError::Parameters);
    assert_eq!(error("\"order-4711\";v=1"), KeyError::Parameters);
    assert_eq!(error("\"order-4711\" ;v=1"), KeyError::Parameters);
    assert_eq!(error("order-4711-ü"), KeyError::NotAscii { position: 11 });
    assert_eq!(error(b"order-4711-\xff"), KeyError::NotAscii { position: 11 });
    assert_eq!(error("order 4711"), KeyError::ForbiddenCharacter { position: 5, character: ' ' });
    assert_eq!(error("order\x004711"), KeyError::ForbiddenCharacter { position: 5, character: '\0' });
    assert_eq!(error("order\x7f4711"), KeyError::ForbiddenCharacter { position: 5, character: '\x7f' });
    assert_eq!(error("order\\4711"), KeyError::ForbiddenCharacter { position: 5, character: '\\' });
    assert_eq!(error("order4711\""), KeyError::ForbiddenCharacter { position: 9, character: '"' });
    assert_eq!(error("\"order\\\"4711\""), KeyError::ForbiddenCharacter { position: 5, character: '\\' });
    assert_eq!(error("\"order-4711"), KeyError::Unterminated);
    assert_eq!(error("\""), KeyError::Unterminated);
    assert_eq!(error("\"order-4711\"x"), KeyError::TrailingCharacters);
}

#[test]
fn the_shortest_and_the_longest_key_are_keys() {
    assert!(IdempotencyKey::parse("12345678").is_ok());
    assert!(IdempotencyKey::parse("k".repeat(128)).is_ok());
}

#[test]
fn a_header_that_stands_twice_is_refused_also_with_the_same_value() {
    let format = KeyFormat::default();
    let twice: [&[u8]; 2] = [b"order-4711", b"order-4711"];
    assert_eq!(format.parse_header(twice), Err(KeyError::Repeated));
    assert_eq!(format.parse_header([]), Ok(None));
    let once: [&[u8]; 1] = [b"order-4711"];
    assert_eq!(format.parse_header(once).unwrap().unwrap().as_str(), "order-4711");
}

#[test]
fn a_format_can_ask_for_more_but_not_for_nothing() {
    assert_eq!(KeyFormat::new(1, 3).unwrap().parse("abc").unwrap().as_str(), "abc");
    assert!(KeyFormat::new(0, 3).is_err());
    assert!(KeyFormat::new(4, 3).is_err());
    assert!(KeyFormat::new(8, 256).is_err());
    let uuid = KeyFormat::uuid();
    assert!(uuid.parse("8e03978e-40d5-43dd-bc93-6894a57f9324").is_ok());
    let error = uuid.parse("8e03978e-40d5-43dd-bc93-6894a57f932z").unwrap_err();
    assert_eq!(error.to_string(), "the key must be a UUID");
    let even = KeyFormat::default().and("of even length", |key| key.len() % 2 == 0);
    assert_eq!(even.parse("123456789"), Err(KeyError::Rule { rule: "of even length" }));
    let lower = KeyFormat::uuid().and("lower case", |key| !key.bytes().any(|byte| byte.is_ascii_uppercase()));
    assert_eq!(lower.parse("x".repeat(36)), Err(KeyError::Rule { rule: "a UUID" }), "rules add up");
    assert!(lower.parse("8E03978e-40d5-43dd-bc93-6894a57f9324").is_err());
}

#[test]
fn logs_show_a_hash_instead_of_the_key() {
    let key = IdempotencyKey::parse("card-4111111111111111").unwrap();
    assert!(!format!("{key:?}").contains("4111"), "{key:?}");
    let error = error("card-4111111111111111;secret");
    assert!(!format!("{error} {error:?}").contains("4111"));
}

/// What the format says, said again without the parser's order of checks.
fn is_key(text: &[u8]) -> bool {
    (8..=128).contains(&text.len()) && text.iter().all(|byte| (0x21..=0x7e).contains(byte) && !b"\",;\\".contains(byte))
}

proptest! {
    #[test]
    fn exactly_the_keys_of_the_format_are_accepted(text in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..140),
        "[!-~]{0,140}".prop_map(String::into_bytes),
        "[a-z0-9-]{6,130}".prop_map(String::into_bytes),
    ]) {
        let quoted = [b"\"", text.as_slice(), b"\""].concat();
        if is_key(&text) {
            let key = IdempotencyKey::parse(&text).unwrap();
            prop_assert_eq!(key.as_str().as_bytes(), text.as_slice());
            prop_assert_eq!(IdempotencyKey::parse(&quoted), Ok(key));
        } else {
            let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
            if text.first().is_none_or(|byte| !blank(byte) && *byte != b'"') && text.last().is_none_or(|byte| !blank(byte)) {
                prop_assert!(IdempotencyKey::parse(&text).is_err());
            }
            prop_assert!(IdempotencyKey::parse(&quoted).is_err());
        }
    }

    #[test]
    fn what_is_accepted_parses_to_itself(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(key) = IdempotencyKey::parse(&text) {
            prop_assert_eq!(IdempotencyKey::parse(key.as_str()), Ok(key));
        }
    }
}
