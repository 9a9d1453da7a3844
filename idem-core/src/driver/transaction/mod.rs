//! The one-transaction mode: the key is held by an open transaction instead of a claim.

mod attempt;
mod run;

use core::fmt;
use std::sync::Arc;

pub use attempt::{Concluded, TransactionAttempt};

use super::begin::BACKOFF;
use super::{Idempotency, Observer, Timer};
use crate::machine::{Decision, decide, locked};
use crate::{
    Answer, Found, Opened, Policy, Refusal, RequestIdentity, ScopedKey, StoreError, StoreErrorKind, Token, TokenSource,
    TransactionalStore,
};

/// Runs an operation at most once per key, in one transaction with its own record: both commit, or neither.
///
/// While the operation runs, the key is locked by its transaction. There is no claim, no lease and no renewal: a crash,
/// a rollback or a lost connection frees the key at once, and nothing has happened. What an operation does *outside* of
/// the transaction is not undone by that; such an operation belongs under a claim ([`Idempotency`]).
///
/// Two forms: [`run`](Self::run) around a closure that is lent the transaction, and [`begin`](Self::begin), which gives
/// the transaction and the [`TransactionAttempt`] that ends it. Clones are cheap and share the store.
///
/// # How it ends
///
/// | the attempt | business writes | record |
/// |---|---|---|
/// | [`commit`](TransactionAttempt::commit) | committed | completed, in the same commit |
/// | [`roll_back_and_remember`](TransactionAttempt::roll_back_and_remember) | rolled back | completed, in a write of its own right after |
/// | [`roll_back`](TransactionAttempt::roll_back) | rolled back | none: nothing has happened, and a retry runs |
/// | is dropped, panics, crashes | rolled back | none |
///
/// # What of a policy counts here
///
/// The retention. What is said of abandoned and failed attempts counts for records that were made under claims: a key
/// may have been used in the other mode before. Lease, ceiling and unsettled retention play no part, and nothing ever
/// runs unprotected: without the store there is no transaction to run in.
pub struct OneTransaction<S, T> {
    store: Arc<S>,
    settings: Idempotency<T>,
}

impl<S, T> Clone for OneTransaction<S, T> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), settings: self.settings.clone() }
    }
}

impl<S, T> fmt::Debug for OneTransaction<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneTransaction").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What a request may do.
#[must_use = "an open transaction locks its key until it ends"]
pub enum TransactionBegin<S: TransactionalStore, T> {
    /// Run the operation in this transaction, which locks the key, and end it through the attempt.
    Run(TransactionAttempt<S, T>, S::Tx),
    /// Give the stored answer.
    Replay(Answer),
    /// Refuse.
    Refuse(Refusal),
}

impl<S: TransactionalStore, T> fmt::Debug for TransactionBegin<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(attempt, _) => f.debug_tuple("Run").field(attempt).finish(),
            Self::Replay(answer) => f.debug_tuple("Replay").field(answer).finish(),
            Self::Refuse(refusal) => f.debug_tuple("Refuse").field(refusal).finish(),
        }
    }
}

