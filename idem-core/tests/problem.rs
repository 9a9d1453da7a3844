//! Refusals as problem details: status, type and members of every row.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::time::Duration;

use idem_core::{Certainty, KeyError, Problem, Refusal, StoreError, StoreErrorKind, Unreadable};
use serde_json::{Value, json};

fn refused(refusal: &Refusal) -> Problem {
    Problem::refusal(refusal)
}

fn down(kind: StoreErrorKind) -> Problem {
    Problem::store(&StoreError::not_written(kind, std::fmt::Error), Duration::from_secs(1))
}

fn unavailable(certainty: Certainty) -> StoreError {
    match certainty {
        Certainty::NotWritten => StoreError::not_written(StoreErrorKind::Unavailable, std::fmt::Error),
        Certainty::Unknown => StoreError::unknown(StoreErrorKind::Unavailable, std::fmt::Error),
    }
}

#[test]
fn every_row_has_its_status_type_and_advice() {
    let in_progress = Refusal::InProgress { retry_after: Duration::from_millis(1200) };
    let failed = |no_effect| Refusal::PreviousAttemptFailed { no_effect };
    let rows = [
        (Problem::missing_key(), "missing-key", 400, None),
        (Problem::invalid_key(&KeyError::Empty), "invalid-key", 400, None),
        (Problem::misconfigured(), "misconfigured", 500, None),
        (Problem::body_too_large(10), "body-too-large", 413, None),
        (Problem::body_unreadable(), "body-unreadable", 400, None),
        (refused(&Refusal::KeyReused), "key-reused", 422, None),
        (refused(&in_progress), "in-progress", 409, None),
        (refused(&failed(false)), "previous-attempt-failed", 500, Some(false)),
        (refused(&failed(true)), "previous-attempt-failed", 500, Some(true)),
        (refused(&Refusal::OutcomeUnknown), "outcome-unknown", 409, Some(false)),
        (refused(&Refusal::ResponseNotKept), "response-not-kept", 409, None),
        (refused(&Refusal::NotComparable), "not-comparable", 409, None),
        (refused(&Refusal::RecordUnreadable(Unreadable::Corrupt)), "record-unreadable", 500, None),
        (down(StoreErrorKind::Unavailable), "store-unavailable", 503, None),
        (down(StoreErrorKind::Full), "overloaded", 503, None),
        (Problem::overloaded(Duration::from_secs(1)), "overloaded", 503, None),
        (Problem::commit(&unavailable(Certainty::NotWritten), Duration::from_secs(1)), "store-unavailable", 503, None),
        (Problem::commit(&unavailable(Certainty::Unknown), Duration::from_secs(1)), "store-unavailable", 503, None),
        (Problem::not_committed("The transaction is gone."), "not-committed", 500, None),
    ];
    for (problem, slug, status, safe) in rows {
        assert_eq!((problem.slug, problem.status, problem.safe_to_use_new_key), (slug, status, safe));
        assert!(!problem.title.is_empty() && !problem.detail.is_empty(), "{slug}");
        assert_eq!(problem.retry_after.is_some(), status == 503 || slug == "in-progress", "{slug}");
        let rendered: Value = serde_json::from_str(&problem.to_json("urn:example:")).unwrap();
        assert_eq!(rendered["type"], json!(format!("urn:example:{slug}")));
        assert_eq!(rendered["status"], json!(status));
    }
}

#[test]
fn a_problem_renders_its_advice_as_members() {
    let refusal = Refusal::InProgress { retry_after: Duration::from_millis(1200) };
    let rendered: Value = serde_json::from_str(&refused(&refusal).to_json("urn:example:")).unwrap();
    let expected = json!({
        "type": "urn:example:in-progress",
        "title": "Operation in progress",
        "status": 409,
        "detail": "An earlier request with this key still runs. Retry later with the same key.",
        "retry_after_ms": 1200,
    });
    assert_eq!(rendered, expected);
    let unknown: Value = serde_json::from_str(&refused(&Refusal::OutcomeUnknown).to_json("urn:example:")).unwrap();
    assert_eq!(unknown["safe_to_use_new_key"], json!(false));
}

#[test]
fn retry_after_is_in_whole_seconds_rounded_up_and_at_least_one() {
    let seconds = |wait| Problem::overloaded(wait).retry_after_seconds();
    assert_eq!(seconds(Duration::ZERO), Some(1));
    assert_eq!(seconds(Duration::from_millis(200)), Some(1));
    assert_eq!(seconds(Duration::from_millis(1001)), Some(2));
    assert_eq!(seconds(Duration::from_secs(30)), Some(30));
    assert_eq!(Problem::missing_key().retry_after_seconds(), None);
}

#[test]
fn a_new_key_is_never_recommended_after_an_outcome_that_nobody_knows() {
    for refusal in [Refusal::OutcomeUnknown, Refusal::PreviousAttemptFailed { no_effect: false }] {
        let problem = refused(&refusal);
        assert_eq!(problem.safe_to_use_new_key, Some(false));
        assert!(problem.detail.contains("Check the state"), "{}", problem.detail);
    }
}

#[test]
fn a_commit_that_failed_says_whether_it_is_known_to_have_been_rolled_back() {
    let detail = |certainty| Problem::commit(&unavailable(certainty), Duration::from_secs(1)).detail;
    let rolled_back = detail(Certainty::NotWritten);
    assert!(rolled_back.contains("was rolled back") && rolled_back.contains("same key"), "{rolled_back}");
    let unknown = detail(Certainty::Unknown);
    assert!(unknown.contains("is not known yet") && unknown.contains("same key"), "{unknown}");
}

#[test]
fn an_invalid_key_is_told_which_rule() {
    let problem = Problem::invalid_key(&KeyError::TooShort { length: 3, shortest: 8 });
    assert_eq!(problem.detail, "the key has 3 characters; it needs at least 8.");
}

#[test]
fn a_store_error_says_whether_anything_was_written_and_keeps_its_source() {
    let error = StoreError::unknown(StoreErrorKind::Unavailable, std::fmt::Error);
    assert_eq!(error.certainty(), Certainty::Unknown);
    assert_eq!(error.to_string(), "the key store did not answer in time; whether it wrote is unknown");
    assert!(std::error::Error::source(&error.clone()).is_some());
    let error = StoreError::not_written(StoreErrorKind::Full, std::fmt::Error);
    assert_eq!(error.to_string(), "the key store is full and takes no new keys; nothing was written");
}

#[test]
fn every_problem_type_has_its_anchor_in_the_docs_that_it_links_to() {
    let docs = include_str!("../src/problem.rs");
    let slugs = docs.split("Self::new(").skip(1).filter_map(|call| call.split('"').nth(1));
    let mut count = 0;
    for slug in slugs {
        assert!(docs.contains(&format!("//! ## `{slug}`\n")), "{slug} has no section");
        count += 1;
    }
    assert_eq!(count, 15);
}
