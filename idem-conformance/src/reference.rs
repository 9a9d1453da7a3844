//! A store that keeps every promise, for the suite's own tests and for tests that want one with a clock of their own.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use idem_core::{
    Change, Content, Found, Guard, Inserted, KeyStore, NewRecord, Replaced, Revision, ScopedKey, StoreError,
    StoreErrorKind, StoreStats, Swept, Unreadable,
};

use crate::{Damage, Halt, Harness, Outage, Pace, Stranded, WrongClock};

/// A map behind a lock. Clones are handles on the same data.
#[derive(Clone)]
pub struct ReferenceStore(Arc<Mutex<State>>);

pub(crate) struct State {
    pub(crate) rows: HashMap<ScopedKey, Row>,
    writes: u64,
    clock: Clock,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) content: Content,
    pub(crate) revision: Revision,
    /// All three on the store's clock.
    pub(crate) claimed_at: Duration,
    pub(crate) lease_until: Duration,
    pub(crate) expires_at: Duration,
}

enum Clock {
    Manual(Duration),
    Real(Instant),
}

impl ReferenceStore {
    /// An empty store whose time passes by [`advance`](Self::advance) alone.
    #[must_use]
    pub fn new() -> Self {
        // Not at zero, so that there is a time before it.
        Self::with_clock(Clock::Manual(Duration::from_secs(365 * 24 * 3600)))
    }

    /// An empty store whose time passes by itself.
    #[must_use]
    pub fn real_time() -> Self {
        Self::with_clock(Clock::Real(Instant::now()))
    }

    fn with_clock(clock: Clock) -> Self {
        Self(Arc::new(Mutex::new(State { rows: HashMap::new(), writes: 0, clock })))
    }

    /// Lets time pass. A clock that goes by itself is left alone.
    pub fn advance(&self, time: Duration) {
        if let Clock::Manual(now) = &mut self.state().clock {
            *now += time;
        }
    }

    /// Damages the stored record under `key`; says whether there was one.
    #[must_use]
    pub fn damage(&self, key: &ScopedKey, damage: Damage) -> bool {
        let unreadable = match damage {
            Damage::Corrupt => Unreadable::Corrupt,
            Damage::Version(version) => Unreadable::UnknownVersion { version },
        };
        let mut state = self.state();
        let revision = state.next_revision();
        let row = state.rows.get_mut(key);
        row.map(|row| (row.content, row.revision) = (Content::Unreadable(unreadable), revision)).is_some()
    }

    /// A panic elsewhere leaves whole rows: each write is one assignment.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ReferenceStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ReferenceStore {
    /// Shows no keys, and waits for no lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ReferenceStore");
        if let Ok(state) = self.0.try_lock() {
            shown.field("records", &state.rows.len()).field("now", &state.now());
        }
        shown.finish_non_exhaustive()
    }
}

impl Row {
    pub(crate) fn found(&self, now: Duration) -> Found {
        Found {
            revision: self.revision,
            age: now.saturating_sub(self.claimed_at),
            lease_left: self.lease_until.saturating_sub(now),
            retention_left: self.expires_at.saturating_sub(now),
            content: self.content.clone(),
        }
    }

    pub(crate) fn is_expired(&self, now: Duration) -> bool {
        now >= self.expires_at.max(self.lease_until)
    }

    fn satisfies(&self, guard: Guard) -> bool {
        match (guard, &self.content) {
            (Guard::Unchanged(revision), _) => self.revision == revision,
            (Guard::Owner(token), Content::Readable(record)) => record.token == token && !record.state.is_settled(),
            (Guard::Owner(_), Content::Unreadable(_)) => false,
        }
    }

    pub(crate) fn is_claim(&self) -> bool {
        matches!(&self.content, Content::Readable(record) if !record.state.is_settled())
    }
}

impl State {
    pub(crate) fn now(&self) -> Duration {
        match self.clock {
            Clock::Manual(now) => now,
            Clock::Real(start) => start.elapsed(),
        }
    }

    /// Puts a manual clock forward or back.
    pub(crate) fn shift(&mut self, by: Duration, forward: bool) {
        if let Clock::Manual(now) = &mut self.clock {
            *now = if forward { *now + by } else { *now - by };
        }
    }

    pub(crate) fn next_revision(&mut self) -> Revision {
        self.writes += 1;
        Revision::from_number(self.writes)
    }

    pub(crate) fn live(&self, key: &ScopedKey) -> Option<&Row> {
        self.rows.get(key).filter(|row| !row.is_expired(self.now()))
    }

