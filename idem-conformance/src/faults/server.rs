//! What becomes of calls whose server is missing.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Change, Found, Guard, Inserted, KeyStore, NewRecord, Replaced, ScopedKey, StoreError, StoreErrorKind, StoreStats,
    Swept,
};

use super::{BrokenStore, Fault};
use crate::{Halt, Harness, Outage, ReferenceStore, Stranded};

pub(super) async fn strand(store: &BrokenStore, outage: Outage) -> Result<Stranded, Halt> {
    let stranded: Arc<dyn KeyStore> = match store.fault {
        Fault::HangsWithoutServer => Arc::new(BadlyMissed::Hangs),
        Fault::HangsOnSilence if outage == Outage::Silent => Arc::new(BadlyMissed::Hangs),
        Fault::OutageIsOther => Arc::new(BadlyMissed::IsOther),
        Fault::FallsBackToMemory => Arc::new(ReferenceStore::new()),
        _ => return store.inner.strand(outage).await,
    };
    Ok(Stranded { store: stranded, gives_up_within: Duration::ZERO })
}

enum BadlyMissed {
    Hangs,
    IsOther,
}

impl BadlyMissed {
    async fn miss<T>(&self) -> Result<T, StoreError> {
        match self {
            Self::Hangs => core::future::pending().await,
            Self::IsOther => {
                let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                Err(StoreError::unknown(StoreErrorKind::Other, refused))
            }
        }
    }
}

#[async_trait]
impl KeyStore for BadlyMissed {
    async fn insert(&self, _: &ScopedKey, _: &NewRecord) -> Result<Inserted, StoreError> {
        self.miss().await
    }

    async fn replace(&self, _: &ScopedKey, _: Guard, _: &Change) -> Result<Replaced, StoreError> {
        self.miss().await
    }

    async fn find(&self, _: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.miss().await
    }

    async fn sweep(&self, _: NonZeroU32) -> Result<Swept, StoreError> {
        self.miss().await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        self.miss().await
    }
}
