use std::panic::{AssertUnwindSafe, resume_unwind};

use bytes::Bytes;
use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Begin, Directive, Idempotency, Running, Settled, Timer};
use crate::{Answer, InPlaceOfMine, Refusal, RequestIdentity, ScopedKey, Settlement, StoreError, Unreadable};

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled<V, E> {
    /// Done; retries get this value.
    Complete(V),
    /// Done; the value is for this caller only, and retries are refused with *response not kept*.
    CompleteNotKept(V),
    /// Provably nothing happened; the next request runs.
    Release(E),
    /// Failed; whether anything happened is open.
    Fail(E),
    /// Failed, and provably nothing happened.
    FailWithoutEffect(E),
}

/// What the caller gets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the handler may not have run"]
pub enum Outcome<V, E> {
    /// The handler ran, and completed.
    Completed(V),
    /// An earlier attempt has completed: its value.
    Replayed(V),
    /// The handler ran, and released the key.
    Released(E),
    /// The handler ran, and failed.
    Failed(E),
    /// Nothing ran.
    Refused(Refusal),
}

impl<T: Timer> Idempotency<T> {
    /// Runs the handler at most once per key, and gives its value to every retry.
    ///
    /// The value is kept as JSON. One that cannot be encoded is returned all the same, and counts as not kept: the
    /// operation has happened. One that cannot be decoded any more is refused as unreadable.
    ///
    /// The future need not be `Send`.
    ///
    /// # Errors
    ///
    /// Where the key could not be claimed; the handler did not run. A store that fails after the handler is no error:
    /// see [`Attempt::settle`](crate::Attempt::settle).
    ///
    /// # Cancellation
    ///
    /// Dropped while the handler runs, the claim stays and is abandoned; a handler that must not stop half-way runs
    /// in a task of its own.
    ///
    /// # Panics
    ///
    /// A panic of the handler goes on to the caller, after the attempt was recorded as failed.
    pub async fn run<V, E, F>(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
        handler: F,
    ) -> Result<Outcome<V, E>, StoreError>
    where
        V: Serialize + DeserializeOwned,
        F: AsyncFnOnce(Running) -> Handled<V, E>,
    {
        self.run_with(key, request, handler, to_json, from_json).await
    }

    /// As [`run`](Self::run), for a handler that makes the [`Answer`] itself.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_answer<E, F>(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
        handler: F,
    ) -> Result<Outcome<Answer, E>, StoreError>
    where
        F: AsyncFnOnce(Running) -> Handled<Answer, E>,
    {
        self.run_with(key, request, handler, Answer::clone, Some).await
    }

    async fn run_with<V, E, F>(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
        handler: F,
        encode: impl FnOnce(&V) -> Answer,
        decode: impl FnOnce(Answer) -> Option<V>,
    ) -> Result<Outcome<V, E>, StoreError>
    where
        F: AsyncFnOnce(Running) -> Handled<V, E>,
    {
        let attempt = match self.begin(key, request).await? {
            Begin::Run(attempt) => attempt,
            Begin::Replay(answer) => return Ok(replayed(decode(answer))),
            Begin::Refuse(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        let running = attempt.running().clone();
        // In a block of its own, so that what a handler does before its first await is caught as well.
        let for_handler = running.clone();
        let handled = AssertUnwindSafe(async move { handler(for_handler).await }).catch_unwind();
        let handled = match attempt.drive(handled).await {
            Ok(handled) => handled,
            Err(panic) => {
                attempt.settle(settlement_of_failure(&running, false)).await;
                resume_unwind(panic);
            }
        };
        let settlement = match &handled {
            Handled::Complete(value) => declared(&running).unwrap_or_else(|| {
                let answer = if running.is_not_to_be_kept() { Answer::NotKept } else { encode(value) };
                Settlement::Completed(answer)
            }),
            Handled::CompleteNotKept(_) => declared(&running).unwrap_or(Settlement::Completed(Answer::NotKept)),
            Handled::Release(_) => Settlement::Released,
            Handled::Fail(_) => settlement_of_failure(&running, false),
            Handled::FailWithoutEffect(_) => settlement_of_failure(&running, true),
        };
        match attempt.settle(settlement).await {
            Settled::LeaseLost(InPlaceOfMine::Answer(answer)) => return Ok(replayed(decode(answer))),
            Settled::LeaseLost(InPlaceOfMine::Refuse(refusal)) => return Ok(Outcome::Refused(refusal)),
            Settled::LeaseLost(InPlaceOfMine::OwnAnswer)
            | Settled::Done
            | Settled::Owed
            | Settled::GivenUp
            | Settled::Unprotected => {}
        }
        Ok(match handled {
            Handled::Complete(value) | Handled::CompleteNotKept(value) => Outcome::Completed(value),
            Handled::Release(error) => Outcome::Released(error),
            Handled::Fail(error) | Handled::FailWithoutEffect(error) => Outcome::Failed(error),
        })
    }
}

/// A value that cannot be encoded is not kept.
pub(super) fn to_json<V: Serialize>(value: &V) -> Answer {
    serde_json::to_vec(value).map_or(Answer::NotKept, |json| Answer::Value(Bytes::from(json)))
}

pub(super) fn from_json<V: DeserializeOwned>(answer: Answer) -> Option<V> {
    match answer {
        Answer::Value(json) => serde_json::from_slice(&json).ok(),
        Answer::Response(_) | Answer::NotKept => None,
    }
}

/// A stored answer that says nothing is a record that cannot be read.
pub(super) fn replayed<V, E>(value: Option<V>) -> Outcome<V, E> {
    value.map_or(Outcome::Refused(Refusal::RecordUnreadable(Unreadable::Corrupt)), Outcome::Replayed)
}

/// What the handler has said through [`Running`] comes before what it returned.
fn declared(running: &Running) -> Option<Settlement> {
    running.directive().map(|directive| match directive {
        Directive::Release => Settlement::Released,
        Directive::FailedWithoutEffect => Settlement::Failed { no_effect: true },
    })
}

fn settlement_of_failure(running: &Running, no_effect: bool) -> Settlement {
    declared(running).unwrap_or(Settlement::Failed { no_effect })
}
