//! A transactional store without the type of its transactions, so that the layer need not be generic over it.

use core::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use http::Extensions;
use idem_core::{
    Answer, Concluded, Idempotency, InPlaceOfMine, OneTransaction, Refusal, RequestIdentity, Running, ScopedKey,
    StoreError, TransactionAttempt, TransactionBegin, TransactionalStore,
};

use crate::lend::{Lender, Returned};
use crate::settings::Timer;

/// Begins attempts that hold their keys by open transactions.
#[async_trait]
pub(crate) trait Transactions: Send + Sync {
    fn capacity(&self) -> NonZeroUsize;

    /// Opens a transaction under the policy and the time limit of `settings`.
    async fn begin(
        &self,
        settings: Idempotency<Timer>,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
    ) -> Result<Begun, StoreError>;
}

pub(crate) enum Begun {
    Run(Box<dyn Transacted>),
    Replay(Answer),
    Refuse(Refusal),
}

/// One attempt and its open transaction. Dropped, it rolls back.
#[async_trait]
pub(crate) trait Transacted: Send {
    fn running(&self) -> &Running;

    /// Makes the transaction available to the handler.
    fn lend(&self, extensions: &mut Extensions);

    async fn commit(self: Box<Self>, answer: Answer) -> Result<Concluded, NotCommitted>;

    async fn roll_back_and_remember(self: Box<Self>, answer: Answer) -> Result<InPlaceOfMine, NotCommitted>;

    async fn roll_back(self: Box<Self>);
}

/// Why an answer that completes its operation cannot go out. Nothing of the operation is there, or will be.
pub(crate) enum NotCommitted {
    /// The handler has not asked for the transaction.
    NeverTaken,
    /// The handler has not given it back.
    StillLent,
    /// The store could not; of certainty *unknown*, it may be there all the same.
    Store(StoreError),
}

/// The transactions of one store.
pub(crate) struct Of<S>(pub(crate) Arc<S>);

#[async_trait]
impl<S: TransactionalStore + 'static> Transactions for Of<S> {
    fn capacity(&self) -> NonZeroUsize {
        self.0.capacity()
    }

    async fn begin(
        &self,
        settings: Idempotency<Timer>,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
    ) -> Result<Begun, StoreError> {
        let driver = OneTransaction::under(settings, Arc::clone(&self.0));
        Ok(match driver.begin(key, request).await? {
            TransactionBegin::Run(attempt, tx) => Begun::Run(Box::new(Lending { attempt, lender: Lender::new(tx) })),
            TransactionBegin::Replay(answer) => Begun::Replay(answer),
            TransactionBegin::Refuse(refusal) => Begun::Refuse(refusal),
        })
    }
}

/// An attempt whose transaction is lent to its handler.
struct Lending<S: TransactionalStore + 'static> {
    attempt: TransactionAttempt<S, Timer>,
    lender: Lender<S::Tx>,
}

#[async_trait]
impl<S: TransactionalStore + 'static> Transacted for Lending<S> {
    fn running(&self) -> &Running {
        self.attempt.running()
    }

    fn lend(&self, extensions: &mut Extensions) {
        self.lender.lend(extensions);
    }

    async fn commit(self: Box<Self>, answer: Answer) -> Result<Concluded, NotCommitted> {
        match self.lender.end() {
            Returned::Used(tx) => self.attempt.commit(tx, answer).await.map_err(NotCommitted::Store),
            Returned::NeverTaken(tx) => {
                self.attempt.roll_back(tx).await;
                Err(NotCommitted::NeverTaken)
            }
            Returned::StillLent => Err(NotCommitted::StillLent),
        }
    }

    async fn roll_back_and_remember(self: Box<Self>, answer: Answer) -> Result<InPlaceOfMine, NotCommitted> {
        match self.lender.end() {
            Returned::Used(tx) | Returned::NeverTaken(tx) => Ok(self.attempt.roll_back_and_remember(tx, answer).await),
            // The key is locked for as long as the transaction is held.
            Returned::StillLent => Err(NotCommitted::StillLent),
        }
    }

    async fn roll_back(self: Box<Self>) {
        match self.lender.end() {
            Returned::Used(tx) | Returned::NeverTaken(tx) => self.attempt.roll_back(tx).await,
            Returned::StillLent => {
                let route = self.running().key().route().as_str();
                tracing::error!(route, "a handler has failed and holds on to its transaction; its key stays locked");
            }
        }
    }
}
