//! A reference store with one fault.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use idem_core::{
    Change, Found, Guard, Inserted, KeyStore, NewRecord, Replaced, ScopedKey, StoreError, StoreStats, Swept,
};

use super::times::Written;
use super::{Fault, answers, bytes, claims, crowd, replacing, scope, server, sweeping, times};
use crate::{Damage, Halt, Harness, Outage, Pace, ReferenceStore, Stranded, WrongClock};

/// A [`ReferenceStore`] that breaks the contract in one way. Clones are handles on the same data.
#[derive(Clone)]
pub struct BrokenStore {
    pub(super) fault: Fault,
    pub(super) inner: ReferenceStore,
    pub(super) shared: Arc<Shared>,
    /// What this handle has seen, for the store that caches.
    pub(super) seen: Arc<Mutex<HashMap<ScopedKey, Found>>>,
    /// The application's clock, where it is wrong.
    pub(super) wrong: Option<WrongClock>,
}

/// What all handles share beside the records.
#[derive(Default)]
pub(super) struct Shared {
    /// The first version of each key.
    pub(super) first: Mutex<HashMap<ScopedKey, Found>>,
    /// When each record goes, for the store that does not move that moment.
    pub(super) goes_at: Mutex<HashMap<ScopedKey, Duration>>,
    pub(super) locked: Mutex<HashSet<ScopedKey>>,
    pub(super) waiting: Mutex<Option<Arc<claims::Swap>>>,
    pub(super) crowd: Mutex<crowd::Crowd>,
    /// How many calls have looked at a key and are about to write.
    pub(super) looked: Mutex<HashMap<ScopedKey, usize>>,
    /// Keys that somebody was told of before they were written.
    pub(super) told: Mutex<HashSet<ScopedKey>>,
    /// Whether a sweep has found something.
    pub(super) swept: AtomicBool,
}

/// A fault must not hide behind a panic elsewhere.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BrokenStore {
    /// An empty store with a manual clock.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { fault, inner: ReferenceStore::new(), shared: Arc::default(), seen: Arc::default(), wrong: None }
    }

    pub(super) fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// What happens before anything else.
    async fn enter(&self, key: &ScopedKey) -> Result<claims::Inside, StoreError> {
        times::forget_what_is_gone(self);
        answers::fail_on_corrupt(self, key)?;
        Ok(claims::enter(self, key).await)
    }

    /// Whether some call of this store is never answered.
    fn hangs(&self) -> bool {
        matches!(
            self.fault,
            Fault::HangsWithoutServer | Fault::HangsOnSilence | Fault::TiesUpUnderLoad | Fault::DroppedCallKeepsItsLock
        )
    }

    fn wrong_clock(&self) -> times::WrongTime<'_> {
        times::WrongTime::begin(self)
    }
}

impl fmt::Debug for BrokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokenStore").field("fault", &self.fault).field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl KeyStore for BrokenStore {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        let (key, record) = (&scope::stored_under(self.fault, key), &bytes::stored(self.fault, record));
        let mut inside = self.enter(key).await?;
        let wrong = self.wrong_clock();
        let inserted = claims::insert(self, key, record).await?;
        drop(wrong);
        let inserted = match inserted {
            Inserted::Done(revision) => Inserted::Done(times::written(self, key, &Written::inserted(record), revision)),
            Inserted::Occupied(found) => Inserted::Occupied(answers::occupied(self, key, record, found).await),
        };
        inside.leave();
        Ok(inserted)
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        let (key, change) = (&scope::stored_under(self.fault, key), &bytes::stored_change(self.fault, change));
        let mut inside = self.enter(key).await?;
        let before = self.inner.state().rows.get(key).cloned();
        let wrong = self.wrong_clock();
        let replaced = replacing::replace(self, key, guard, change).await?;
        drop(wrong);
        let replaced = match replaced {
            Replaced::Done(revision) => {
                let written = Written::replaced(change, before.as_ref());
                Replaced::Done(times::written(self, key, &written, revision))
            }
            Replaced::Lost(found) => Replaced::Lost(answers::lost(self, key, found).await),
        };
        inside.leave();
        Ok(replaced)
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        let key = &scope::stored_under(self.fault, key);
        let mut inside = self.enter(key).await?;
        let wrong = self.wrong_clock();
        let found = self.inner.find(key).await?;
        drop(wrong);
        let found = answers::find(self, key, found).await;
        inside.leave();
        Ok(found)
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        let _wrong = self.wrong_clock();
        sweeping::sweep(self, limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        sweeping::stats(self).await
    }
}

#[async_trait]
impl Harness for BrokenStore {
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
        Ok(Arc::new(Self { seen: Arc::default(), ..self.clone() }))
    }

    async fn elapse(&self, time: Duration) {
        self.inner.advance(time);
    }

    fn pace(&self) -> Pace {
        Pace::Manual
    }

    /// Whoever asks for a store that hangs wants to see it fail; the others fail by themselves, however long they take.
    fn bound(&self) -> Duration {
        Duration::from_secs(if self.hangs() { 8 } else { 120 })
    }

    async fn damage(&self, key: &ScopedKey, damage: Damage) -> Result<(), Halt> {
        Harness::damage(&self.inner, key, damage).await?;
        if self.is(Fault::CorruptNeverExpires)
            && let Some(row) = self.inner.state().rows.get_mut(key)
        {
            row.expires_at = times::NEVER;
        }
        Ok(())
    }

    async fn strand(&self, outage: Outage) -> Result<Stranded, Halt> {
        server::strand(self, outage).await
    }

    async fn open_with_wrong_clock(&self, wrong: WrongClock) -> Result<Arc<dyn KeyStore>, Halt> {
        Ok(Arc::new(Self { wrong: Some(wrong), ..self.clone() }))
    }

    async fn alone(&self) -> Result<(), Halt> {
        Ok(())
    }
}
