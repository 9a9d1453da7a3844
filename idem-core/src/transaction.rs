//! Business writes and the record in one transaction.

use async_trait::async_trait;

use crate::{Found, NewRecord, ScopedKey, StoreError};

/// A store whose records commit together with the caller's own writes.
///
/// It is a trait beside [`KeyStore`](crate::KeyStore), so that an HTTP layer needs no backend and a backend needs no
/// layer. Here *in progress* is a lock that the open transaction holds: a crash, a rollback or a lost connection
/// frees the key at once, without a lease. One mode per route: the two do not see each other's claims while they run.
///
/// # Contract
///
/// - [`open`](Self::open) takes the lock **first** and looks **then**, in two snapshots. *Broken: the look is older
///   than the lock, and two handlers run.*
/// - It never waits for another transaction's lock: that is [`Opened::InProgress`], at once. *Broken: duplicates
///   hold connections until the pool is empty.*
/// - [`commit`](Self::commit) says `Done` only where the commit is known to have taken place **and** the record is
///   part of it. A transaction that the database has aborted is an error, also where the database reports its commit
///   as a success. *Broken: the client is told of a payment that was rolled back.*
/// - A `Tx` that is dropped, by a panic or a cancelled future, rolls back.
#[async_trait]
pub trait TransactionalStore: Send + Sync {
    /// The open transaction. It goes to the handler and comes back.
    type Tx: Send;

    /// Opens a transaction, locks the key, and looks.
    ///
    /// *Errors*: nothing was written, whatever the certainty says.
    ///
    /// *Cost*: begin, and at most two round trips.
    ///
    /// *Cancellation*: the transaction rolls back; nothing is left.
    async fn open(&self, key: &ScopedKey) -> Result<Opened<Self::Tx>, StoreError>;

    /// Inserts the settled record and commits, in that order.
    ///
    /// *Outcomes*: `Done` once both are durable. `Conflict` where another record stands under the key: everything
    /// was rolled back, and the caller decides again.
    ///
    /// *Errors*: of certainty *not written* where everything was rolled back; *unknown* where the reply to the commit
    /// was lost: the caller then finds out by [`find`](crate::KeyStore::find) and the token.
    ///
    /// *Cancellation*: as for an error of certainty *unknown*.
    async fn commit(&self, tx: Self::Tx, key: &ScopedKey, record: &NewRecord) -> Result<Committed, StoreError>;

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
    /// Nothing was written; this record was in the way.
    Conflict(Found),
}
