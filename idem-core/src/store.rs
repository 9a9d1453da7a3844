//! What a backend does: one conditional write at a time, and no protocol.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Change, Found, Guard, NewRecord, Revision, ScopedKey, StoreError};

/// Keeps records, and writes them only where nothing stands in the way.
///
/// A store never knows the protocol: it compares and swaps, so that no two backends can disagree about leases. All
/// that it promises is below; `idem-conformance` holds a case for each.
///
/// # Contract
///
/// 1. [`insert`](Self::insert) is one atomic step and treats an expired record as absent. It never says `Done`
///    without a durable record, and never gives an expired record as `Occupied`. The record stands under exactly its
///    own principal, route and key, and every later call sees it, through whichever handle or replica. *Broken: two
///    handlers run, an old key blocks a new request, or a caller gets another's answer.*
/// 2. A lost race gives what is there **now**. If that vanished meanwhile, the store looks again, a bounded number of
///    times, and then says [`Contended`](crate::StoreErrorKind::Contended). *Broken: the loser runs unprotected.*
/// 3. [`replace`](Self::replace) acts only while its guard holds, in one atomic step, and never creates a record.
///    *Broken: a late attempt reopens or erases a completed record.*
/// 4. Only the store's own clock counts. Times cross this trait as durations, kept to the millisecond or better;
///    [`Found`] has all of them from the same consistent step as the record. *Broken: an application clock that is
///    wrong ends a live lease.*
/// 5. Bytes come back as they went in: empty, NUL, not UTF-8, 1 MiB, repeated headers in order. *Broken: a retry
///    gets another answer.*
/// 6. Tokens are compared verbatim, and `insert` repeated with one token finds that token. *Broken: an attempt whose
///    claim got no reply is locked out by itself.*
/// 7. A record that cannot be decoded is [`Content::Unreadable`](crate::Content), never vacant, never a default
///    value. It expires as any other, and [`Guard::Owner`] never fits it. *Broken: after an upgrade, everything runs
///    again.*
/// 8. Every wait is bounded; a missing server is an error of kind
///    [`Unavailable`](crate::StoreErrorKind::Unavailable) within the configured time. *Broken: requests pile up.*
/// 9. There are no default method bodies, and `Arc<S>`, `Box<S>` and `&S` forward every method. *Broken: a wrapper
///    with weaker guarantees than what it wraps.*
/// 10. Records carry a format version; see [`wire`](crate::wire). *Broken: a rolling deploy reads garbage.*
///
/// # Cancellation
///
/// A future that is dropped may or may not have written. The driver counts such a call as *unknown*.
///
/// # Example
///
/// A whole store: a map behind a lock, with a clock that the store owns.
///
/// ```
/// use std::collections::HashMap;
/// use std::num::NonZeroU32;
/// use std::sync::Mutex;
/// use std::time::{Duration, Instant};
///
/// use idem_core::*;
///
/// #[derive(Default)]
/// struct MapStore(Mutex<Map>);
///
/// #[derive(Default)]
/// struct Map {
///     rows: HashMap<ScopedKey, Row>,
///     writes: u64,
/// }
///
/// struct Row {
///     record: Record,
///     revision: Revision,
///     claimed_at: Instant,
///     lease_until: Instant,
///     expires_at: Instant,
/// }
///
/// impl Row {
///     // Promise 4: every time is computed here, from one reading of the store's clock.
///     fn found(&self, now: Instant) -> Found {
///         Found {
///             revision: self.revision,
///             age: now.saturating_duration_since(self.claimed_at),
///             lease_left: self.lease_until.saturating_duration_since(now),
///             retention_left: self.expires_at.saturating_duration_since(now),
///             content: Content::Readable(self.record.clone()),
///         }
///     }
///
///     // A live lease keeps its record, whatever the retention says.
///     fn is_expired(&self, now: Instant) -> bool {
///         now >= self.expires_at.max(self.lease_until)
///     }
/// }
///
/// impl Map {
///     // Revisions never come twice, also not for a key that was removed and inserted anew.
///     fn next_revision(&mut self) -> Revision {
///         self.writes += 1;
///         Revision::from_number(self.writes)
///     }
///
///     fn live(&self, key: &ScopedKey, now: Instant) -> Option<&Row> {
///         self.rows.get(key).filter(|row| !row.is_expired(now))
///     }
///
///     fn write(&mut self, key: &ScopedKey, new: &NewRecord, now: Instant) -> Revision {
///         let revision = self.next_revision();
///         let settled = new.record().state.is_settled();
///         let previous = self.live(key, now).filter(|_| settled).map(|row| row.claimed_at);
///         let expires_at = match previous {
///             Some(claimed_at) => (claimed_at + new.retention()).max(now + new.retention() / 2),
///             None => now + new.retention(),
///         };
///         let row = Row {
///             record: new.record().clone(),
///             revision,
///             claimed_at: previous.unwrap_or(now),
///             lease_until: now + new.lease(),
///             expires_at,
///         };
///         self.rows.insert(key.clone(), row);
///         revision
///     }
/// }
///
/// #[async_trait::async_trait]
/// impl KeyStore for MapStore {
///     async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
///         let (mut map, now) = (self.0.lock().unwrap(), Instant::now());
///         if let Some(row) = map.live(key, now) {
///             return Ok(Inserted::Occupied(row.found(now)));
///         }
///         Ok(Inserted::Done(map.write(key, record, now)))
///     }
///
///     async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
///         let (mut map, now) = (self.0.lock().unwrap(), Instant::now());
///         let Some(row) = map.live(key, now) else { return Ok(Replaced::Lost(None)) };
///         let holds = match guard {
///             Guard::Owner(token) => row.record.token == token && !row.record.state.is_settled(),
///             Guard::Unchanged(revision) => row.revision == revision,
///         };
///         let claimed = !row.record.state.is_settled();
///         match change {
///             _ if !holds => Ok(Replaced::Lost(Some(row.found(now)))),
///             Change::Record(new) => Ok(Replaced::Done(map.write(key, new, now))),
///             // There is nothing to renew in a settled record, also where its revision fits.
///             Change::Renew { .. } if !claimed => Ok(Replaced::Lost(Some(row.found(now)))),
///             Change::Renew { lease, retention } => {
///                 let revision = map.next_revision();
///                 let row = map.rows.get_mut(key).expect("a live row is in the map");
///                 row.revision = revision;
///                 row.lease_until = now + *lease;
///                 if row.expires_at < now + *retention / 2 {
///                     row.expires_at = now + *retention;
///                 }
///                 Ok(Replaced::Done(revision))
///             }
///         }
///     }
///
///     async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
///         let (map, now) = (self.0.lock().unwrap(), Instant::now());
///         Ok(map.live(key, now).map(|row| row.found(now)))
///     }
///
///     async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
///         let (mut map, now) = (self.0.lock().unwrap(), Instant::now());
///         let (mut removed, limit) = (0, limit.get());
///         map.rows.retain(|_, row| {
///             let goes = removed < limit && row.is_expired(now);
///             removed += u32::from(goes);
///             !goes
///         });
///         Ok(Swept { removed, more: removed == limit })
///     }
///
///     async fn stats(&self) -> Result<StoreStats, StoreError> {
///         Ok(StoreStats { records: Some(self.0.lock().unwrap().rows.len() as u64), ..StoreStats::default() })
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = MapStore::default();
/// let key = ScopedKey::new(Principal::shared(), Route::new("ship")?, IdempotencyKey::parse("order-4711")?);
/// let fingerprint = Fingerprint::from_parts(ProfileId::from_bits(1), [7; 32]);
/// let claim = |token| {
///     let (lease, retention) = (Duration::from_secs(30), Duration::from_secs(3600));
///     NewRecord::claim(fingerprint, Token::from_bytes([token; 16]), Epoch::FIRST, lease, retention)
/// };
/// assert!(matches!(store.insert(&key, &claim(1)).await?, Inserted::Done(_)));
/// assert!(matches!(store.insert(&key, &claim(2)).await?, Inserted::Occupied(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Writes `record` where there is none.
    ///
    /// *Outcomes*: `Done` once the record is durable; `Occupied` with what is there, an own earlier write included.
    ///
    /// *Cost*: one round trip; a second one for the loser of a race, where the backend needs it.
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError>;

    /// Writes `change` over the record that is there, if `guard` holds.
    ///
    /// A renewal fits a claim in progress only: over a settled record it is `Lost`, whatever the guard.
    ///
    /// *Outcomes*: `Done`; or `Lost` with what is there now, `None` where the key is vacant.
    ///
    /// *Cost*: one round trip.
    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError>;

    /// Reads the record, `None` where the key is vacant.
    ///
    /// *Cost*: one round trip.
    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError>;

    /// Removes at most `limit` expired records. Never one that is alive at the moment of its removal, such as one
    /// that was renewed or inserted anew since the store looked.
    ///
    /// *Cost*: bounded by `limit`; never a lock over the whole store.
    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError>;

    /// Counts what the store holds, where it can without a scan; `None` where it cannot know.
    async fn stats(&self) -> Result<StoreStats, StoreError>;
}

