//! What a store holds, and what it is asked to write.

use core::time::Duration;

use crate::{Answer, Epoch, Fingerprint, Revision, Token};

/// One record, without its times: those belong to the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which request the key stands for.
    pub fingerprint: Fingerprint,
    /// Which attempt wrote it.
    pub token: Token,
    /// How many claims the key has seen.
    pub epoch: Epoch,
    /// How far the attempt has come.
    pub state: State,
}

/// How far an attempt has come. *Vacant* is the absence of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Claimed; the attempt runs, or was abandoned.
    InProgress,
    /// Done; retries get this answer.
    Completed(Answer),
    /// The attempt ended badly.
    Failed {
        /// The handler declared that nothing happened.
        no_effect: bool,
    },
    /// Vacant, but the epoch is remembered.
    Released,
}

impl State {
    /// Whether the attempt has said its last word.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        !matches!(self, Self::InProgress)
    }
}

/// A record as a store found it, with the times that the store computed in the same consistent step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which version of the record this is. For an unreadable record: anything that changes with its bytes.
    pub revision: Revision,
    /// How long ago the key was claimed.
    pub age: Duration,
    /// How long the attempt may still be silent; zero once that is over, and for settled records.
    pub lease_left: Duration,
    /// How long until its retention ends; zero where only a live lease keeps it any longer.
    pub retention_left: Duration,
    /// The record, or why it cannot be read.
    pub content: Content,
}

/// The record itself, where it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A record of a format that this version knows.
    Readable(Record),
    /// A record that is there and says nothing. Never to be taken for a vacant key.
    Unreadable(Unreadable),
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Written by another version of this library.
    #[error("the record has the unknown format version {version}")]
    UnknownVersion {
        /// The version byte that stands there.
        version: u8,
    },
    /// The bytes are not what was written.
    #[error("the record is corrupt")]
    Corrupt,
}

/// A record to be written, with its times as durations from the moment of the write.
///
/// # Contract
///
/// With *now* on the store's own clock:
///
/// | state | claimed at | lease | expires |
/// |---|---|---|---|
/// | in progress | now | over at now + lease | at now + retention, never while the lease is alive |
/// | settled, over a record | stays | none | at claimed at + retention, but not before now + retention ÷ 2 |
/// | settled, inserted | now | none | at now + retention |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    record: Record,
    lease: Duration,
    retention: Duration,
    expected_retention: Duration,
}

impl NewRecord {
    /// A claim: in progress, silent for at most `lease`, kept for `retention` (the *unsettled* retention).
    #[must_use]
    pub const fn claim(
        fingerprint: Fingerprint,
        token: Token,
        epoch: Epoch,
        lease: Duration,
        retention: Duration,
    ) -> Self {
        Self {
            record: Record { fingerprint, token, epoch, state: State::InProgress },
            lease,
            retention,
            expected_retention: retention,
        }
    }

    /// Says how long the claim's record will be kept once it is settled, where that is known beforehand.
    ///
    /// It changes nothing that a store promises. A store that sweeps by an index plans with it: an expectation that
    /// comes true is one index entry less for the settlement to write.
    #[must_use]
    pub const fn expecting(mut self, settled_retention: Duration) -> Self {
        self.expected_retention = settled_retention;
        self
    }

    /// A settled record, kept for `retention` from its claim.
    #[must_use]
    pub fn settled(
        fingerprint: Fingerprint,
        token: Token,
        epoch: Epoch,
        settlement: Settlement,
        retention: Duration,
    ) -> Self {
        let state = match settlement {
            Settlement::Completed(answer) => State::Completed(answer),
            Settlement::Failed { no_effect } => State::Failed { no_effect },
            Settlement::Released => State::Released,
        };
        Self {
            record: Record { fingerprint, token, epoch, state },
            lease: Duration::ZERO,
            retention,
            expected_retention: retention,
        }
    }

    /// The same record under another epoch.
    pub(crate) fn with_epoch(mut self, epoch: Epoch) -> Self {
        self.record.epoch = epoch;
        self
    }

    /// The same record, its answer not kept.
    pub(crate) fn without_answer(mut self) -> Self {
        if let State::Completed(answer) = &mut self.record.state {
            *answer = Answer::NotKept;
        }
        self
    }

    /// What to keep.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// How long the attempt may be silent; zero for a settled record.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long to keep it; see the table above for the moment that it counts from.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// How long the record will probably be kept: its retention, unless [`expecting`](Self::expecting) said otherwise.
    #[must_use]
    pub const fn expected_retention(&self) -> Duration {
        self.expected_retention
    }
}

/// How an attempt, or an operator in its place, settles a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Retries get the answer.
    Completed(Answer),
    /// The attempt ended badly.
    Failed {
        /// Nothing happened, and the handler says so.
        no_effect: bool,
    },
    /// Nothing happened; the next request runs.
    Released,
}

/// What [`KeyStore::replace`](crate::KeyStore::replace) writes over a record that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another record in its place: a takeover, or a settlement.
    Record(NewRecord),
    /// More time for a claim in progress, and nothing else.
    Renew {
        /// The lease is over this long after the write.
        lease: Duration,
        /// Where less than half of this retention is left, all of it is left after the write.
        retention: Duration,
    },
}

/// What must hold for a [`Change`] to be written, checked in the same atomic step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The record is in progress **and** its token is this one. What the attempt itself writes under.
    Owner(Token),
    /// The record is still the version that was seen. What a takeover and an operator write under.
    Unchanged(Revision),
}
