//! Business writes and the record in one transaction.

use core::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Found, KeyStore, NewRecord, Revision, ScopedKey, StoreError};

/// A store whose records commit together with the caller's own writes.
///
/// Here *in progress* is a lock that the open transaction holds: a crash, a rollback or a lost connection frees the key
/// at once, without a lease. [`OneTransaction`](crate::OneTransaction) carries it out.
///
/// It is a [`KeyStore`] too, over the same records: an answer that is remembered although its business writes were
/// rolled back is a write of its own. One mode per route all the same: an open transaction keeps no claim out, and
/// whichever of the two is later to write loses its work.
///
/// # Contract
///
/// 1. [`open`](Self::open) takes the lock **first** and looks **then**, in two snapshots. *Broken: the look is older
///    than the lock, and two handlers run.*
/// 2. The lock lasts exactly as long as the transaction, and it is gone only after what the transaction has committed
///    can be seen: a [`find`](KeyStore::find) that begins once the lock is had sees what became of its last holder, for
///    good. *Broken: a commit whose reply was lost is taken for one that did not happen.*
/// 3. It never waits for another transaction's lock: that is [`Opened::InProgress`], at once. *Broken: duplicates
///    hold connections until the pool is empty.*
/// 4. [`commit`](Self::commit) says `Done` only where the commit is known to have taken place **and** the record is
///    part of it. A transaction that the database has aborted is an error of the kind
///    [`Aborted`](crate::StoreErrorKind::Aborted), also where the database reports its commit as a success. *Broken:
///    the client is told of a payment that was rolled back.*
/// 5. The record is written over exactly the version that `open` has found, or inserted where nothing live stood. If
///    that does not fit any more, everything is rolled back. *Broken: a completed record is overwritten.*
/// 6. A `Tx` that is dropped, by a panic or a cancelled future, rolls back. Nothing but `commit` commits it. *Broken:
///    half of an operation is there, and its retry adds the whole.*
/// 7. Every wait is bounded, that for a connection too.
/// 8. There are no default method bodies, and `Arc<S>`, `Box<S>` and `&S` forward every method.
#[async_trait]
pub trait TransactionalStore: KeyStore {
    /// The open transaction. It goes to the handler and comes back.
    type Tx: Send + 'static;

    /// How many transactions can be open at once: the size of the pool.
    ///
    /// Callers keep what runs **below** it, so that a duplicate finds a connection to be refused on, and a write of its
    /// own, such as a remembered refusal, one to be made on.
    fn capacity(&self) -> NonZeroUsize;

    /// Opens a transaction, locks the key, and looks.
    ///
    /// *Errors*: nothing was written, whatever the certainty says.
    ///
    /// *Cost*: begin, and at most two round trips.
    ///
    /// *Cancellation*: the transaction rolls back; nothing is left.
    async fn open(&self, key: &ScopedKey) -> Result<Opened<Self::Tx>, StoreError>;

    /// Writes the settled record and commits, in that order. `over` is the version that [`open`](Self::open) has found
    /// and that the record replaces; `None` inserts it where nothing live stands.
    ///
    /// *Outcomes*: `Done` once business writes and record are durable. `Conflict` where another record stands under the
    /// key, or the version has changed: everything was rolled back, and the caller decides again.
    ///
    /// *Errors*: of certainty *not written* where everything was rolled back: of the kind
    /// [`Aborted`](crate::StoreErrorKind::Aborted) where the transaction had been aborted before, of the kind
    /// [`Contended`](crate::StoreErrorKind::Contended) where the database could not serialise it or broke a deadlock.
    /// Of certainty *unknown* where the reply to the commit was lost: the caller then finds out by
    /// the lock and the token.
    ///
    /// *Cost*: one round trip beside the commit.
    ///
    /// *Cancellation*: as for an error of certainty *unknown*.
    async fn commit(
        &self,
        tx: Self::Tx,
        key: &ScopedKey,
        record: &NewRecord,
        over: Option<Revision>,
    ) -> Result<Committed, StoreError>;

    /// Rolls everything back and frees the key.
    ///
    /// *Errors*: the connection is gone, and with it the transaction.
    async fn roll_back(&self, tx: Self::Tx) -> Result<(), StoreError>;
}

/// What [`TransactionalStore::open`] has found.
#[derive(Debug)]
pub enum Opened<Tx> {
    /// The key is the caller's until the transaction ends. What stands under it, for [`decide`](crate::machine::decide).
    Locked(Tx, Option<Found>),
    /// Another transaction holds the key.
    InProgress,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Business writes and record are durable.
    Done,
    /// Nothing was written. What is there now, instead of what was to be replaced; `None` where the key is vacant.
    Conflict(Option<Found>),
}

macro_rules! forward_to_inner {
    ($($wrapper:ty),+) => {$(
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<S: TransactionalStore + ?Sized> TransactionalStore for $wrapper {
            type Tx = S::Tx;

            fn capacity(&self) -> NonZeroUsize {
                (**self).capacity()
            }

            async fn open(&self, key: &ScopedKey) -> Result<Opened<Self::Tx>, StoreError> {
                (**self).open(key).await
            }

            async fn commit(
                &self,
                tx: Self::Tx,
                key: &ScopedKey,
                record: &NewRecord,
                over: Option<Revision>,
            ) -> Result<Committed, StoreError> {
                (**self).commit(tx, key, record, over).await
            }

            async fn roll_back(&self, tx: Self::Tx) -> Result<(), StoreError> {
                (**self).roll_back(tx).await
            }
        }
    )+};
}

forward_to_inner!(&S, Box<S>, Arc<S>);