/// What became of an insert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The record is there, durably, in this version.
    Done(Revision),
    /// A record was there before.
    Occupied(Found),
}

/// What became of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The change is there, durably, in this version.
    Done(Revision),
    /// The guard did not hold; nothing was written. What is there now.
    Lost(Option<Found>),
}

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Records that are gone.
    pub removed: u32,
    /// Another sweep would probably find more.
    pub more: bool,
}

/// What a store holds. `None` where the store cannot know without a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Records, expired ones that were not swept yet among them.
    pub records: Option<u64>,
    /// Records that are expired and not swept yet.
    pub expired: Option<u64>,
    /// Bytes that the records take.
    pub bytes: Option<u64>,
    /// How long ago the oldest unswept record expired. A number that grows says that nobody sweeps.
    pub oldest_expired: Option<Duration>,
}

macro_rules! forward_to_inner {
    ($($wrapper:ty),+) => {$(
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<S: KeyStore + ?Sized> KeyStore for $wrapper {
            async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
                (**self).insert(key, record).await
            }

            async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
                (**self).replace(key, guard, change).await
            }

            async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
                (**self).find(key).await
            }

            async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
                (**self).sweep(limit).await
            }

            async fn stats(&self) -> Result<StoreStats, StoreError> {
                (**self).stats().await
            }
        }
    )+};
}

forward_to_inner!(&S, Box<S>, Arc<S>);