    /// Writes whatever was there; a settled record keeps the moment of the claim that it settles.
    pub(crate) fn write(&mut self, key: &ScopedKey, new: &NewRecord) -> Revision {
        let (now, revision) = (self.now(), self.next_revision());
        let settles = new.record().state.is_settled();
        let claimed_at = self.live(key).filter(|_| settles).map(|row| row.claimed_at);
        let expires_at = match claimed_at {
            Some(claimed_at) => claimed_at.saturating_add(new.retention()).max(now.saturating_add(new.retention() / 2)),
            None => now.saturating_add(new.retention()),
        };
        let row = Row {
            content: Content::Readable(new.record().clone()),
            revision,
            claimed_at: claimed_at.unwrap_or(now),
            lease_until: now.saturating_add(new.lease()),
            expires_at,
        };
        self.rows.insert(key.clone(), row);
        revision
    }

    fn renew(&mut self, key: &ScopedKey, lease: Duration, retention: Duration) -> Revision {
        let (now, revision) = (self.now(), self.next_revision());
        if let Some(row) = self.rows.get_mut(key) {
            row.revision = revision;
            row.lease_until = now.saturating_add(lease);
            if row.expires_at < now.saturating_add(retention / 2) {
                row.expires_at = now.saturating_add(retention);
            }
        }
        revision
    }
}

#[async_trait]
impl KeyStore for ReferenceStore {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        let mut state = self.state();
        if let Some(row) = state.live(key) {
            return Ok(Inserted::Occupied(row.found(state.now())));
        }
        // Removed, so that the new record inherits nothing.
        state.rows.remove(key);
        Ok(Inserted::Done(state.write(key, record)))
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        let mut state = self.state();
        let Some(row) = state.live(key) else { return Ok(Replaced::Lost(None)) };
        let fits = row.satisfies(guard) && (row.is_claim() || matches!(change, Change::Record(_)));
        if !fits {
            return Ok(Replaced::Lost(Some(row.found(state.now()))));
        }
        Ok(Replaced::Done(match change {
            Change::Record(record) => state.write(key, record),
            Change::Renew { lease, retention } => state.renew(key, *lease, *retention),
        }))
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        let state = self.state();
        Ok(state.live(key).map(|row| row.found(state.now())))
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        let mut state = self.state();
        let (now, limit, mut removed) = (state.now(), limit.get(), 0);
        state.rows.retain(|_, row| {
            let goes = removed < limit && row.is_expired(now);
            removed += u32::from(goes);
            !goes
        });
        Ok(Swept { removed, more: removed == limit })
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        let state = self.state();
        let now = state.now();
        let expired_for = |row: &Row| now.saturating_sub(row.expires_at.max(row.lease_until));
        let expired = state.rows.values().filter(|row| row.is_expired(now));
        Ok(StoreStats {
            records: Some(state.rows.len() as u64),
            expired: Some(expired.clone().count() as u64),
            bytes: None,
            oldest_expired: expired.map(expired_for).max(),
        })
    }
}

/// A store whose server is never there.
#[derive(Clone, Copy, Debug)]
struct NoServer;

fn no_server<T>() -> Result<T, StoreError> {
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    Err(StoreError::not_written(StoreErrorKind::Unavailable, refused))
}

#[async_trait]
impl KeyStore for NoServer {
    async fn insert(&self, _: &ScopedKey, _: &NewRecord) -> Result<Inserted, StoreError> {
        no_server()
    }

    async fn replace(&self, _: &ScopedKey, _: Guard, _: &Change) -> Result<Replaced, StoreError> {
        no_server()
    }

    async fn find(&self, _: &ScopedKey) -> Result<Option<Found>, StoreError> {
        no_server()
    }

    async fn sweep(&self, _: NonZeroU32) -> Result<Swept, StoreError> {
        no_server()
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        no_server()
    }
}

/// The reference store has a grip for everything that the suite does: it skips no case.
#[async_trait]
impl Harness for ReferenceStore {
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
        Ok(Arc::new(self.clone()))
    }

    async fn elapse(&self, time: Duration) {
        match self.pace() {
            Pace::Manual => self.advance(time),
            Pace::Real { .. } => tokio::time::sleep(time).await,
        }
    }

    fn pace(&self) -> Pace {
        match self.state().clock {
            Clock::Manual(_) => Pace::Manual,
            Clock::Real(_) => Pace::Real { unit: Duration::from_millis(40) },
        }
    }

    async fn damage(&self, key: &ScopedKey, damage: Damage) -> Result<(), Halt> {
        if Self::damage(self, key, damage) { Ok(()) } else { Err(Halt::fail("no record to be damaged")) }
    }

    async fn strand(&self, _: Outage) -> Result<Stranded, Halt> {
        Ok(Stranded { store: Arc::new(NoServer), gives_up_within: Duration::ZERO })
    }

    /// No method reads a clock of the application, so that every handle is one of such an application.
    async fn open_with_wrong_clock(&self, _: WrongClock) -> Result<Arc<dyn KeyStore>, Halt> {
        Ok(Arc::new(self.clone()))
    }

    async fn alone(&self) -> Result<(), Halt> {
        Ok(())
    }
}
