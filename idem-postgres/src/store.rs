use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Change, Found, Guard, Inserted, KeyStore, NewRecord, OsTokens, Replaced, Revision, ScopedKey, StoreError,
    StoreErrorKind, StoreStats, Swept, TokenSource,
};
use sqlx::postgres::types::PgInterval;
use sqlx::{PgPool, Row, query};

use crate::PostgresConfig;
use crate::claim::Claim;
use crate::error::{Stage, store_error};
use crate::group::{Limits, Queue};
use crate::queries::{STATS, SWEEP};
use crate::replace::{Expected, Replace};
use crate::writer::Writer;

/// Keeps records in a table of Postgres. Clones share the pool and the groups.
///
/// What it promises and what it does not stands on the [crate's front page](crate).
///
/// *Cost*: one round trip for a claim, a replay, a completion, a renewal; two for the loser of a race, for a claim over
/// an expired row, and for a write whose guard does not hold; three where those travelled in a group. What waits shares its round trip with others.
///
/// *Cancellation*: a write that waits for its turn is not sent any more; one that is under way may take effect.
///
/// # Example
///
/// ```no_run
/// use idem_core::Idempotency;
/// use idem_postgres::{PostgresConfig, PostgresStore};
///
/// # async fn start(url: &str) -> Result<(), Box<dyn std::error::Error>> {
/// PostgresConfig::new(url)?.migrate().await?;
/// let store = PostgresStore::connect(url).await?;
/// let idem = Idempotency::new(store, tokio::time::sleep);
/// # drop(idem);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    config: Arc<PostgresConfig>,
    pub(crate) writer: Arc<Writer>,
    claims: Queue<Claim>,
    replacements: Queue<Replace>,
}

impl PostgresStore {
    /// Connects under the default [settings](PostgresConfig), and looks whether server and table are fit for use.
    ///
    /// # Errors
    ///
    /// As [`PostgresConfig::new`] and [`probe`](Self::probe).
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        PostgresConfig::new(url)?.connect().await
    }

    pub(crate) fn new(config: PostgresConfig) -> Self {
        let writer = Arc::new(Writer::new(&config));
        let limits = Limits {
            writes: config.group_size,
            bytes: config.group_bytes,
            in_flight: config.groups_in_flight,
            // A group before it, its own, and a second look alone.
            patience: (config.connect_timeout + config.command_timeout).saturating_mul(3),
        };
        let (inserts, replaces) = (Arc::clone(&writer), Arc::clone(&writer));
        Self {
            claims: Queue::new(limits, move |group| Arc::clone(&inserts).insert_many(group)),
            replacements: Queue::new(limits, move |group| Arc::clone(&replaces).replace_many(group)),
            writer,
            config: Arc::new(config),
        }
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &PostgresConfig {
        &self.config
    }

    /// Ends the store's connections, once what is under way on them is answered. What waits or comes later is
    /// *unavailable*, and certainly not written.
    ///
    /// *Cancellation*: the store is closed all the same.
    pub async fn close(&self) {
        self.writer.sessions.close().await;
    }

    /// The store's own pool, for its size: not for the application's statements, which want other settings, and not for
    /// its end, which is [`close`](Self::close)'s.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.writer.sessions.pool()
    }
}

#[async_trait]
impl KeyStore for PostgresStore {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        let revision = draw_revision()?;
        self.claims.ask(Claim { key: key.clone(), record: record.clone(), revision }).await
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        let revision = draw_revision()?;
        let replace = Replace { key: key.clone(), guard, change: change.clone(), revision, expected: Expected::Alive };
        self.replacements.ask(replace).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.writer.find(key).await
    }

    /// Removes expired rows, those whose end is longest ago first, in one statement. Rows that somebody is writing are
    /// left to the next sweep, so that sweeps of several processes share the work and none waits. At most 10,000 rows,
    /// whatever the limit: a statement that takes too long is rolled back, and would never get anywhere.
    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        let limit = limit.min(LARGEST_SWEEP);
        let rows = self.writer.sessions.fetch(query(SWEEP).bind(i64::from(limit.get()))).await?;
        let counted = || -> Result<(i64, i64), sqlx::Error> {
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            Ok((row.try_get("looked")?, row.try_get("removed")?))
        };
        let (looked, removed) = counted().map_err(|error| store_error(error, Stage::Sent))?;
        Ok(Swept { removed: u32::try_from(removed).unwrap_or(limit.get()), more: looked >= i64::from(limit.get()) })
    }

    /// Counts up to 10,000 rows one by one; beyond that `records` is the server's estimate, and `expired` stays at that
    /// bound. `bytes` has indexes and dead rows among them, `oldest_expired` looks at the same bounded number of rows.
    async fn stats(&self) -> Result<StoreStats, StoreError> {
        let rows = self.writer.sessions.fetch(query(STATS).bind(COUNTED)).await?;
        let read = || -> Result<StoreStats, sqlx::Error> {
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            let count = |column| -> Result<_, sqlx::Error> { Ok(u64::try_from(row.try_get::<i64, _>(column)?).ok()) };
            let oldest: Option<PgInterval> = row.try_get("oldest_expired")?;
            Ok(StoreStats {
                records: count("rows")?,
                expired: count("expired")?,
                bytes: count("bytes")?,
                oldest_expired: oldest.map(duration),
            })
        };
        read().map_err(|error| store_error(error, Stage::Sent))
    }
}

const LARGEST_SWEEP: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");

/// Rows that are counted one by one: some milliseconds.
const COUNTED: i64 = 10_000;

/// The difference of two `timestamptz` has days and microseconds, never months.
fn duration(interval: PgInterval) -> Duration {
    let days = u64::try_from(interval.days).unwrap_or(0);
    Duration::from_secs(days * 24 * 3600) + Duration::from_micros(u64::try_from(interval.microseconds).unwrap_or(0))
}

/// Never the same twice, also across a fail-over to a replica that has missed the last writes, where a sequence or a
/// transaction id would begin again.
pub(crate) fn draw_revision() -> Result<Revision, StoreError> {
    let token = OsTokens.draw().map_err(|error| StoreError::not_written(StoreErrorKind::Other, error))?;
    let [a, b, c, d, e, f, g, h, ..] = token.to_bytes();
    Ok(Revision::from_number(u64::from_be_bytes([a, b, c, d, e, f, g, h])))
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("config", &self.config).finish_non_exhaustive()
    }
}
