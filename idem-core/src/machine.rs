//! The protocol: what is found and what is asked decide what happens. Pure, synchronous, total.
//!
//! Nothing here waits, writes, or looks at a clock. [`decide`] is asked before a handler runs, [`settle_lost`] when a
//! settling write did not fit any more, [`commit_lost`] when a transaction did not commit as planned, [`resolve`] when an operator settles a claim in its attempt's place.

use core::time::Duration;

use crate::policy::{Abandoned, AfterFailure};
use crate::{
    Answer, Comparison, Content, Epoch, Found, Policy, Record, Refusal, RequestIdentity, Revision, State, Token,
};

/// What to do for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write a claim; the handler runs once it is written.
    Claim {
        /// The epoch of the claim.
        epoch: Epoch,
        /// Over this version of a record that is there; `None`: insert.
        over: Option<Revision>,
        /// An earlier attempt may have had an effect. Whatever this one says of itself, a failure then has its effect
        /// open.
        effect_open: bool,
    },
    /// The claim is the caller's own: an earlier write whose answer was lost.
    Resume {
        /// The epoch of the claim.
        epoch: Epoch,
        /// The lease is over: renew before the handler runs.
        renew_first: bool,
    },
    /// Give the stored answer.
    Replay(Answer),
    /// Refuse.
    Refuse(Refusal),
}

/// Decides for a request that holds `own` and has found `found` under its key.
///
/// Rows are tried in order:
///
/// | found | comparison | decision |
/// |---|---|---|
/// | vacant | – | claim, epoch 1 |
/// | released | – | claim, epoch + 1 |
/// | unreadable | – | refuse: record unreadable |
/// | in progress with the own token | – | resume |
/// | any | profile unknown | refuse: not comparable |
/// | any | differs | refuse: key reused |
/// | in progress, lease alive | same | refuse: in progress |
/// | in progress, lease over | same | by [`Policy::abandoned`]: claim, epoch + 1, or refuse: outcome unknown |
/// | completed | same | replay, or refuse: response not kept |
/// | failed | same | by [`Policy::failed`]: claim, epoch + 1, or refuse: previous attempt failed |
///
/// A claim over an abandoned attempt, or over one that failed with its effect open, leaves that effect open.
#[must_use]
pub fn decide(found: Option<&Found>, request: &dyn RequestIdentity, own: Token, policy: &Policy) -> Decision {
    let Some(found) = found else {
        return Decision::Claim { epoch: Epoch::FIRST, over: None, effect_open: false };
    };
    let record = match &found.content {
        Content::Readable(record) => record,
        Content::Unreadable(why) => return Decision::Refuse(Refusal::RecordUnreadable(*why)),
    };
    let claim_over = Decision::Claim {
        epoch: record.epoch.next(),
        over: Some(found.revision),
        effect_open: matches!(record.state, State::InProgress | State::Failed { no_effect: false }),
    };
    match &record.state {
        State::Released => return claim_over,
        State::InProgress if record.token == own => {
            return Decision::Resume { epoch: record.epoch, renew_first: found.lease_left.is_zero() };
        }
        _ => {}
    }
    match request.compare(&record.fingerprint) {
        Comparison::Same => {}
        Comparison::UnknownProfile => return Decision::Refuse(Refusal::NotComparable),
        // Before "in progress": retrying later can never help.
        Comparison::Differs => return Decision::Refuse(Refusal::KeyReused),
    }
    match &record.state {
        State::InProgress if !found.lease_left.is_zero() => Decision::Refuse(in_progress(found)),
        State::InProgress => match policy.abandoned() {
            Abandoned::Rerun => claim_over,
            Abandoned::Refuse => Decision::Refuse(Refusal::OutcomeUnknown),
        },
        State::Completed(Answer::NotKept) => Decision::Refuse(Refusal::ResponseNotKept),
        State::Completed(answer) => Decision::Replay(answer.clone()),
        State::Failed { no_effect } => match policy.failed() {
            AfterFailure::Rerun => claim_over,
            AfterFailure::Refuse => Decision::Refuse(Refusal::PreviousAttemptFailed { no_effect: *no_effect }),
        },
        State::Released => claim_over,
    }
}

const SHORTEST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Come back after as long as it has run: the wait doubles with each try, and ends with the lease.
fn in_progress(found: &Found) -> Refusal {
    let retry_after = found.age.max(SHORTEST_RETRY).min(found.lease_left).min(LONGEST_RETRY);
    Refusal::InProgress { retry_after }
}

/// Refuses a request whose key another's open transaction holds: it is in progress, and since when cannot be seen.
#[must_use]
pub const fn locked() -> Refusal {
    Refusal::InProgress { retry_after: SHORTEST_RETRY }
}

