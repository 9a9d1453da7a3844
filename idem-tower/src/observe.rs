//! What operators see: counters, gauges, log lines. Keys and principals only as a digest.

use core::error::Error;
use core::fmt;
use std::sync::Arc;

use idem_core::{Event, Observer, Route, ScopedKey, StoreError};
use metrics::{SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};

pub(crate) const REQUESTS: &str = "idempotency_requests_total";
pub(crate) const STORE_SECONDS: &str = "idempotency_store_seconds";
pub(crate) const IN_FLIGHT: &str = "idempotency_in_flight";
pub(crate) const LEASE_LOST: &str = "idempotency_lease_lost_total";
pub(crate) const COMPLETION_RETRIES: &str = "idempotency_completion_retries_total";

/// Gives the recorder that is installed the units and descriptions of this crate's metrics, and starts its counters of
/// trouble at zero. Call it once, after the
/// recorder is installed; the metrics work without it.
pub fn describe_metrics() {
    describe_counter!(REQUESTS, Unit::Count, "Requests that the idempotency layer has handled, by route and outcome.");
    describe_histogram!(STORE_SECONDS, Unit::Seconds, "Time that one call of the key store took, by operation.");
    describe_gauge!(IN_FLIGHT, Unit::Count, "Attempts that run right now.");
    describe_counter!(LEASE_LOST, Unit::Count, "Attempts that could no longer count on their lease.");
    describe_counter!(COMPLETION_RETRIES, Unit::Count, "Settling writes that the store did not take at once.");
    // Alerts watch these two, and a counter that is not there yet looks like a scrape that has failed.
    counter!(LEASE_LOST).absolute(0);
    counter!(COMPLETION_RETRIES).absolute(0);
}

/// How a request ended, as `idempotency_requests_total` counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Completed,
    CompletedNotKept,
    Released,
    Failed,
    /// What it did in its transaction is undone, and nothing is recorded of it.
    RolledBack,
    Panicked,
    /// Another attempt took the key while this one ran.
    LeaseLost,
    /// The policy ran it while the store is down.
    Unprotected,
    Replayed,
    /// The key is optional, and there was none.
    WithoutKey,
    /// A hook of the application answered.
    Denied,
    /// The inner service said that it cannot serve, before anything was claimed.
    NotReady,
    /// A problem, by its slug.
    Problem(&'static str),
}

impl Outcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::CompletedNotKept => "completed-not-kept",
            Self::Released => "released",
            Self::Failed => "failed",
            Self::RolledBack => "rolled-back",
            Self::Panicked => "panicked",
            Self::LeaseLost => "lease-lost",
            Self::Unprotected => "unprotected",
            Self::Replayed => "replayed",
            Self::WithoutKey => "without-key",
            Self::Denied => "denied",
            Self::NotReady => "not-ready",
            Self::Problem(slug) => slug,
        }
    }
}

/// Counts one request. `None` where the route is not known.
pub(crate) fn count(route: Option<&Route>, outcome: Outcome) {
    let route = route.map_or("unknown", Route::as_str);
    let route = SharedString::from(Arc::<str>::from(route));
    counter!(REQUESTS, "route" => route, "outcome" => outcome.as_str()).increment(1);
}

/// Counts an attempt as running until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedInFlight(());

impl CountedInFlight {
    pub(crate) fn new() -> Self {
        gauge!(IN_FLIGHT).increment(1.0);
        Self(())
    }
}

impl Drop for CountedInFlight {
    fn drop(&mut self) {
        gauge!(IN_FLIGHT).decrement(1.0);
    }
}

/// The span that covers one protected request, and its attempt.
pub(crate) fn span(key: &ScopedKey) -> tracing::Span {
    let span = tracing::info_span!(
        "idempotency",
        route = key.route().as_str(),
        key = %Digest(key),
        outcome = tracing::field::Empty,
        epoch = tracing::field::Empty,
    );
    // Where this span is filtered out, the task of the attempt still belongs to the span that the request came in.
    if span.is_disabled() { tracing::Span::current() } else { span }
}

/// The start of a key's digest: enough to find a request in the log, too little to find the key.
pub(crate) struct Digest<'a>(pub(crate) &'a ScopedKey);

impl fmt::Display for Digest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.digest()[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An error and what is beneath it, in one line: a store's own words are in its sources.
pub(crate) struct Causes<'a>(pub(crate) &'a StoreError);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)?;
        let mut cause = self.0.source();
        while let Some(beneath) = cause {
            write!(f, ": {beneath}")?;
            cause = beneath.source();
        }
        Ok(())
    }
}

/// Tells metrics and log what the driver has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reporter;

impl Observer for Reporter {
    fn observe(&self, key: &ScopedKey, event: &Event) {
        let (route, digest) = (key.route().as_str(), Digest(key));
        match event {
            Event::LeaseLost => {
                counter!(LEASE_LOST).increment(1);
                tracing::warn!(route, key = %digest, "another attempt has taken the idempotency key");
            }
            Event::LeaseSilent => {
                counter!(LEASE_LOST).increment(1);
                tracing::warn!(route, key = %digest, "renewals get no answer; the lease is as good as over");
            }
            Event::SettlingRetried(error) => {
                counter!(COMPLETION_RETRIES).increment(1);
                let error = Causes(error);
                tracing::warn!(route, key = %digest, %error, "the outcome is not written yet; it will be tried again");
            }
            Event::OwedWriteGivenUp => {
                tracing::error!(route, key = %digest, "an outcome was never written; its claim stays");
            }
            Event::CommitUnknown(error) => {
                let error = Causes(error);
                tracing::warn!(route, key = %digest, %error, "the reply to a commit was lost; it is being looked up");
            }
            Event::NotRemembered(error) => {
                let error = Causes(error);
                tracing::warn!(route, key = %digest, %error, "an answer was not remembered; its retry will run again");
            }
            Event::RanUnprotected(error) => {
                let error = Causes(error);
                tracing::warn!(route, key = %digest, %error, "the key store is down; running without protection");
            }
            event => tracing::warn!(route, key = %digest, ?event, "an event of the idempotency driver"),
        }
    }
}
