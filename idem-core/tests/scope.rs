//! Scopes never meet, whatever their parts contain.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use idem_core::key::{KeyFormat, LONGEST_KEY};
use idem_core::scope::LONGEST_NAME;
use idem_core::{IdempotencyKey, Principal, Route, ScopeError, ScopedKey};
use proptest::prelude::*;

fn scoped(principal: &str, route: &str, key: &str) -> ScopedKey {
    let key = KeyFormat::new(1, LONGEST_KEY).unwrap().parse(key).unwrap();
    ScopedKey::new(Principal::new(principal).unwrap(), Route::new(route).unwrap(), key)
}

#[test]
fn another_principal_route_or_key_is_another_scope() {
    let base = scoped("alice", "/payments", "order-4711");
    for other in [
        scoped("bob", "/payments", "order-4711"),
        scoped("alice", "/refunds", "order-4711"),
        scoped("alice", "/payments", "order-4712"),
    ] {
        assert_ne!(base, other);
        assert_ne!(base.digest(), other.digest());
    }
    assert_eq!(base, scoped("alice", "/payments", "order-4711"));
    assert_eq!(base.digest(), scoped("alice", "/payments", "order-4711").digest());
}

#[test]
fn delimiters_inside_the_parts_do_not_make_two_scopes_equal() {
    assert_ne!(scoped("a:b", "c", "key").digest(), scoped("a", "b:c", "key").digest());
    assert_ne!(scoped("ab", "c", "key").digest(), scoped("a", "bc", "key").digest());
    assert_ne!(scoped("a", "b/k", "key").digest(), scoped("a", "b", "k/key").digest());
}

#[test]
fn the_shared_principal_equals_no_name() {
    let key = IdempotencyKey::parse("order-4711").unwrap();
    let route = Route::new("/payments").unwrap();
    let shared = ScopedKey::new(Principal::shared(), route.clone(), key.clone());
    for name in ["shared", "anonymous", "-", "0"] {
        let named = ScopedKey::new(Principal::new(name).unwrap(), route.clone(), key.clone());
        assert_ne!(shared, named);
        assert_ne!(shared.digest(), named.digest());
    }
    assert_eq!(Principal::shared().name(), None);
}

#[test]
fn the_encoding_is_pinned() {
    let digest = scoped("alice", "/payments", "order-4711").digest().map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(digest, "6618c6a96994dbe9cd53185ef02e4e0bbb1c7e6026ac7e436654e659c3ad11e6");
    let derived = scoped("alice", "/payments", "order-4711").derive_key("charge-card");
    assert_eq!(derived.as_str(), "5ae985b3-d427-8a4b-abc1-5e3a0be698fc");
}

#[test]
fn names_are_bounded_and_free_of_control_characters() {
    assert_eq!(Principal::new(""), Err(ScopeError::Empty { what: "principal" }));
    assert_eq!(Route::new(""), Err(ScopeError::Empty { what: "route" }));
    assert!(Principal::new("p".repeat(LONGEST_NAME)).is_ok());
    let error = ScopeError::TooLong { what: "principal", length: LONGEST_NAME + 1 };
    assert_eq!(Principal::new("p".repeat(LONGEST_NAME + 1)), Err(error));
    for text in ["a\0b", "a\nb", "a\u{85}b"] {
        assert_eq!(Route::new(text), Err(ScopeError::ControlCharacter { what: "route", position: 1 }));
    }
}

#[test]
fn logs_show_hashes_instead_of_names() {
    let key = scoped("alice@example.com", "/payments", "card-4111111111111111");
    let text = format!("{key:?} {:?}", key.principal());
    assert!(!text.contains("alice") && !text.contains("4111"), "{text}");
    assert!(text.contains("/payments"), "a route is no secret: {text}");
}

#[test]
fn derived_keys_differ_by_label_and_scope_and_are_keys_themselves() {
    let alice = scoped("alice", "/payments", "order-4711");
    let derived = alice.derive_key("charge-card");
    assert_eq!(derived, alice.derive_key("charge-card"), "the same on every attempt");
    assert_ne!(derived, alice.derive_key("send-receipt"));
    assert_ne!(derived, scoped("bob", "/payments", "order-4711").derive_key("charge-card"));
    assert!(KeyFormat::uuid().parse(derived.as_str()).is_ok(), "{}", derived.as_str());
    assert_eq!(&derived.as_str()[14..15], "8", "a UUID of version 8");
}

proptest! {
    #[test]
    fn digests_are_equal_exactly_for_equal_scopes(
        parts in proptest::collection::vec("[ab:/\u{e4}]{1,3}", 4),
        keys in proptest::collection::vec("[ab:/]{1,3}", 2),
    ) {
        let one = scoped(&parts[0], &parts[1], &keys[0]);
        let two = scoped(&parts[2], &parts[3], &keys[1]);
        let equal = parts[0] == parts[2] && parts[1] == parts[3] && keys[0] == keys[1];
        prop_assert_eq!(one == two, equal);
        prop_assert_eq!(one.digest() == two.digest(), equal);
    }
}