/// What an attempt does whose settling write was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterLost {
    /// The record says already what was to be written, or there was nothing to remember.
    Done,
    /// The claim is there after all: write again.
    Again,
    /// The key is vacant: insert the settled record, if it still is.
    Insert,
    /// The key was released: write the settled record over that version, under the higher epoch.
    Over(Revision, Epoch),
    /// The key is another attempt's now.
    LeaseLost(InPlaceOfMine),
}

/// What goes out to the client when another attempt has taken the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InPlaceOfMine {
    /// The attempt's own answer: there is none that would be more right.
    OwnAnswer,
    /// The answer of the attempt that completed the same request.
    Answer(Answer),
    /// The same request runs in another attempt.
    Refuse(Refusal),
}

/// Decides for an attempt that wanted to write `mine`, a settled record, as the owner, and found `found` instead.
///
/// | found | mine completed | mine failed | mine released |
/// |---|---|---|---|
/// | vacant | insert | insert | done |
/// | released | over it | over it | done |
/// | settled the same way with the own token | done | done | done |
/// | in progress with the own token | again | again | again |
/// | completed and kept, same request | its answer | own answer | own answer |
/// | in progress, same request | refuse: in progress | own answer | own answer |
/// | anything else, unreadable included | own answer | own answer | own answer |
///
/// The last three rows are a lost lease.
#[must_use]
pub fn settle_lost(found: Option<&Found>, mine: &Record) -> AfterLost {
    let remembers = mine.state != State::Released;
    let Some(found) = found else {
        return if remembers { AfterLost::Insert } else { AfterLost::Done };
    };
    let Content::Readable(theirs) = &found.content else {
        return AfterLost::LeaseLost(InPlaceOfMine::OwnAnswer);
    };
    match &theirs.state {
        State::InProgress if theirs.token == mine.token => return AfterLost::Again,
        State::Released if remembers => return AfterLost::Over(found.revision, theirs.epoch.max(mine.epoch)),
        State::Released => return AfterLost::Done,
        state if theirs.token == mine.token && *state == mine.state => return AfterLost::Done,
        _ => {}
    }
    let same_request = mine.fingerprint.compare(&theirs.fingerprint) == Comparison::Same;
    AfterLost::LeaseLost(match (&mine.state, &theirs.state) {
        (State::Completed(_), State::Completed(Answer::NotKept)) => InPlaceOfMine::OwnAnswer,
        (State::Completed(_), State::Completed(answer)) if same_request => InPlaceOfMine::Answer(answer.clone()),
        (State::Completed(_), State::InProgress) if same_request => InPlaceOfMine::Refuse(in_progress(found)),
        _ => InPlaceOfMine::OwnAnswer,
    })
}

/// What becomes of an attempt whose completion was to be part of its transaction, and was not acknowledged as that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterCommit {
    /// It was committed after all.
    Done,
    /// It was rolled back, and the same request was answered elsewhere.
    Replay(Answer),
    /// It was rolled back, and its request is refused.
    Refuse(Refusal),
    /// It was rolled back, and its request may run again.
    NothingWritten,
}

/// Decides for an attempt that wanted to commit `mine` with its business writes, and found `found` after its
/// transaction was over.
///
/// | found | what goes out |
/// |---|---|
/// | settled the same way with the own token | done |
/// | what a request that comes now would run for, vacant included | nothing was written |
/// | anything else | what a request that comes now would get, by [`decide`] |
///
/// Its own answer goes out in the first row only: everywhere else, what it speaks of was rolled back.
#[must_use]
pub fn commit_lost(found: Option<&Found>, mine: &Record, policy: &Policy) -> AfterCommit {
    if let Some(Content::Readable(theirs)) = found.map(|found| &found.content)
        && theirs.token == mine.token
        && theirs.state == mine.state
    {
        return AfterCommit::Done;
    }
    match decide(found, &mine.fingerprint, mine.token, policy) {
        Decision::Replay(answer) => AfterCommit::Replay(answer),
        Decision::Refuse(refusal) => AfterCommit::Refuse(refusal),
        Decision::Claim { .. } | Decision::Resume { .. } => AfterCommit::NothingWritten,
    }
}

/// Whether an operator may settle what was found, and over which version of it.
///
/// # Errors
///
/// [`NotAClaim`]: only a claim in progress can be resolved. A completed record never changes.
pub fn resolve(found: &Found) -> Result<(Revision, &Record), NotAClaim> {
    match &found.content {
        Content::Readable(record) if !record.state.is_settled() => Ok((found.revision, record)),
        _ => Err(NotAClaim),
    }
}

/// There is no claim in progress to be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only a claim in progress can be resolved; this record is settled or unreadable")]
pub struct NotAClaim;
