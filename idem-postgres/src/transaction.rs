//! Business writes and the record in one transaction.

use core::num::{NonZeroU32, NonZeroUsize};
use core::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Change, Committed, Found, Guard, Inserted, Joined, KeyStore, NewRecord, Opened, Replaced, Revision, ScopedKey,
    StoreError, StoreErrorKind, StoreStats, Swept, TransactionalStore,
};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, PgTransaction, Row, query};
use tokio::time::timeout;

use crate::PostgresStore;
use crate::claim::inserting;
use crate::error::{Stage, TimedOut, after_no_write, store_error};
use crate::queries::{FIND, INSERT, LOCK_AND_FIND};
use crate::replace::{Expected, Replace, replacing};
use crate::row::{KeyColumns, Seen, seen};
use crate::session::Statement;
use crate::store::draw_revision;

/// Keeps records in the transactions of the application. Clones share store and pool.
///
/// The transactions come from the **application's** pool: its statements run in them, under its settings. Their
/// isolation is the pool's. `READ COMMITTED` is enough; under a stricter one the look may be older than the lock, so
/// that a handler may run beside one that has just committed, and what it wrote is rolled back when its record
/// conflicts.
///
/// *Cost*: begin, one round trip to lock and look, the handler's statements, one to insert the record, commit. A replay
/// or a refusal ends after the look.
///
/// # Example
///
/// ```no_run
/// use idem_core::{Answer, Handled, OneTransaction, Outcome};
/// use idem_postgres::PostgresStore;
/// use idem_postgres::sqlx::{self, PgPool};
/// # use idem_core::{Fingerprint, ScopedKey};
///
/// # async fn transfer(url: &str, key: ScopedKey, body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// let pool = PgPool::connect(url).await?;
/// let store = PostgresStore::connect(url).await?;
/// let idem = OneTransaction::new(store.in_transaction(pool), tokio::time::sleep);
///
/// let request = Fingerprint::json("transfer", body);
/// let outcome = idem
///     .run(&key, &request, async |tx, _running| {
///         match sqlx::query("INSERT INTO ledger (amount) VALUES (100)").execute(&mut **tx).await {
///             Ok(_) => Handled::Complete("transferred".to_owned()),
///             Err(error) => Handled::Fail(error.to_string()),
///         }
///     })
///     .await?;
/// # drop(outcome);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct InTransaction {
    store: PostgresStore,
    pool: PgPool,
}

/// What a transaction of the application has found under a key that it has tried to lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The key is this transaction's until it ends. What stands under it, for [`idem_core::machine::decide`].
    Yes(Option<Found>),
    /// Another transaction holds it: in progress.
    ByAnother,
}

/// # In a transaction of one's own
///
/// What [`InTransaction`] is made of, for applications that begin and commit their transactions themselves. The table
/// has to be on the transaction's `search_path`. An error leaves the transaction aborted, as any statement's does.
impl PostgresStore {
    /// Keeps records in the transactions of `pool`, which is the application's.
    #[must_use]
    pub fn in_transaction(&self, pool: PgPool) -> InTransaction {
        InTransaction { store: self.clone(), pool }
    }

    /// Locks a key until the transaction ends, then looks. Never waits.
    ///
    /// In a savepoint that is rolled back, the lock goes with it.
    ///
    /// # Errors
    ///
    /// Nothing was written.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn lock_in(&self, tx: &mut PgTransaction<'_>, key: &ScopedKey) -> Result<Locked, StoreError> {
        let columns = KeyColumns::of(key);
        let statement =
            query(LOCK_AND_FIND).bind(lock_id(key)).bind(columns.principal).bind(columns.route).bind(columns.key);
        let rows = self.fetch_in(tx, statement).await?;
        let locked = || -> Result<Locked, sqlx::Error> {
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            Ok(match (row.try_get("locked")?, row.try_get::<Option<i64>, _>("revision")?) {
                (false, _) => Locked::ByAnother,
                (true, None) => Locked::Yes(None),
                (true, Some(_)) => Locked::Yes(seen(row, 1)?.alive()),
            })
        };
        locked().map_err(|error| store_error(error, Stage::Sent))
    }

    /// Writes a record under a key that [`lock_in`](Self::lock_in) has locked: over the version that it has found, or
    /// where nothing alive stood. The caller commits, or rolls back where the answer is `Lost`.
    ///
    /// # Outcomes
    ///
    /// `Lost` where the key is not as it was seen, with what is there now.
    ///
    /// # Errors
    ///
    /// Nothing of the transaction will be written. Of the kind *aborted*, where it was aborted before.
    ///
    /// From here on, the transaction waits for a lock no longer than the store does for an answer.
    ///
    /// # Cost
    ///
    /// One round trip; three where an expired record is in the way.
    pub async fn record_in(
        &self,
        tx: &mut PgTransaction<'_>,
        key: &ScopedKey,
        record: &NewRecord,
        over: Option<Revision>,
    ) -> Result<Replaced, StoreError> {
        let change = Change::Record(record.clone());
        if let Some(seen) = over {
            return self.write_in(tx, key, Guard::Unchanged(seen), &change, Expected::Alive).await;
        }
        let revision = draw_revision()?;
        // Not as short as the store's own: it counts for the lock to extend the table as well, and all is rolled back.
        let lock_timeout = (self.config().command_timeout * 3 / 4).as_millis().max(1).to_string();
        let inserting = inserting(INSERT, key, record, revision).bind(lock_timeout);
        if !self.fetch_in(tx, inserting).await?.is_empty() {
            return Ok(Replaced::Done(revision));
        }
        match self.look_in(tx, key).await? {
            Some(Seen::Expired(seen)) => {
                self.write_in(tx, key, Guard::Unchanged(seen), &change, Expected::Expired).await
            }
            there => Ok(Replaced::Lost(there.and_then(Seen::alive))),
        }
    }

    /// Settles a claim that was made before, inside the transaction: the *joined* form. The claim's token fences it.
    /// The caller commits, or rolls back where the answer is `Lost`: the key is another attempt's then.
    ///
    /// # Errors
    ///
    /// Nothing of the transaction will be written. Of the kind *aborted*, where it was aborted before.
    ///
    /// # Cost
    ///
    /// One round trip; two where the guard does not hold.
    pub async fn settle_in(&self, tx: &mut PgTransaction<'_>, joined: &Joined) -> Result<Replaced, StoreError> {
        self.write_in(tx, joined.key(), joined.guard(), joined.change(), Expected::Alive).await
    }

    async fn write_in(
        &self,
        tx: &mut PgTransaction<'_>,
        key: &ScopedKey,
        guard: Guard,
        change: &Change,
        expected: Expected,
    ) -> Result<Replaced, StoreError> {
        let revision = draw_revision()?;
        let replace = Replace { key: key.clone(), guard, change: change.clone(), revision, expected };
        if !self.fetch_in(tx, replacing(&replace)).await?.is_empty() {
            return Ok(Replaced::Done(revision));
        }
        Ok(Replaced::Lost(self.look_in(tx, key).await?.and_then(Seen::alive)))
    }

    async fn look_in(&self, tx: &mut PgTransaction<'_>, key: &ScopedKey) -> Result<Option<Seen>, StoreError> {
        let columns = KeyColumns::of(key);
        let statement = query(FIND).bind(columns.principal).bind(columns.route).bind(columns.key);
        let rows = self.fetch_in(tx, statement).await?;
        rows.first().map(|row| seen(row, 0)).transpose().map_err(|error| store_error(error, Stage::Sent))
    }

    /// Whatever fails here, nothing is committed: only the caller commits.
    async fn fetch_in(&self, tx: &mut PgTransaction<'_>, statement: Statement<'_>) -> Result<Vec<PgRow>, StoreError> {
        let statement = statement.persistent(!self.config().behind_transaction_pooler);
        match timeout(self.config().command_timeout, statement.fetch_all(&mut **tx)).await {
            Ok(rows) => rows.map_err(|error| store_error(error, Stage::Uncommitted)),
            Err(_) => Err(late(TimedOut::Answer(self.config().command_timeout))),
        }
    }
}

