//! How the store reaches its server, and how long it waits for what.

use core::fmt;
use core::time::Duration;

use idem_core::{StoreError, StoreErrorKind};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool, SqlSafeStr};

use crate::PostgresStore;

/// The settings of a [`PostgresStore`].
///
/// The store has a small pool of its own: its statements are planned under settings (no sequential scans, a short lock
/// time-out) that the application's should not have, and a handful of connections is enough, because what waits
/// travels together.
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
///
/// use idem_postgres::PostgresConfig;
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresConfig::new("postgres://payments@db.internal/payments")?
///     .max_connections(8)
///     .command_timeout(Duration::from_secs(1))
///     .connect()
///     .await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) options: PgConnectOptions,
    pub(crate) max_connections: u32,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) group_lock_timeout: Duration,
    pub(crate) group_size: usize,
    pub(crate) group_bytes: usize,
    pub(crate) groups_in_flight: usize,
    pub(crate) behind_transaction_pooler: bool,
    pub(crate) may_lose_claims: bool,
}

impl PostgresConfig {
    /// Takes a URL as `postgres://user:password@host:port/database`; the schema is the first of the role's or the
    /// database's `search_path`.
    ///
    /// # Errors
    ///
    /// Of kind *misconfigured*, where the URL cannot be read. The error does not repeat the URL.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        // sqlx takes whatever scheme comes.
        let options = match url.starts_with("postgres://") || url.starts_with("postgresql://") {
            true => url.parse(),
            false => Err(sqlx::Error::Configuration("the URL does not begin with postgres://".into())),
        };
        match options {
            Ok(options) => Ok(Self::with_options(options)),
            Err(error) => Err(StoreError::not_written(StoreErrorKind::Misconfigured, error)),
        }
    }

    /// Takes options as sqlx has them: TLS, certificates, sockets.
    #[must_use]
    pub fn with_options(options: PgConnectOptions) -> Self {
        Self {
            options,
            max_connections: 8,
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(2),
            lock_timeout: Duration::from_millis(50),
            // A time-out counts for the lock to extend the table as well, which is only busy: no shorter than for one row.
            group_lock_timeout: Duration::from_millis(50),
            group_size: 128,
            group_bytes: 4 << 20,
            groups_in_flight: 2,
            behind_transaction_pooler: false,
            may_lose_claims: false,
        }
    }

    /// Uses at most this many connections; the default is 8. Two are enough for most: more requests make larger groups,
    /// not more connections.
    ///
    /// # Panics
    ///
    /// Where it is less than 2: one key that is locked elsewhere must not hold up all others.
    #[must_use]
    #[track_caller]
    pub fn max_connections(mut self, connections: u32) -> Self {
        assert!(connections >= 2, "with one connection, a key that is locked elsewhere holds up every other key");
        self.max_connections = connections;
        self
    }

    /// Waits at most this long for a connection, its making included; the default is 2 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Waits at most this long for the answer to one statement; the default is 2 s. The server is told as well
    /// (`statement_timeout`), so that what nobody waits for any more does not go on there.
    #[must_use]
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// Waits at most this long for a row that somebody's open transaction holds; the default is 50 ms. The key is in
    /// progress then. In whole milliseconds, at least one.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Sends at most this many writes in one statement; the default is 128. One turns grouping off.
    ///
    /// # Panics
    ///
    /// Where it is zero.
    #[must_use]
    #[track_caller]
    pub fn group_size(mut self, writes: usize) -> Self {
        assert!(writes > 0, "a group of no writes writes nothing");
        self.group_size = writes;
        self
    }

    /// Lets this many statements of one kind (claims; everything else) be under way at once; the default is 2. What
    /// comes meanwhile waits, and travels together in the next.
    ///
    /// # Panics
    ///
    /// Where it is zero.
    #[must_use]
    #[track_caller]
    pub fn groups_in_flight(mut self, groups: usize) -> Self {
        assert!(groups > 0, "with no group in flight nothing is written");
        self.groups_in_flight = groups;
        self
    }

    /// Works through a pooler that hands out another server connection with each transaction: `PgBouncer` in
    /// transaction mode.
    ///
    /// Settings then travel with each transaction instead of with the connection, and no statement stays prepared: four
    /// round trips to the pooler in place of one. Without it, such a pooler refuses the connection for its start-up
    /// parameter `options`, which is loud on purpose: settings of a session would leak to its next user.
    #[must_use]
    pub fn behind_transaction_pooler(mut self) -> Self {
        self.behind_transaction_pooler = true;
        self
    }

    /// Works with a server that reports a commit before it is on disk (`synchronous_commit = off`). After a crash of
    /// the server, a claim that was acknowledged may be gone, and its operation runs a second time.
    ///
    /// Without it, such a server is refused.
    #[must_use]
    pub fn allow_losing_acknowledged_claims_in_a_crash(mut self) -> Self {
        self.may_lose_claims = true;
        self
    }

    /// Connects, and looks whether server and table are fit for use.
    ///
    /// # Errors
    ///
    /// As [`PostgresStore::probe`].
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        let store = self.connect_lazily();
        store.probe().await?;
        Ok(store)
    }

    /// Makes the store without a look at the server, for applications that start while it is down. Within a tokio
    /// runtime. [`PostgresStore::probe`] makes up for the look.
    #[must_use]
    pub fn connect_lazily(self) -> PostgresStore {
        PostgresStore::new(self)
    }

    pub(crate) fn pool(&self) -> PgPool {
        let mut options = self.options.clone();
        if self.behind_transaction_pooler {
            options = options.statement_cache_capacity(0);
        } else {
            options = options.options([("default_transaction_isolation", "read committed")]);
            options = options.options(self.session_settings());
        }
        PgPoolOptions::new()
            .max_connections(self.max_connections)
            .acquire_timeout(self.connect_timeout)
            .connect_lazy_with(options)
    }

    /// Opens a transaction behind a pooler, under the settings that a connection has elsewhere.
    pub(crate) fn begin(&self) -> Option<sqlx::SqlStr> {
        self.behind_transaction_pooler.then(|| {
            let settings = self.session_settings().map(|(name, value)| format!("; SET LOCAL {name} = '{value}'"));
            AssertSqlSafe(format!("BEGIN ISOLATION LEVEL READ COMMITTED{}", settings.concat())).into_sql_str()
        })
    }

    /// Planning: the first plan of a statement may be made while the table is empty, and is kept; it must be an index
    /// plan nevertheless. None of these statements is worth compiling.
    fn session_settings(&self) -> [(&'static str, String); 6] {
        let milliseconds = |time: Duration| time.as_millis().clamp(1, i32::MAX as u128).to_string();
        [
            ("enable_seqscan", "off".to_owned()),
            ("enable_memoize", "off".to_owned()),
            ("plan_cache_mode", "force_generic_plan".to_owned()),
            ("jit", "off".to_owned()),
            ("lock_timeout", milliseconds(self.lock_timeout)),
            // Before the client's own bound, so that it is the server who says that nothing was written.
            ("statement_timeout", milliseconds(self.command_timeout * 3 / 4)),
        ]
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("max_connections", &self.max_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("group_size", &self.group_size)
            .field("groups_in_flight", &self.groups_in_flight)
            .field("behind_transaction_pooler", &self.behind_transaction_pooler)
            .finish_non_exhaustive()
    }
}
