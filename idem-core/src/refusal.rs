//! Why a request was not run, as a value.

use core::time::Duration;

use crate::Unreadable;

/// The protocol's answer to a request that must not run. Never an error: the store did its part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The key stands for another request. Retrying later can never help.
    KeyReused,
    /// Another attempt holds the key and is alive.
    InProgress {
        /// A good moment for the next try, counted from now.
        retry_after: Duration,
    },
    /// The attempt fell silent, and the policy does not run what may have happened.
    OutcomeUnknown,
    /// The attempt failed, and the policy does not run it again.
    PreviousAttemptFailed {
        /// The handler declared that nothing happened: a new key is safe.
        no_effect: bool,
    },
    /// The attempt completed, but its answer was not kept.
    ResponseNotKept,
    /// The record was written under a fingerprint profile that is not configured here.
    NotComparable,
    /// The record cannot be read.
    RecordUnreadable(Unreadable),
}
