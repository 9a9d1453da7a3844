//! A store that fails on request, over the memory store, whose clock is tokio's: paused and advanced by the tests.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use idem_core::{
    Answer, Change, Event, Fingerprint, Found, Guard, Idempotency, IdempotencyKey, Inserted, KeyStore, NewRecord,
    Policy, Principal, ProfileId, Replaced, Route, ScopedKey, State, StoreError, StoreErrorKind, StoreStats, Swept,
    Timer,
};
use idem_memory::{Clock, MemoryStore};
use tokio::time::Instant;

/// The store's clock follows tokio's, so that a paused test moves leases and sleeps together.
#[derive(Clone, Copy)]
pub(crate) struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        // Not zero at the start: a store must not lean on that.
        self.0.elapsed() + Duration::from_secs(1000)
    }
}

/// Which call of the driver a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// A claim, inserted or over a record.
    Claim,
    Renew,
    Settle,
    Find,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The store does its work, late.
    Late(Duration),
    /// An error that says for certain that nothing was written; and nothing was.
    NotWritten,
    /// Another's open transaction holds the key; nothing was written.
    Locked,
    /// An error that leaves it open; and nothing was written.
    LostRequest,
    /// An error that leaves it open; and it was written.
    LostReply,
    /// It was written; after this long, an error that leaves it open.
    LateLostReply(Duration),
    /// No answer ever; and nothing was written.
    HangsBefore,
    /// No answer ever; and it was written.
    HangsAfter,
    /// No answer ever; and it is written only after this long. For claims.
    LandsAfter(Duration),
}

#[derive(Clone)]
pub(crate) struct Faulty(Arc<Inner>);

struct Inner {
    store: MemoryStore<TokioClock>,
    queued: Mutex<HashMap<Op, VecDeque<Fault>>>,
    always: Mutex<HashMap<Op, Fault>>,
    calls: Mutex<Vec<Op>>,
}

impl Faulty {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            store: MemoryStore::with_clock(TokioClock(Instant::now())),
            queued: Mutex::default(),
            always: Mutex::default(),
            calls: Mutex::default(),
        }))
    }

    /// The next calls of this kind meet these faults, one each.
    pub(crate) fn next(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.0.queued.lock().unwrap().entry(op).or_default().extend(faults);
    }

    pub(crate) fn always(&self, op: Op, fault: Fault) {
        self.0.always.lock().unwrap().insert(op, fault);
    }

    pub(crate) fn heal(&self) {
        self.0.always.lock().unwrap().clear();
        self.0.queued.lock().unwrap().clear();
    }

    pub(crate) fn calls(&self, op: Op) -> usize {
        self.0.calls.lock().unwrap().iter().filter(|call| **call == op).count()
    }

    /// What is really there, past every fault.
    pub(crate) async fn there(&self) -> Option<Found> {
        self.0.store.find(&key()).await.unwrap()
    }

    pub(crate) async fn state(&self) -> Option<State> {
        self.there().await.map(|found| match found.content {
            idem_core::Content::Readable(record) => record.state,
            idem_core::Content::Unreadable(_) => panic!("the memory store always reads"),
        })
    }

    /// As another process, or an operator, would write.
    pub(crate) fn behind(&self) -> &MemoryStore<TokioClock> {
        &self.0.store
    }

    fn lands_after(&self, op: Op) -> Option<Duration> {
        match self.0.queued.lock().unwrap().get(&op)?.front() {
            Some(Fault::LandsAfter(late)) => Some(*late),
            _ => None,
        }
    }

    async fn with_fault<R>(&self, op: Op, work: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
        self.0.calls.lock().unwrap().push(op);
        let queued = self.0.queued.lock().unwrap().get_mut(&op).and_then(VecDeque::pop_front);
        let fault = queued.or_else(|| self.0.always.lock().unwrap().get(&op).copied());
        match fault {
            None => work.await,
            Some(Fault::Late(by)) => {
                tokio::time::sleep(by).await;
                work.await
            }
            Some(Fault::NotWritten) => Err(StoreError::not_written(StoreErrorKind::Unavailable, std::fmt::Error)),
            Some(Fault::Locked) => Err(StoreError::not_written(StoreErrorKind::Locked, std::fmt::Error)),
            Some(Fault::LostRequest) => Err(StoreError::unknown(StoreErrorKind::Unavailable, std::fmt::Error)),
            Some(Fault::LostReply) => {
                work.await?;
                Err(StoreError::unknown(StoreErrorKind::Unavailable, std::fmt::Error))
            }
            Some(Fault::LateLostReply(by)) => {
                work.await?;
                tokio::time::sleep(by).await;
                Err(StoreError::unknown(StoreErrorKind::Unavailable, std::fmt::Error))
            }
            Some(Fault::HangsBefore | Fault::LandsAfter(_)) => std::future::pending().await,
            Some(Fault::HangsAfter) => {
                work.await?;
                std::future::pending().await
            }
        }
    }
}

