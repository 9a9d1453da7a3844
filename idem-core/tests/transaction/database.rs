//! A database in memory: records, a business ledger, and transactions over both that fail on request.

#![allow(dead_code, reason = "the tests of two crates share it, and each needs its part")]

use std::collections::{HashSet, VecDeque};
use std::future::{Future, pending};
use std::num::{NonZeroU32, NonZeroUsize};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use idem_core::{
    Change, Committed, Content, Found, Guard, Inserted, KeyStore, NewRecord, Opened, Record, Replaced, Revision,
    ScopedKey, StoreError, StoreErrorKind, StoreStats, Swept, TransactionalStore,
};
use idem_memory::{ManualClock, MemoryStore};

#[derive(Clone)]
pub(crate) struct Database(Arc<Inner>);

struct Inner {
    records: MemoryStore<ManualClock>,
    clock: ManualClock,
    capacity: NonZeroUsize,
    locks: Mutex<HashSet<ScopedKey>>,
    ledger: Mutex<Vec<String>>,
    open_at_most: AtomicUsize,
    faults: Mutex<Vec<(Op, VecDeque<Fault>)>>,
    calls: Mutex<Vec<Op>>,
    after_rollback: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// A commit whose reply was lost and that the server has not carried out yet.
    under_way: Mutex<Option<UnderWay>>,
}

struct UnderWay {
    tx: Transaction,
    record: NewRecord,
    over: Option<Revision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Open,
    Commit,
    RollBack,
    Insert,
    Replace,
    Find,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does its work; for a fault that is to hit a later call.
    None,
    /// Nothing was written, for certain.
    NotWritten(StoreErrorKind),
    /// The work is undone, and its reply is lost.
    LostRequest,
    /// The work is done, and its reply is lost.
    LostReply,
    /// The reply is lost; the server carries the commit out once it is [told](Database::land).
    LostUnderWay,
    /// No answer ever; and nothing is done.
    Hangs,
    /// The lock is had, and the look is older than the lock, as in a transaction of strict isolation.
    StaleLook,
}

/// Holds its key locked until it is over. Dropped, it rolls back.
pub(crate) struct Transaction {
    database: Database,
    key: ScopedKey,
    writes: Vec<String>,
    is_aborted: bool,
}

impl Transaction {
    pub(crate) fn write(&mut self, entry: impl Into<String>) {
        self.writes.push(entry.into());
    }

    /// A statement fails, and with it the transaction: what comes after it is ignored by the database.
    pub(crate) fn fail_a_statement(&mut self) {
        self.is_aborted = true;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.database.0.locks.lock().unwrap().remove(&self.key);
    }
}

impl Database {
    pub(crate) fn new() -> Self {
        Self::of_capacity(8)
    }

    pub(crate) fn of_capacity(capacity: usize) -> Self {
        let clock = ManualClock::new();
        Self(Arc::new(Inner {
            records: MemoryStore::with_clock(clock.clone()),
            clock,
            capacity: NonZeroUsize::new(capacity).unwrap(),
            locks: Mutex::default(),
            ledger: Mutex::default(),
            open_at_most: AtomicUsize::new(0),
            faults: Mutex::default(),
            calls: Mutex::default(),
            after_rollback: Mutex::default(),
            under_way: Mutex::default(),
        }))
    }

    /// The next calls of this kind meet these faults, one each.
    pub(crate) fn next(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.0.faults.lock().unwrap();
        match all.iter_mut().find(|(of, _)| *of == op) {
            Some((_, queue)) => queue.extend(faults),
            None => all.push((op, faults.into_iter().collect())),
        }
    }

    /// Happens once, between the next rollback and whatever comes after it.
    pub(crate) fn after_rollback(&self, what: impl Future<Output = ()> + Send + 'static) {
        *self.0.after_rollback.lock().unwrap() = Some(Box::pin(what));
    }

    /// The server carries out the commit that is under way.
    pub(crate) async fn land(&self) {
        let UnderWay { tx, record, over } = self.0.under_way.lock().unwrap().take().unwrap();
        assert_eq!(self.really_commit(tx, &record, over).await, Committed::Done);
    }

    /// The connection of the commit that is under way breaks, and the server has not got it.
    pub(crate) fn never_land(&self) {
        drop(self.0.under_way.lock().unwrap().take().unwrap());
    }

    /// What is really there, past every fault.
    pub(crate) fn ledger(&self) -> Vec<String> {
        self.0.ledger.lock().unwrap().clone()
    }

    pub(crate) async fn record(&self, key: &ScopedKey) -> Option<Record> {
        self.0.records.find(key).await.unwrap().map(|found| match found.content {
            Content::Readable(record) => record,
            Content::Unreadable(_) => panic!("the memory store always reads"),
        })
    }

    /// The records as another process, in another mode, would use them.
    pub(crate) fn behind(&self) -> &MemoryStore<ManualClock> {
        &self.0.records
    }

    pub(crate) fn clock(&self) -> &ManualClock {
        &self.0.clock
    }