impl<S: TransactionalStore + 'static, T: Timer> OneTransaction<S, T> {
    /// Runs operations in transactions of `store`, under [`Policy::strict`].
    pub fn new(store: S, timer: T) -> Self {
        let store = Arc::new(store);
        Self { settings: Idempotency::new(Arc::clone(&store), timer), store }
    }

    /// Runs operations in transactions of `store`, under the policy, time limit, observer and tokens of `settings`,
    /// whose own store should be over the same records: it is the one that [`idempotency`](Self::idempotency) looks in.
    pub const fn under(settings: Idempotency<T>, store: Arc<S>) -> Self {
        Self { store, settings }
    }

    /// Sets the policy, for this value and its later clones.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { settings: self.settings.policy(policy), ..self }
    }

    /// Bounds every single store call; see [`Idempotency::call_timeout`]. The operation itself is not bounded.
    #[must_use]
    pub fn call_timeout(self, timeout: core::time::Duration) -> Self {
        Self { settings: self.settings.call_timeout(timeout), ..self }
    }

    /// Tells `observer` what happens that no answer shows.
    #[must_use]
    pub fn observe(self, observer: impl Observer + 'static) -> Self {
        Self { settings: self.settings.observe(observer), ..self }
    }

    /// Takes tokens from `source` instead of the operating system. For tests that replay a schedule.
    #[must_use]
    pub fn tokens(self, source: impl TokenSource + 'static) -> Self {
        Self { settings: self.settings.tokens(source), ..self }
    }

    /// The driver of claims over the same records: to look at a key, to resolve a claim, to sweep.
    #[must_use]
    pub const fn idempotency(&self) -> &Idempotency<T> {
        &self.settings
    }

    /// Opens a transaction that locks the key, or says why the request is not to run.
    ///
    /// # Outcomes
    ///
    /// `Run` with the transaction, for the operation to write in. `Replay` and `Refuse` are answers to the client; their
    /// transactions are rolled back. A duplicate of a running request is refused as *in progress* at once, whatever it
    /// asks for: what it would be compared with is not written yet.
    ///
    /// # Errors
    ///
    /// Where the store could not. Nothing was written, and nothing runs.
    ///
    /// # Cost
    ///
    /// One call of the store; a second one, to look, where another transaction holds the key. Failures that are worth
    /// it are tried again, at most twice.
    ///
    /// # Cancellation
    ///
    /// The transaction rolls back; nothing is left.
    pub async fn begin(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
    ) -> Result<TransactionBegin<S, T>, StoreError> {
        let token = self.settings.draw_token()?;
        let (tx, found) = match self.open(key).await {
            Ok(Opened::Locked(tx, found)) => (tx, found),
            Ok(Opened::InProgress) => return Ok(self.locked_by_another(key, request, token).await),
            Err(error) if error.kind() == StoreErrorKind::Locked => return Ok(TransactionBegin::Refuse(locked())),
            Err(error) => return Err(error),
        };
        Ok(match decide(found.as_ref(), request, token, &self.settings.settings.policy) {
            Decision::Claim { epoch, over, .. } => {
                let attempt =
                    TransactionAttempt::new(self.clone(), key.clone(), epoch, token, request.fingerprint(), over);
                TransactionBegin::Run(attempt, tx)
            }
            Decision::Replay(answer) => TransactionBegin::Replay(answer),
            Decision::Refuse(refusal) => TransactionBegin::Refuse(refusal),
            // No record carries a token that was drawn a moment ago; one that does is not this request's.
            Decision::Resume { .. } => TransactionBegin::Refuse(locked()),
        })
    }

    async fn open(&self, key: &ScopedKey) -> Result<Opened<S::Tx>, StoreError> {
        let mut backoff = BACKOFF.into_iter();
        loop {
            match self.settings.bounded(self.store.open(key)).await {
                Err(error) if error.is_worth_a_retry() && error.kind() != StoreErrorKind::Locked => {
                    let Some(pause) = backoff.next() else { return Err(error.with_nothing_written()) };
                    self.settings.settings.timer.sleep(pause).await;
                }
                opened => return opened.map_err(StoreError::with_nothing_written),
            }
        }
    }

    /// The holder of the lock may be a running request, or another retry that is being answered from the record.
    async fn locked_by_another(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
        token: Token,
    ) -> TransactionBegin<S, T> {
        // That the key is held is known whatever this look says.
        let Ok(found) = self.settings.bounded(self.store.find(key)).await else {
            return TransactionBegin::Refuse(locked());
        };
        match decide(found.as_ref(), request, token, &self.settings.settings.policy) {
            Decision::Replay(answer) => TransactionBegin::Replay(answer),
            Decision::Refuse(refusal) => TransactionBegin::Refuse(refusal),
            Decision::Claim { .. } | Decision::Resume { .. } => TransactionBegin::Refuse(locked()),
        }
    }

    /// What stands under the key once no other transaction holds it any more; `None` where that cannot be told yet.
    async fn look_after_the_last(&self, key: &ScopedKey) -> Option<Option<Found>> {
        let Ok(Opened::Locked(_lock, _)) = self.settings.bounded(self.store.open(key)).await else { return None };
        // Not what was found with the lock: in a transaction of strict isolation, that may be older than the lock.
        self.settings.bounded(self.store.find(key)).await.ok()
    }
}
