//! How an insert goes wrong, and how calls get into each other's way.

use core::time::Duration;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use idem_core::{
    Content, Fingerprint, Found, Inserted, KeyStore, NewRecord, ProfileId, Record, Revision, ScopedKey, State,
    StoreError, StoreErrorKind,
};

use super::bytes::built;
use super::crowd::{meet, turn};
use super::store::{Shared, lock};
use super::{BrokenStore, Fault};
use crate::reference::Row;
use crate::scene::RACERS;

pub(super) async fn insert(store: &BrokenStore, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
    let inner = &store.inner;
    match store.fault {
        Fault::SaysDoneWithoutWriting => {
            if let Some(found) = inner.find(key).await? {
                return Ok(Inserted::Occupied(found));
            }
            Ok(Inserted::Done(inner.state().next_revision()))
        }
        Fault::ReadsThenInserts => {
            let (found, seen) = look(store, key);
            if let Some(found) = found {
                return Ok(Inserted::Occupied(found));
            }
            meet(store, key, seen).await;
            Ok(overwrite(store, key, record))
        }
        Fault::ReadsThenInsertsOverExpired => {
            let (found, seen) = look(store, key);
            if found.is_some() || seen.is_none() {
                return inner.insert(key, record).await;
            }
            meet(store, key, seen).await;
            Ok(overwrite(store, key, record))
        }
        Fault::TellsBeforeWriting => tell_before_writing(store, key, record).await,
        Fault::ExpiredIsOccupied => {
            let there = inner.state().rows.get(key).cloned();
            match there {
                Some(row) => Ok(Inserted::Occupied(row.found(inner.state().now()))),
                None => inner.insert(key, record).await,
            }
        }
        Fault::StumblesOverExpired if inner.find(key).await?.is_none() && inner.state().rows.contains_key(key) => {
            Err(StoreError::unknown(StoreErrorKind::Other, std::io::Error::other("a conflict with nothing")))
        }
        Fault::LosersGetErrors => match inner.insert(key, record).await? {
            Inserted::Occupied(_) => {
                Err(StoreError::not_written(StoreErrorKind::Contended, std::io::Error::other("duplicate key")))
            }
            done => Ok(done),
        },
        Fault::InsertsClaimsOnly => {
            let claim = Record { state: State::InProgress, ..record.record().clone() };
            inner.insert(key, &built(claim, record.lease(), record.retention())).await
        }
        Fault::RefusesShortTimes if record.retention().as_millis() == 0 => {
            Err(StoreError::not_written(StoreErrorKind::Other, std::io::Error::other("invalid expire time")))
        }
        Fault::InsertsInHalves => insert_in_halves(store, key, record).await,
        Fault::LosesTheTailOfAGroup => {
            let are_many = store.shared.until(|| lock(&store.shared.crowd).most >= RACERS).await;
            if are_many && inner.find(key).await?.is_none() && is_of_the_tail(&store.shared) {
                return Ok(Inserted::Done(inner.state().next_revision()));
            }
            inner.insert(key, record).await
        }
        Fault::MixesUpAnswers => {
            let answer = inner.insert(key, record).await?;
            Ok(swapped(&store.shared, answer).await)
        }
        Fault::SweepRemovesByKey => {
            // Where every sweep came later, there would be nothing left for it to find.
            if matches!(look(store, key), (None, Some(_))) {
                store.shared.until(|| store.shared.swept.load(Ordering::Relaxed)).await;
            }
            inner.insert(key, record).await
        }
        _ => {
            let now = inner.state().now();
            let there = inner.state().live(key).cloned();
            match there {
                Some(row) if is_overlooked(store.fault, &row, record, now) => Ok(overwrite(store, key, record)),
                _ => inner.insert(key, record).await,
            }
        }
    }
}

/// What is alive under a key, and the version of what is there, alive or not.
fn look(store: &BrokenStore, key: &ScopedKey) -> (Option<Found>, Option<Revision>) {
    let state = store.inner.state();
    let found = state.live(key).map(|row| row.found(state.now()));
    (found, state.rows.get(key).map(|row| row.revision))
}

/// Whether four of a group have been written before.
fn is_of_the_tail(shared: &Shared) -> bool {
    let mut crowd = lock(&shared.crowd);
    crowd.written += 1;
    crowd.written > 4
}

