//! Policies: presets, and nothing clamped in silence.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::time::Duration;

use idem_core::policy::{LONGEST_DURATION, SHORTEST_LEASE};
use idem_core::{Abandoned, AfterFailure, KeyPresence, Policy, PolicyError, StoreDown};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn strict_is_the_default_and_runs_nothing_twice() {
    let policy = Policy::default();
    assert_eq!(policy, Policy::strict());
    assert_eq!(policy.key(), KeyPresence::Required);
    assert_eq!(policy.abandoned(), Abandoned::Refuse);
    assert_eq!(policy.failed(), AfterFailure::Refuse);
    assert_eq!(policy.store_down(), StoreDown::Refuse);
    assert_eq!(policy.lease(), 30 * SECOND);
    assert_eq!(policy.ceiling(), 900 * SECOND);
    assert_eq!(policy.retention(), 24 * HOUR);
    assert_eq!(policy.unsettled_retention(), 7 * 24 * HOUR);
}

#[test]
fn relaxed_runs_again_where_it_may() {
    let policy = Policy::relaxed();
    assert_eq!(policy.key(), KeyPresence::Optional);
    assert_eq!(policy.abandoned(), Abandoned::Rerun);
    assert_eq!(policy.failed(), AfterFailure::Rerun);
    assert_eq!(policy.store_down(), StoreDown::RunUnprotected);
    assert_eq!(policy.retention(), Policy::strict().retention());
}

#[test]
fn both_presets_pass_their_own_validation() {
    assert_eq!(Policy::strict().customize().build(), Ok(Policy::strict()));
    assert_eq!(Policy::relaxed().customize().build(), Ok(Policy::relaxed()));
}

#[test]
fn a_lease_of_zero_is_an_error_and_not_none() {
    let error = Policy::strict().customize().lease(Duration::ZERO).build();
    assert_eq!(error, Err(PolicyError::LeaseTooShort { lease: Duration::ZERO }));
    assert!(Policy::strict().customize().lease(SHORTEST_LEASE).build().is_ok());
}

#[test]
fn a_lease_must_be_below_the_retention() {
    let with = |lease, retention| Policy::strict().customize().lease(lease).retention(retention).build();
    let error = PolicyError::LeaseOutlivesRetention { lease: 30 * SECOND, retention: 30 * SECOND };
    assert_eq!(with(30 * SECOND, 30 * SECOND), Err(error));
    assert!(with(30 * SECOND, 31 * SECOND).is_ok());
    assert!(matches!(with(30 * SECOND, Duration::ZERO), Err(PolicyError::LeaseOutlivesRetention { .. })));
}

#[test]
fn an_attempt_may_run_at_least_one_lease() {
    let error = Policy::strict().customize().ceiling(29 * SECOND).build();
    assert_eq!(error, Err(PolicyError::CeilingUnderLease { ceiling: 29 * SECOND, lease: 30 * SECOND }));
}

#[test]
fn an_unsettled_claim_is_kept_at_least_as_long_as_a_settled_record() {
    let error = Policy::strict().customize().unsettled_retention(23 * HOUR).build();
    let expected = PolicyError::UnsettledForgottenFirst { unsettled_retention: 23 * HOUR, retention: 24 * HOUR };
    assert_eq!(error, Err(expected));
}

#[test]
fn durations_stay_inside_what_clocks_can_add() {
    let forever = Policy::strict().customize().unsettled_retention(Duration::MAX).build();
    assert_eq!(forever, Err(PolicyError::TooLong { name: "unsettled retention", duration: Duration::MAX }));
    let ceiling = Policy::strict().customize().ceiling(Duration::MAX).build();
    assert_eq!(ceiling, Err(PolicyError::TooLong { name: "ceiling", duration: Duration::MAX }));
    assert!(Policy::strict().customize().unsettled_retention(LONGEST_DURATION).build().is_ok());
}
