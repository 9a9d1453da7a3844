use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Concluded, OneTransaction, TransactionBegin};
use crate::driver::run::{from_json, replayed, to_json};
use crate::driver::{Handled, Outcome, Running, Timer};
use crate::{Answer, RequestIdentity, ScopedKey, StoreError, TransactionalStore};

impl<S: TransactionalStore + 'static, T: Timer> OneTransaction<S, T> {
    /// Runs the handler at most once per key, in a transaction that commits with its value, and gives the value to every
    /// retry. The counterpart of [`Idempotency::run`](crate::Idempotency::run).
    ///
    /// `Complete` and `CompleteNotKept` commit. Everything else, and a handler that has declared through [`Running`]
    /// that it released or failed, rolls back and leaves no record: nothing has happened in the database, and the next
    /// request runs. The handler neither commits nor rolls back itself.
    ///
    /// The value is kept as JSON; one that cannot be encoded counts as not kept.
    ///
    /// A future that has to be `Send`, as for `tokio::spawn`, takes [`begin`](Self::begin) instead: of a closure that is
    /// lent a transaction, the compiler cannot tell yet.
    ///
    /// # Outcomes
    ///
    /// `Completed` only after the commit is known to have taken place, or where the handler completed and has declared
    /// that it is to be rolled back.
    ///
    /// # Errors
    ///
    /// Of certainty *not written* where nothing has happened in the database: the transaction could not be opened and
    /// the handler did not run, or it could not be committed ([`Aborted`](crate::StoreErrorKind::Aborted): the handler
    /// has passed over an error of the database). Of certainty *unknown* where the reply to the commit was lost and
    /// nothing could be found out. In either case the same call may be made again.
    ///
    /// # Cancellation
    ///
    /// While the handler runs: everything is rolled back. While it is committed: it is committed or rolled back whole.
    ///
    /// # Panics
    ///
    /// A panic of the handler goes on to the caller, after everything was rolled back.
    pub async fn run<V, E, F>(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
        handler: F,
    ) -> Result<Outcome<V, E>, StoreError>
    where
        V: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut S::Tx, Running) -> Handled<V, E>,
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
        F: AsyncFnOnce(&mut S::Tx, Running) -> Handled<Answer, E>,
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
        F: AsyncFnOnce(&mut S::Tx, Running) -> Handled<V, E>,
    {
        let (attempt, mut tx) = match self.begin(key, request).await? {
            TransactionBegin::Run(attempt, tx) => (attempt, tx),
            TransactionBegin::Replay(answer) => return Ok(replayed(decode(answer))),
            TransactionBegin::Refuse(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        let running = attempt.running().clone();
        let (for_handler, lent) = (running.clone(), &mut tx);
        // In a block of its own, so that what a handler does before its first await is caught as well.
        let handled = AssertUnwindSafe(async move { handler(lent, for_handler).await }).catch_unwind().await;
        let handled = match handled {
            Ok(handled) => handled,
            Err(panic) => {
                attempt.roll_back(tx).await;
                resume_unwind(panic);
            }
        };
        let answer = match &handled {
            _ if running.directive().is_some() => None,
            Handled::Complete(_) if running.is_not_to_be_kept() => Some(Answer::NotKept),
            Handled::Complete(value) => Some(encode(value)),
            Handled::CompleteNotKept(_) => Some(Answer::NotKept),
            Handled::Release(_) | Handled::Fail(_) | Handled::FailWithoutEffect(_) => None,
        };
        match answer {
            None => attempt.roll_back(tx).await,
            Some(answer) => match attempt.commit(tx, answer).await? {
                Concluded::Done => {}
                Concluded::Replay(answer) => return Ok(replayed(decode(answer))),
                Concluded::Refuse(refusal) => return Ok(Outcome::Refused(refusal)),
            },
        }
        Ok(match handled {
            Handled::Complete(value) | Handled::CompleteNotKept(value) => Outcome::Completed(value),
            Handled::Release(error) => Outcome::Released(error),
            Handled::Fail(error) | Handled::FailWithoutEffect(error) => Outcome::Failed(error),
        })
    }
}
