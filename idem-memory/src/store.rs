//! The store: shards side by side, and what a call does in one of them.

use core::fmt;
use core::hash::BuildHasher;
use core::num::NonZeroU32;
use core::task::Poll;
use std::hash::RandomState;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Change, Found, Guard, Inserted, KeyStore, NewRecord, Replaced, ScopedKey, StoreError, StoreErrorKind, StoreStats,
    Swept,
};

use crate::row::{Hashed, Row, bytes_of};
use crate::shard::Shard;
use crate::usage::{Room, Usage};
use crate::{Clock, Limits, StoreFull, SystemClock};

/// Keeps records in the memory of this process, within [`Limits`]. Clones share the records.
///
/// What it promises and what it does not stands on the [crate's front page](crate).
///
/// *Cost*: a call takes the lock of one shard out of 64, once, for some hundred nanoseconds and never across an await.
/// A sweep, the stats, and an insert that finds the store full go through the shards one after another. Of the futures
/// only that of [`sweep`](KeyStore::sweep) ever waits, and only to let others run.
///
/// *Cancellation*: a call happens whole at its first poll, or not at all; a sweep that is dropped has removed what it
/// has removed.
pub struct MemoryStore<C = SystemClock> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    clock: C,
    // SipHash under random keys: clients choose the texts, and the authors of quicker hashes ask not to rely on them
    // there. Each call hashes once.
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    usage: Usage,
    next_to_sweep: AtomicUsize,
}

/// Many more than cores, so that two calls seldom meet.
const SHARDS: u8 = 64;

/// Removals under one lock.
const BATCH: u32 = 64;

/// Removals that one insert into a full store does at most.
const RECLAIMED_BY_INSERT: u32 = 256;

/// And before it looks whether there is room: one small record expired may be too little for a large one.
const RECLAIMED_AT_ONCE: u32 = 8;

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl MemoryStore {
    /// An empty store on the system's clock.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self::with_clock_and_limits(SystemClock::new(), limits)
    }
}

impl<C: Clock> MemoryStore<C> {
    /// An empty store of the default limits on a clock of your own.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self::with_clock_and_limits(clock, Limits::default())
    }

    /// An empty store of these limits on a clock of your own.
    #[must_use]
    pub fn with_clock_and_limits(clock: C, limits: Limits) -> Self {
        let shards = (0..SHARDS).map(|index| Mutex::new(Shard::new(index.into(), SHARDS.into())));
        Self {
            shared: Arc::new(Shared {
                clock,
                hasher: RandomState::new(),
                shards: shards.collect(),
                usage: Usage::new(limits),
                next_to_sweep: AtomicUsize::new(0),
            }),
        }
    }
}

impl<C> MemoryStore<C> {
    /// What the store was given as its limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.shared.usage.limits()
    }
}

impl<C> Clone for MemoryStore<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = &self.shared.usage;
        f.debug_struct("MemoryStore")
            .field("entries", &usage.entries())
            .field("bytes", &usage.bytes())
            .field("limits", &usage.limits())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<C: Clock> KeyStore for MemoryStore<C> {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        self.shared.insert(key, record).map_err(|full| StoreError::not_written(StoreErrorKind::Full, full))
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        Ok(self.shared.replace(key, guard, change))
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        Ok(self.shared.find(key))
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        Ok(self.shared.sweep(limit.get()).await)
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        Ok(self.shared.stats())
    }
}

impl<C: Clock> Shared<C> {
    fn insert(&self, key: &ScopedKey, new: &NewRecord) -> Result<Inserted, StoreFull> {
        let key = self.hashed(key);
        let bytes = bytes_of(key.key, new.record());
        self.insert_into(key, new, bytes, || self.usage.reserve(bytes)).or_else(|full| {
            // Not under the lock of the key's own shard: two inserts that wanted each other's would wait for ever.
            let room = self.make_room(key, bytes, full)?;
            self.insert_into(key, new, bytes, || Ok(room))
        })
    }

