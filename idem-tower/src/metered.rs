use core::num::{NonZeroU32, NonZeroUsize};
use std::time::Instant;

use async_trait::async_trait;
use idem_core::{
    Change, Committed, Found, Guard, Inserted, KeyStore, NewRecord, Opened, Replaced, Revision, ScopedKey, StoreError,
    StoreStats, Swept, TransactionalStore,
};
use metrics::histogram;

use crate::observe::STORE_SECONDS;

/// Measures every call of a store as `idempotency_store_seconds{operation}`, failures included. A call that is
/// dropped, as the driver does after its time limit, is measured up to there.
pub(crate) struct Metered<S>(pub(crate) S);

struct Clock(Instant, &'static str);

impl Clock {
    fn start(operation: &'static str) -> Self {
        Self(Instant::now(), operation)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        histogram!(STORE_SECONDS, "operation" => self.1).record(self.0.elapsed().as_secs_f64());
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: KeyStore> KeyStore for Metered<S> {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        let _clock = Clock::start("insert");
        self.0.insert(key, record).await
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        let _clock = Clock::start("replace");
        self.0.replace(key, guard, change).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        let _clock = Clock::start("find");
        self.0.find(key).await
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        let _clock = Clock::start("sweep");
        self.0.sweep(limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        let _clock = Clock::start("stats");
        self.0.stats().await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: TransactionalStore> TransactionalStore for Metered<S> {
    type Tx = S::Tx;

    fn capacity(&self) -> NonZeroUsize {
        self.0.capacity()
    }

    async fn open(&self, key: &ScopedKey) -> Result<Opened<Self::Tx>, StoreError> {
        let _clock = Clock::start("open");
        self.0.open(key).await
    }

    async fn commit(
        &self,
        tx: Self::Tx,
        key: &ScopedKey,
        record: &NewRecord,
        over: Option<Revision>,
    ) -> Result<Committed, StoreError> {
        let _clock = Clock::start("commit");
        self.0.commit(tx, key, record, over).await
    }

    async fn roll_back(&self, tx: Self::Tx) -> Result<(), StoreError> {
        let _clock = Clock::start("roll-back");
        self.0.roll_back(tx).await
    }
}
