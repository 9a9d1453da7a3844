//! The published suite over Postgres, in one of several ways: each case has a database of its own.

mod wrong_clock;

use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{Damage, Halt, Harness, Outage, Stranded, WrongClock, async_trait};
use idem_core::{KeyStore, ScopedKey};
use idem_postgres::PostgresConfig;
use idem_tests::postgres::{Database, PgBouncer};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, query};

/// Runs the suite.
pub(crate) fn main(way: Way) -> ExitCode {
    wrong_clock::under_a_clock_that_can_be_set(|| idem_conformance::main(move || Postgres::new(way)))
}

/// How the store reaches its database, and what it meets there.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// Through `PgBouncer` in transaction mode.
    pub(crate) is_pooled: bool,
    /// The `default_transaction_isolation` of the database.
    pub(crate) isolation: &'static str,
    /// As in [`PostgresConfig::group_size`].
    pub(crate) group_size: usize,
}

impl Way {
    /// As an application has it that sets nothing.
    pub(crate) const USUAL: Self = Self { is_pooled: false, isolation: "read committed", group_size: 128 };
}

struct Postgres {
    way: Way,
    database: Database,
    pooler: Option<PgBouncer>,
}

impl Postgres {
    async fn new(way: Way) -> Result<Self, Halt> {
        let database = Database::create().await;
        let isolation =
            format!("ALTER DATABASE {} SET default_transaction_isolation = '{}'", database.name(), way.isolation);
        PgConnection::connect(database.url()).await?.execute(AssertSqlSafe(isolation)).await?;
        PostgresConfig::new(database.url())?.migrate().await?;
        let pooler = match way.is_pooled {
            true => Some(PgBouncer::create(database.url()).await),
            false => None,
        };
        Ok(Self { way, database, pooler })
    }

    fn config(&self, url: &str) -> Result<PostgresConfig, Halt> {
        // Dozens of racers take turns on one row; on a slow machine, the last waits longer than a service would let it.
        let patience = Duration::from_secs(1);
        let config =
            PostgresConfig::new(url)?.max_connections(4).group_size(self.way.group_size).lock_timeout(patience);
        Ok(if self.way.is_pooled { config.behind_transaction_pooler() } else { config })
    }
}

#[async_trait]
impl Harness for Postgres {
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
        let url = self.pooler.as_ref().map_or(self.database.url(), PgBouncer::url);
        Ok(Arc::new(self.config(url)?.connect().await?))
    }

    async fn elapse(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn damage(&self, key: &ScopedKey, damage: Damage) -> Result<(), Halt> {
        let statement = match damage {
            Damage::Corrupt => query(
                "UPDATE idempotency_keys
                 SET digest = CASE WHEN answer IS NULL THEN substring(digest FOR 31) ELSE digest END,
                     answer = set_bit(answer, 8 * (length(answer) / 2), 1 - get_bit(answer, 8 * (length(answer) / 2)))
                 WHERE principal = $1 AND route = $2 AND key = $3",
            ),
            Damage::Version(_) => {
                query("UPDATE idempotency_keys SET format = $4 WHERE principal = $1 AND route = $2 AND key = $3")
            }
        };
        let statement = statement
            .bind(key.principal().name().unwrap_or_default())
            .bind(key.route().as_str())
            .bind(key.key().as_str());
        let statement = match damage {
            Damage::Corrupt => statement,
            Damage::Version(version) => statement.bind(i16::from(version)),
        };
        let mut connection = PgConnection::connect(self.database.url()).await?;
        let done = statement.execute(&mut connection).await?;
        assert_eq!(done.rows_affected(), 1, "the record is there to be damaged");
        Ok(())
    }

    async fn strand(&self, outage: Outage) -> Result<Stranded, Halt> {
        // Bound and never accepted: the system answers, and nobody else ever does.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = silent.local_addr()?.port();
        match outage {
            Outage::Silent => std::mem::forget(silent),
            Outage::Refused => drop(silent),
        }
        let time = Duration::from_millis(300);
        let config = self.config(&format!("postgres://nobody@127.0.0.1:{port}/nothing"))?;
        let store = config.connect_timeout(time).command_timeout(time).connect_lazily();
        Ok(Stranded { store: Arc::new(store), gives_up_within: 2 * time })
    }

    async fn open_with_wrong_clock(&self, wrong: WrongClock) -> Result<Arc<dyn KeyStore>, Halt> {
        wrong_clock::with(wrong, self.database.url(), self.open().await?).await
    }

    async fn alone(&self) -> Result<(), Halt> {
        Ok(())
    }
}
