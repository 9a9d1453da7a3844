//! How much a store may hold, and what it says when that is reached.

use idem_core::key::LONGEST_KEY;
use idem_core::scope::LONGEST_NAME;

/// How many records a store may hold, and how many bytes they may take.
///
/// The default is 1,000,000 records and 256 MiB, of which the bytes are reached first: at some 400,000 records without
/// an answer.
///
/// ```
/// use idem_memory::{Limits, LimitsError};
///
/// let limits = Limits::default().with_entries(50_000)?.with_bytes(64 << 20)?;
/// assert_eq!((limits.entries(), limits.bytes()), (50_000, 67_108_864));
/// assert_eq!(limits.with_entries(0), Err(LimitsError::NoEntries));
/// # Ok::<(), LimitsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    entries: usize,
    bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 256 << 20 }
    }
}

impl Limits {
    /// At most this many records.
    ///
    /// # Errors
    ///
    /// [`LimitsError::NoEntries`] where it is zero: such a store refuses everything.
    pub const fn with_entries(self, entries: usize) -> Result<Self, LimitsError> {
        if entries == 0 {
            return Err(LimitsError::NoEntries);
        }
        Ok(Self { entries, ..self })
    }

    /// At most this many bytes, but for the answers of claims that are held; see the crate's front page.
    ///
    /// # Errors
    ///
    /// [`LimitsError::TooFewBytes`] where an empty store would refuse the longest key that there may be.
    pub const fn with_bytes(self, bytes: usize) -> Result<Self, LimitsError> {
        if bytes < LEAST_BYTES {
            return Err(LimitsError::TooFewBytes { bytes });
        }
        Ok(Self { bytes, ..self })
    }

    /// Most records.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Most bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes that one record takes besides its key texts and its answer.
pub const ENTRY_BYTES: usize = 640;

/// One claim of the longest key.
const LEAST_BYTES: usize = ENTRY_BYTES + 2 * LONGEST_NAME + LONGEST_KEY;

/// Limits that leave room for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// Zero records.
    #[error("a store of 0 entries refuses every key")]
    NoEntries,
    /// Fewer bytes than one claim may take.
    #[error("a store of {bytes} bytes does not hold one claim of the longest key; it needs at least {LEAST_BYTES}")]
    TooFewBytes {
        /// What was asked for.
        bytes: usize,
    },
}

/// Why a store takes no new key: the source of its [`Full`](idem_core::StoreErrorKind::Full) errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFull {
    /// As many records as there may be.
    #[error("the memory store holds {limit} records, as many as it may")]
    Entries {
        /// [`Limits::entries`].
        limit: usize,
    },
    /// The new record would not fit.
    #[error("the memory store holds {used} of {limit} bytes; the new record needs {needed}")]
    Bytes {
        /// [`Limits::bytes`].
        limit: usize,
        /// Bytes that its records take.
        used: usize,
        /// Bytes that the refused record would have taken.
        needed: usize,
    },
}