    fn insert_into<'a>(
        &self,
        key: Hashed<'_>,
        new: &NewRecord,
        bytes: usize,
        reserve: impl FnOnce() -> Result<Room<'a>, StoreFull>,
    ) -> Result<Inserted, StoreFull> {
        let _expired; // Declared before the lock, so that it is dropped after it.
        let (mut shard, now) = self.lock(key);
        if let Some(at) = shard.position(key) {
            if shard.row(at).is_live(now) {
                return Ok(Inserted::Occupied(shard.row(at).found(now)));
            }
            _expired = self.remove(&mut shard, at);
        }
        let room = reserve()?;
        let revision = shard.next_revision();
        shard.push(Row::new(key, new, bytes, revision, now));
        room.keep();
        Ok(Inserted::Done(revision))
    }

    fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Replaced {
        let key = self.hashed(key);
        let _replaced; // Declared before the lock, so that it is dropped after it.
        let (mut shard, now) = self.lock(key);
        let Some(at) = shard.live(key, now) else { return Replaced::Lost(None) };
        let row = shard.row(at);
        let fits = row.satisfies(guard) && (row.is_claim() || matches!(change, Change::Record(_)));
        if !fits {
            return Replaced::Lost(Some(row.found(now)));
        }
        let revision = shard.next_revision();
        match change {
            Change::Renew { lease, retention } => {
                shard.change(at, |row| row.renew(*lease, *retention, revision, now));
            }
            Change::Record(new) => {
                let (before, after) = (shard.row(at).bytes, bytes_of(key.key, new.record()));
                _replaced = shard.change(at, |row| row.overwrite(new, after, revision, now));
                self.usage.resize(before, after);
            }
        }
        Replaced::Done(revision)
    }

    fn find(&self, key: &ScopedKey) -> Option<Found> {
        let key = self.hashed(key);
        let (shard, now) = self.lock(key);
        shard.live(key, now).map(|at| shard.row(at).found(now))
    }

    async fn sweep(&self, limit: u32) -> Swept {
        let mut removed = 0;
        // Each sweep starts one shard further, so that a small limit reaches them all in turn.
        let first = self.next_to_sweep.fetch_add(1, Relaxed);
        for shard in self.shards_from(first) {
            loop {
                let batch = BATCH.min(limit - removed);
                let (gone, more) = self.remove_due(shard, batch);
                removed += gone;
                if more && removed == limit {
                    return Swept { removed, more };
                }
                if gone > 0 {
                    let_others_run().await;
                }
                if !more {
                    break;
                }
            }
        }
        Swept { removed, more: false }
    }

    fn stats(&self) -> StoreStats {
        let (mut expired, mut oldest_expired) = (0, None);
        for shard in &self.shards {
            let (shard, now) = self.lock_shard(shard);
            expired += shard.count_due(now);
            oldest_expired = oldest_expired.max(shard.overdue(now));
        }
        StoreStats {
            records: u64::try_from(self.usage.entries()).ok(),
            expired: u64::try_from(expired).ok(),
            bytes: u64::try_from(self.usage.bytes()).ok(),
            oldest_expired,
        }
    }

    /// Removes expired records until `bytes` fit, the key's own shard first.
    fn make_room(&self, key: Hashed<'_>, bytes: usize, full: StoreFull) -> Result<Room<'_>, StoreFull> {
        let mut room = Err(full);
        let mut left = RECLAIMED_BY_INSERT;
        for shard in self.shards_from(shard_of(key.hash)) {
            let mut more = true;
            while more && left > 0 {
                let (gone, still_more) = self.remove_due(shard, left.min(RECLAIMED_AT_ONCE));
                (left, more) = (left - gone, still_more);
                if gone > 0 {
                    room = self.usage.reserve(bytes);
                }
                if room.is_ok() {
                    return room;
                }
            }
        }
        room
    }

    /// Removes at most `limit` expired rows of one shard. Says how many, and whether there are more.
    fn remove_due(&self, shard: &Mutex<Shard>, limit: u32) -> (u32, bool) {
        let mut expired = Vec::new(); // Declared before the lock, so that it is dropped after it.
        let (mut shard, now) = self.lock_shard(shard);
        let mut removed = 0;
        while removed < limit
            && let Some(row) = shard.remove_due(now)
        {
            self.usage.give_back(row.bytes);
            expired.push(row);
            removed += 1;
        }
        (removed, shard.overdue(now).is_some())
    }

    fn remove(&self, shard: &mut Shard, at: usize) -> Row {
        let row = shard.remove(at);
        self.usage.give_back(row.bytes);
        row
    }

    fn hashed<'a>(&self, key: &'a ScopedKey) -> Hashed<'a> {
        Hashed { key, hash: self.hasher.hash_one(key) }
    }

    fn shards_from(&self, first: usize) -> impl Iterator<Item = &Mutex<Shard>> {
        let (before, from) = self.shards.split_at(first % self.shards.len());
        from.iter().chain(before)
    }

    fn lock(&self, key: Hashed<'_>) -> (MutexGuard<'_, Shard>, Duration) {
        self.lock_shard(&self.shards[shard_of(key.hash)])
    }

    /// Time and rows from one step. The clock is read under the lock: a call that waited for it must not judge what it
    /// finds by an older time. For a poisoned lock see [`Shard`].
    fn lock_shard<'a>(&self, shard: &'a Mutex<Shard>) -> (MutexGuard<'a, Shard>, Duration) {
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        (shard, now)
    }
}

/// From a byte that the shard's table does not use: that takes the lowest bits and the highest seven.
fn shard_of(hash: u64) -> usize {
    usize::from(hash.to_le_bytes()[5] % SHARDS)
}

/// Gives way once, on whatever runtime this is.
async fn let_others_run() {
    let mut has_waited = false;
    core::future::poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
