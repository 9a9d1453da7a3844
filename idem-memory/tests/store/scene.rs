//! Keys, records and a store to put them in.

use std::num::NonZeroU32;
use std::time::Duration;

use idem_core::{
    Answer, Change, Content, Epoch, Fingerprint, Found, Guard, IdempotencyKey, Inserted, KeyStore, NewRecord,
    Principal, ProfileId, Replaced, Revision, Route, ScopedKey, Settlement, State, StoreError, Swept, Token,
};
use idem_memory::{Limits, ManualClock, MemoryStore};

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);
/// How long a claim is kept that nobody settles.
pub(crate) const UNSETTLED: Duration = Duration::from_secs(7 * 86_400);
pub(crate) const TICK: Duration = Duration::from_nanos(1);

pub(crate) struct Scene {
    pub(crate) clock: ManualClock,
    pub(crate) store: MemoryStore<ManualClock>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::within(Limits::default())
    }

    pub(crate) fn within(limits: Limits) -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock_and_limits(clock.clone(), limits), clock }
    }

    pub(crate) async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        self.store.insert(key, record).await
    }

    /// Inserts where that must succeed.
    pub(crate) async fn inserted(&self, key: &ScopedKey, record: &NewRecord) -> Revision {
        match self.insert(key, record).await {
            Ok(Inserted::Done(revision)) => revision,
            other => panic!("{key:?}: {other:?}"),
        }
    }

    pub(crate) async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Replaced {
        self.store.replace(key, guard, change).await.unwrap()
    }

    /// Settles, renews or takes over where that must succeed.
    pub(crate) async fn replaced(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Revision {
        match self.replace(key, guard, change).await {
            Replaced::Done(revision) => revision,
            lost => panic!("{key:?}: {lost:?}"),
        }
    }

    pub(crate) async fn find(&self, key: &ScopedKey) -> Option<Found> {
        self.store.find(key).await.unwrap()
    }

    pub(crate) async fn sweep(&self, limit: u32) -> Swept {
        self.store.sweep(NonZeroU32::new(limit).unwrap()).await.unwrap()
    }

    /// Records and bytes.
    pub(crate) async fn usage(&self) -> (u64, u64) {
        let stats = self.store.stats().await.unwrap();
        (stats.records.unwrap(), stats.bytes.unwrap())
    }
}

pub(crate) fn key(number: usize) -> ScopedKey {
    let key = IdempotencyKey::parse(format!("order-{number:06}")).unwrap();
    ScopedKey::new(Principal::new("alice").unwrap(), Route::new("/payments").unwrap(), key)
}

pub(crate) fn token(number: u8) -> Token {
    Token::from_bytes([number; 16])
}

pub(crate) fn owner(number: u8) -> Guard {
    Guard::Owner(token(number))
}

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(1), [7; 32])
}

pub(crate) fn claim(number: u8) -> NewRecord {
    claim_for(number, LEASE, UNSETTLED)
}

pub(crate) fn claim_for(number: u8, lease: Duration, retention: Duration) -> NewRecord {
    NewRecord::claim(fingerprint(), token(number), Epoch::FIRST, lease, retention)
}

/// A completed record, kept for a day, with these bytes as its answer.
pub(crate) fn completed(number: u8, answer: impl Into<Vec<u8>>) -> NewRecord {
    completed_for(number, answer, DAY)
}

pub(crate) fn completed_for(number: u8, answer: impl Into<Vec<u8>>, retention: Duration) -> NewRecord {
    let settlement = Settlement::Completed(Answer::Value(answer.into().into()));
    NewRecord::settled(fingerprint(), token(number), Epoch::FIRST, settlement, retention)
}

pub(crate) fn released(number: u8) -> NewRecord {
    NewRecord::settled(fingerprint(), token(number), Epoch::FIRST, Settlement::Released, DAY)
}

pub(crate) fn renewal() -> Change {
    Change::Renew { lease: LEASE, retention: UNSETTLED }
}

pub(crate) fn token_of(found: &Found) -> Token {
    let Content::Readable(record) = &found.content else { panic!("{found:?}") };
    record.token
}

pub(crate) fn state_of(found: &Found) -> &State {
    let Content::Readable(record) = &found.content else { panic!("{found:?}") };
    &record.state
}

pub(crate) fn answered(bytes: &'static [u8]) -> State {
    State::Completed(Answer::Value(bytes.into()))
}