impl InTransaction {
    /// In a task, because a `begin` that is dropped half-way leaves sqlx with a connection that has begun and does not
    /// know it: what its next user writes is then part of a transaction that nobody commits.
    async fn begin(&self) -> Result<PgTransaction<'static>, StoreError> {
        let connect_timeout = self.store.config().connect_timeout;
        let pool = self.pool.clone();
        let begun = tokio::spawn(async move { pool.begin().await });
        match timeout(connect_timeout, begun).await {
            Ok(Ok(begun)) => begun.map_err(|error| store_error(error, Stage::Connecting)),
            // The runtime has ended; or it takes too long, and what comes of it is rolled back when it is there.
            Ok(Err(_)) | Err(_) => Err(late(TimedOut::Connecting(connect_timeout))),
        }
    }
}

#[async_trait]
impl TransactionalStore for InTransaction {
    type Tx = PgTransaction<'static>;

    fn capacity(&self) -> NonZeroUsize {
        let connections = usize::try_from(self.pool.options().get_max_connections()).unwrap_or(usize::MAX);
        NonZeroUsize::new(connections).unwrap_or(NonZeroUsize::MIN)
    }

    async fn open(&self, key: &ScopedKey) -> Result<Opened<Self::Tx>, StoreError> {
        let mut tx = self.begin().await?;
        Ok(match self.store.lock_in(&mut tx, key).await? {
            Locked::Yes(found) => Opened::Locked(tx, found),
            Locked::ByAnother => Opened::InProgress,
        })
    }

    async fn commit(
        &self,
        mut tx: Self::Tx,
        key: &ScopedKey,
        record: &NewRecord,
        over: Option<Revision>,
    ) -> Result<Committed, StoreError> {
        if let Replaced::Lost(there) = self.store.record_in(&mut tx, key, record, over).await? {
            self.roll_back(tx).await.map_err(after_no_write)?;
            // Under a strict isolation the transaction cannot see what stopped it.
            let there = match there {
                None => self.store.find(key).await.map_err(after_no_write)?,
                there => there,
            };
            return Ok(Committed::Conflict(there));
        }
        // From here on, an error that ends the connection may come after the commit.
        within(self.store.config().command_timeout, tx.commit()).await.map(|()| Committed::Done)
    }

    async fn roll_back(&self, tx: Self::Tx) -> Result<(), StoreError> {
        within(self.store.config().command_timeout, tx.rollback()).await
    }
}

async fn within(limit: Duration, end: impl Future<Output = Result<(), sqlx::Error>>) -> Result<(), StoreError> {
    match timeout(limit, end).await {
        Ok(ended) => ended.map_err(|error| store_error(error, Stage::Sent)),
        Err(_) => Err(StoreError::unknown(StoreErrorKind::Unavailable, TimedOut::Answer(limit))),
    }
}

fn late(late: TimedOut) -> StoreError {
    StoreError::not_written(StoreErrorKind::Unavailable, late)
}

/// A key's advisory lock. Two keys that share one, among 2⁶⁴, exclude each other for a moment, and nothing worse.
fn lock_id(key: &ScopedKey) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *key.digest();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The records are the store's own.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl KeyStore for InTransaction {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        self.store.insert(key, record).await
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        self.store.replace(key, guard, change).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.store.find(key).await
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        self.store.sweep(limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        self.store.stats().await
    }
}