/// What an insert takes for vacant though it is not.
fn is_overlooked(fault: Fault, row: &Row, mine: &NewRecord, now: Duration) -> bool {
    let state = match &row.content {
        Content::Readable(record) => &record.state,
        Content::Unreadable(_) => return fault == Fault::CorruptIsOverwritten,
    };
    match fault {
        Fault::OverwritesOnInsert => true,
        Fault::OverwritesSettledOnInsert => state.is_settled(),
        Fault::OverwritesReleasedOnInsert => *state == State::Released,
        Fault::OverwritesAbandonedOnInsert => !state.is_settled() && now >= row.lease_until,
        Fault::RepeatedInsertOverwrites => {
            matches!(&row.content, Content::Readable(record) if record.token == mine.record().token)
        }
        _ => false,
    }
}

pub(super) fn overwrite(store: &BrokenStore, key: &ScopedKey, record: &NewRecord) -> Inserted {
    let mut state = store.inner.state();
    state.rows.remove(key);
    Inserted::Done(state.write(key, record))
}

async fn insert_in_halves(store: &BrokenStore, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
    let nothing = Fingerprint::from_parts(ProfileId::from_bits(0), [0; 32]);
    let half = Record { fingerprint: nothing, ..record.record().clone() };
    let inserted = store.inner.insert(key, &built(half, record.lease(), record.retention())).await?;
    if let Inserted::Done(_) = inserted {
        tokio::task::yield_now().await;
        if let Some(row) = store.inner.state().rows.get_mut(key) {
            row.content = Content::Readable(record.record().clone());
        }
    }
    Ok(inserted)
}

async fn tell_before_writing(store: &BrokenStore, key: &ScopedKey, mine: &NewRecord) -> Result<Inserted, StoreError> {
    if let Some(found) = store.inner.find(key).await? {
        return Ok(Inserted::Occupied(found));
    }
    let announced = Found {
        revision: Revision::from_number(u64::MAX),
        age: Duration::ZERO,
        lease_left: mine.lease(),
        retention_left: mine.retention(),
        content: Content::Readable(mine.record().clone()),
    };
    {
        let mut first = lock(&store.shared.first);
        if let Some(found) = first.get(key) {
            lock(&store.shared.told).insert(key.clone());
            return Ok(Inserted::Occupied(found.clone()));
        }
        first.insert(key.clone(), announced);
    }
    store.shared.until(|| lock(&store.shared.told).contains(key)).await;
    store.inner.insert(key, mine).await
}

/// Two calls that meet here leave with each other's answer.
#[derive(Default)]
pub(super) struct Swap(Mutex<(Option<Inserted>, Option<Inserted>)>);

async fn swapped(shared: &Shared, mine: Inserted) -> Inserted {
    let met = {
        let mut waiting = lock(&shared.waiting);
        match waiting.take() {
            Some(swap) => Ok(swap),
            None => {
                let swap = Arc::new(Swap::default());
                lock(&swap.0).0 = Some(mine.clone());
                *waiting = Some(Arc::clone(&swap));
                Err(swap)
            }
        }
    };
    match met {
        Ok(swap) => {
            let mut both = lock(&swap.0);
            both.1 = Some(mine.clone());
            both.0.take().unwrap_or(mine)
        }
        Err(swap) => {
            shared.until(|| lock(&swap.0).1.is_some()).await;
            let mut waiting = lock(&shared.waiting);
            if waiting.as_ref().is_some_and(|other| Arc::ptr_eq(other, &swap)) {
                *waiting = None;
            }
            drop(waiting);
            let theirs = lock(&swap.0).1.take();
            theirs.unwrap_or(mine)
        }
    }
}

/// A call that is under way. Whatever it holds is given back when it leaves, or when it is dropped.
pub(super) struct Inside {
    shared: Arc<Shared>,
    locked: Option<ScopedKey>,
}

pub(super) async fn enter(store: &BrokenStore, key: &ScopedKey) -> Inside {
    let shared = Arc::clone(&store.shared);
    let busy = lock(&shared.crowd).enter();
    let mut inside = Inside { shared, locked: None };
    if store.is(Fault::TiesUpUnderLoad) {
        inside.shared.until(|| lock(&inside.shared.crowd).most > 40).await;
        if busy >= 40 {
            core::future::pending::<()>().await;
        }
    }
    if store.is(Fault::DroppedCallKeepsItsLock) {
        while !lock(&inside.shared.locked).insert(key.clone()) {
            turn().await;
        }
        inside.locked = Some(key.clone());
        // Several, so that a timeout that is over is seen between them, however late this is polled.
        for _ in 0..4 {
            turn().await;
        }
    }
    inside
}

impl Inside {
    /// The fault is that only this gives the lock back.
    pub(super) fn leave(&mut self) {
        if let Some(key) = self.locked.take() {
            lock(&self.shared.locked).remove(&key);
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        lock(&self.shared.crowd).leave();
    }
}
