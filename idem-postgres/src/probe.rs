//! The look at the server before the first request, and the making of the table.

use idem_core::{StoreError, StoreErrorKind};
use sqlx::migrate::MigrateError;
use sqlx::{ConnectOptions, Row, query};
use tokio::time::timeout;

use crate::error::{Stage, TimedOut, store_error};
use crate::queries::PROBE;
use crate::row::COLUMNS;
use crate::{PostgresConfig, PostgresStore};

/// Why a server is not fit for use. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The table is not on the search path.
    #[error(
        "there is no table idempotency_keys on the search_path: run PostgresConfig::migrate, or set the search_path"
    )]
    NoTable,
    /// The table is of another version.
    #[error("idempotency_keys lacks the column {column}: run PostgresConfig::migrate of this version")]
    NoColumn {
        /// The first that is missing.
        column: String,
    },
    /// A table without its primary key, as a copy is: every claim of a race would win.
    #[error(
        "idempotency_keys has no unique index on principal, route and key alone: two claims of one key would both win"
    )]
    NotUnique,
    /// A crash empties it.
    #[error("idempotency_keys is UNLOGGED: a crash of the server empties it. ALTER TABLE idempotency_keys SET LOGGED")]
    Unlogged,
    /// The function that locks and looks is missing, or not on the search path.
    #[error("there is no function idempotency_lock_and_find on the search_path: run PostgresConfig::migrate")]
    NoFunction,
    /// Principals and routes are Unicode.
    #[error("the database has the encoding {encoding}: names need UTF8")]
    Encoding {
        /// What it has.
        encoding: String,
    },
    /// Too old.
    #[error("the server has version {version}: 14 is the oldest that works")]
    Version {
        /// As `server_version_num` says.
        version: i32,
    },
    /// A replica, or a primary set read-only.
    #[error("the server takes no writes: it is a replica, or set read-only")]
    ReadOnly,
    /// A commit is reported before it is on disk.
    #[error(
        "the server has synchronous_commit = off and can forget an acknowledged claim in a crash: set it to on for this \
         role or database, or call allow_losing_acknowledged_claims_in_a_crash"
    )]
    ForgetsClaims,
    /// Migrations hold a lock of a session, which a pooler takes away.
    #[error("migrations do not go through a transaction pooler: run them with a URL of the server itself")]
    MigratesThroughPooler,
}

impl PostgresStore {
    /// Looks whether server and table are fit for use.
    ///
    /// # Errors
    ///
    /// Of kind *misconfigured* with an [`Unfit`] as its source; or as any statement, where the server does not answer.
    /// Nothing is written.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn probe(&self) -> Result<(), StoreError> {
        let rows = self.writer.sessions.fetch(query(PROBE).bind(&COLUMNS[..])).await?;
        let judged = || -> Result<Option<Unfit>, sqlx::Error> {
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            let missing: Option<Vec<String>> = row.try_get("missing_columns")?;
            let encoding: String = row.try_get("encoding")?;
            let version: i32 = row.try_get("version")?;
            let synchronous_commit: String = row.try_get("synchronous_commit")?;
            Ok(if version < 140_000 {
                Some(Unfit::Version { version })
            } else if encoding != "UTF8" {
                Some(Unfit::Encoding { encoding })
            } else if !row.try_get::<bool, _>("has_table")? {
                Some(Unfit::NoTable)
            } else if let Some(column) = missing.into_iter().flatten().next() {
                Some(Unfit::NoColumn { column })
            } else if !row.try_get::<bool, _>("is_unique")? {
                Some(Unfit::NotUnique)
            } else if row.try_get::<Option<bool>, _>("is_logged")? == Some(false) {
                Some(Unfit::Unlogged)
            } else if !row.try_get::<bool, _>("has_function")? {
                Some(Unfit::NoFunction)
            } else if row.try_get::<bool, _>("is_read_only")? {
                Some(Unfit::ReadOnly)
            } else if synchronous_commit == "off" && !self.config().may_lose_claims {
                Some(Unfit::ForgetsClaims)
            } else {
                None
            })
        };
        match judged().map_err(|error| store_error(error, Stage::Sent))? {
            Some(unfit) => Err(StoreError::not_written(StoreErrorKind::Misconfigured, unfit)),
            None => Ok(()),
        }
    }
}

impl PostgresConfig {
    /// Makes the table, or brings it up to this version: in the first schema of the `search_path`, with a table
    /// `idempotency_migrations` beside it that remembers what was done.
    ///
    /// Several processes may do it at once: one does it, the others wait. A process of an older version leaves a newer
    /// table as it is.
    ///
    /// # Errors
    ///
    /// Where the server could not be reached, or does not let this role make tables and functions. A migration that
    /// fails leaves nothing behind.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        if self.behind_transaction_pooler {
            return Err(StoreError::not_written(StoreErrorKind::Misconfigured, Unfit::MigratesThroughPooler));
        }
        // A start-up parameter, whichever: a transaction pooler that nobody has told of refuses the connection for it.
        let options = self.options.clone().options([("client_min_messages", "warning")]);
        let connecting = timeout(self.connect_timeout, options.connect());
        let mut connection = match connecting.await {
            Ok(connected) => connected.map_err(|error| store_error(error, Stage::Connecting))?,
            Err(_) => {
                let late = TimedOut::Connecting(self.connect_timeout);
                return Err(StoreError::not_written(StoreErrorKind::Unavailable, late));
            }
        };
        let mut migrator = sqlx::migrate!();
        // An application has its own `_sqlx_migrations`, with versions of its own.
        migrator.dangerous_set_table_name("idempotency_migrations");
        migrator.set_ignore_missing(true);
        migrator.run_direct(None, &mut connection, false).await.map_err(|error| match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => store_error(error, Stage::Sent),
            error => StoreError::not_written(StoreErrorKind::Misconfigured, error),
        })
    }
}