    pub(crate) fn calls(&self) -> Vec<Op> {
        self.0.calls.lock().unwrap().clone()
    }

    /// Transactions that are open right now.
    pub(crate) fn open_now(&self) -> usize {
        self.0.locks.lock().unwrap().len()
    }

    pub(crate) fn open_at_most(&self) -> usize {
        self.0.open_at_most.load(Ordering::SeqCst)
    }

    async fn really_commit(&self, tx: Transaction, record: &NewRecord, over: Option<Revision>) -> Committed {
        let written = match over {
            None => match self.0.records.insert(&tx.key, record).await.unwrap() {
                Inserted::Done(_) => Ok(()),
                Inserted::Occupied(found) => Err(Some(found)),
            },
            Some(revision) => {
                let change = Change::Record(record.clone());
                match self.0.records.replace(&tx.key, Guard::Unchanged(revision), &change).await.unwrap() {
                    Replaced::Done(_) => Ok(()),
                    Replaced::Lost(found) => Err(found),
                }
            }
        };
        match written {
            Ok(()) => {
                self.0.ledger.lock().unwrap().extend(tx.writes.iter().cloned());
                Committed::Done
            }
            Err(found) => Committed::Conflict(found),
        }
    }

    fn fault(&self, op: Op) -> Fault {
        self.0.calls.lock().unwrap().push(op);
        let mut faults = self.0.faults.lock().unwrap();
        let queue = faults.iter_mut().find(|(of, _)| *of == op);
        queue.and_then(|(_, queue)| queue.pop_front()).unwrap_or(Fault::None)
    }

    async fn through<R>(&self, op: Op, work: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
        meeting(self.fault(op), work).await
    }
}

async fn meeting<R>(fault: Fault, work: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
    match fault {
        Fault::None => work.await,
        Fault::NotWritten(kind) => Err(StoreError::not_written(kind, std::fmt::Error)),
        Fault::LostRequest => Err(lost()),
        Fault::LostReply => {
            work.await?;
            Err(lost())
        }
        Fault::Hangs => pending().await,
        Fault::LostUnderWay | Fault::StaleLook => panic!("no fault of this call: {fault:?}"),
    }
}

fn lost() -> StoreError {
    StoreError::unknown(StoreErrorKind::Unavailable, std::fmt::Error)
}

#[async_trait]
impl TransactionalStore for Database {
    type Tx = Transaction;

    fn capacity(&self) -> NonZeroUsize {
        self.0.capacity
    }

    async fn open(&self, key: &ScopedKey) -> Result<Opened<Transaction>, StoreError> {
        let fault = self.fault(Op::Open);
        let is_stale = fault == Fault::StaleLook;
        let fault = if is_stale { Fault::None } else { fault };
        meeting(fault, async {
            {
                let mut locks = self.0.locks.lock().unwrap();
                if !locks.insert(key.clone()) {
                    return Ok(Opened::InProgress);
                }
                self.0.open_at_most.fetch_max(locks.len(), Ordering::SeqCst);
            }
            let tx = Transaction { database: self.clone(), key: key.clone(), writes: Vec::new(), is_aborted: false };
            let found = self.0.records.find(key).await?;
            Ok(Opened::Locked(tx, found.filter(|_| !is_stale)))
        })
        .await
    }

    async fn commit(
        &self,
        tx: Transaction,
        key: &ScopedKey,
        record: &NewRecord,
        over: Option<Revision>,
    ) -> Result<Committed, StoreError> {
        assert_eq!(tx.key, *key, "a record belongs to the transaction that locks its key");
        assert!(record.record().state.is_settled(), "a transaction commits settled records only");
        if tx.is_aborted {
            self.0.calls.lock().unwrap().push(Op::Commit);
            return Err(StoreError::not_written(StoreErrorKind::Aborted, std::fmt::Error));
        }
        match self.fault(Op::Commit) {
            Fault::None => Ok(self.really_commit(tx, record, over).await),
            Fault::NotWritten(kind) => Err(StoreError::not_written(kind, std::fmt::Error)),
            Fault::LostRequest => Err(lost()),
            Fault::LostReply => {
                self.really_commit(tx, record, over).await;
                Err(lost())
            }
            Fault::LostUnderWay => {
                *self.0.under_way.lock().unwrap() = Some(UnderWay { tx, record: record.clone(), over });
                Err(lost())
            }
            Fault::Hangs => pending().await,
            Fault::StaleLook => panic!("a commit does not look"),
        }
    }

    async fn roll_back(&self, tx: Transaction) -> Result<(), StoreError> {
        self.through(Op::RollBack, async {
            drop(tx);
            let what = self.0.after_rollback.lock().unwrap().take();
            if let Some(what) = what {
                what.await;
            }
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl KeyStore for Database {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        self.through(Op::Insert, self.0.records.insert(key, record)).await
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        self.through(Op::Replace, self.0.records.replace(key, guard, change)).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.through(Op::Find, self.0.records.find(key)).await
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        self.0.records.sweep(limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        self.0.records.stats().await
    }
}
