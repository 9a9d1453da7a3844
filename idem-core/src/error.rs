//! What a store says when it could not.

use core::fmt;
use std::sync::Arc;

/// A store could not do what it was asked. A refusal is never one of these: that is a value.
///
/// `Clone`, because one failed round trip may be the failure of many grouped writes.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    certainty: Certainty,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Why the store could not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No connection, no answer in time, no pool slot in time: worth a retry.
    Unavailable,
    /// The store is full; it refuses new keys rather than drop a claim or a stored answer.
    Full,
    /// Others won every bounded round of a race for this key: worth a retry.
    Contended,
    /// Somebody's open transaction holds this key: to a request that is *in progress*, to a settlement worth a retry.
    Locked,
    /// The database had aborted the transaction before its commit: whatever was written in it is rolled back.
    Aborted,
    /// The store is set up wrongly: a missing table, a wrong eviction policy, a rejected login.
    Misconfigured,
    /// Anything else, a defect of the store among it.
    Other,
}

/// Whether a failed write may have happened all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certainty {
    /// Nothing was written.
    NotWritten,
    /// The request may have reached the store; only the answer is missing.
    Unknown,
}

impl StoreError {
    /// The store could not, and certainly wrote nothing.
    pub fn not_written(kind: StoreErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { kind, certainty: Certainty::NotWritten, source: Some(Arc::new(source)) }
    }

    /// The store gave no answer that tells whether it wrote.
    pub fn unknown(kind: StoreErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { kind, certainty: Certainty::Unknown, source: Some(Arc::new(source)) }
    }

    /// The driver's own error: no source beneath it.
    pub(crate) const fn bare(kind: StoreErrorKind, certainty: Certainty) -> Self {
        Self { kind, certainty, source: None }
    }

    /// The same error of a call that cannot have written, or of one whose writes are known to be undone.
    pub(crate) fn with_nothing_written(mut self) -> Self {
        self.certainty = Certainty::NotWritten;
        self
    }

    /// Why the store could not.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the same call may succeed a moment later.
    #[must_use]
    pub const fn is_worth_a_retry(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Contended | StoreErrorKind::Locked)
    }

    /// Whether the write may have happened all the same.
    #[must_use]
    pub const fn certainty(&self) -> Certainty {
        self.certainty
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Unavailable => "the key store did not answer in time",
            StoreErrorKind::Full => "the key store is full and takes no new keys",
            StoreErrorKind::Contended => "the key store lost every round of a race for this key",
            StoreErrorKind::Locked => "another transaction holds this key in the key store",
            StoreErrorKind::Aborted => "the transaction had been aborted before its commit",
            StoreErrorKind::Misconfigured => "the key store is set up wrongly",
            StoreErrorKind::Other => "the key store failed",
        })?;
        f.write_str(match self.certainty {
            Certainty::NotWritten => "; nothing was written",
            Certainty::Unknown => "; whether it wrote is unknown",
        })
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