fn op_of(record: &NewRecord) -> Op {
    if record.record().state.is_settled() { Op::Settle } else { Op::Claim }
}

#[async_trait]
impl KeyStore for Faulty {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        if let Some(late) = self.lands_after(op_of(record)) {
            let (store, key, record) = (self.clone(), key.clone(), record.clone());
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                store.0.store.insert(&key, &record).await
            });
        }
        self.with_fault(op_of(record), self.0.store.insert(key, record)).await
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        let op = match change {
            Change::Record(record) => op_of(record),
            Change::Renew { .. } => Op::Renew,
        };
        if let Some(late) = self.lands_after(op) {
            let (store, key, change) = (self.clone(), key.clone(), change.clone());
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                store.0.store.replace(&key, guard, &change).await
            });
        }
        self.with_fault(op, self.0.store.replace(key, guard, change)).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.with_fault(Op::Find, self.0.store.find(key)).await
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        self.0.store.sweep(limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        self.0.store.stats().await
    }
}

/// What the observer was told, in words.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<&'static str>>>);

impl Told {
    pub(crate) fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl idem_core::Observer for Told {
    fn observe(&self, _: &ScopedKey, event: &Event) {
        self.0.lock().unwrap().push(match event {
            Event::LeaseLost => "lease lost",
            Event::LeaseSilent => "lease silent",
            Event::SettlingRetried(_) => "settling retried",
            Event::OwedWriteGivenUp => "owed write given up",
            Event::RanUnprotected(_) => "ran unprotected",
            _ => "something new",
        });
    }
}

/// How often the handler ran.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn key() -> ScopedKey {
    named("order-4711")
}

pub(crate) fn named(key: &str) -> ScopedKey {
    let key = IdempotencyKey::parse(key).unwrap();
    ScopedKey::new(Principal::new("alice").unwrap(), Route::new("/payments").unwrap(), key)
}

pub(crate) fn request() -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(1), [7; 32])
}

pub(crate) fn other_request() -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(1), [8; 32])
}

pub(crate) fn value(text: &'static str) -> Answer {
    Answer::Value(Bytes::from_static(text.as_bytes()))
}

/// Lease 30 s, ceiling 15 min, retention 24 h.
pub(crate) fn strict(store: &Faulty) -> Idempotency<impl Timer + use<>> {
    Idempotency::new(store.clone(), sleep_once)
}

/// A sleep that, as most futures, panics when it is polled once it is over. Tokio's own does not.
#[expect(clippy::redundant_async_block, reason = "the block is what panics")]
fn sleep_once(duration: Duration) -> impl Future<Output = ()> + Send + 'static {
    let sleep = tokio::time::sleep(duration);
    async move { sleep.await }
}

pub(crate) fn relaxed(store: &Faulty) -> Idempotency<impl Timer + use<>> {
    strict(store).policy(Policy::relaxed())
}

/// With background work in tokio tasks.
pub(crate) fn spawning<T: Timer>(idem: Idempotency<T>) -> Idempotency<T> {
    idem.spawn_with(|task| drop(tokio::spawn(task)))
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const LEASE: Duration = Duration::from_secs(30);
