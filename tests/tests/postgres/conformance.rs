//! The published suite, over Postgres: each case has a database of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{Damage, Halt, Harness, Outage, Stranded, async_trait};
use idem_core::{KeyStore, ScopedKey};
use idem_postgres::PostgresConfig;
use idem_postgres::sqlx::{Connection, PgConnection, query};
use idem_tests::servers::postgres::Database;

struct Postgres {
    database: Database,
}

impl Postgres {
    async fn new() -> Result<Self, Halt> {
        let database = Database::create().await;
        config(database.url())?.migrate().await?;
        Ok(Self { database })
    }
}

fn config(url: &str) -> Result<PostgresConfig, Halt> {
    Ok(PostgresConfig::new(url)?.max_connections(4))
}

#[async_trait]
impl Harness for Postgres {
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
        Ok(Arc::new(config(self.database.url())?.connect().await?))
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
            Damage::Version(version) => {
                query("UPDATE idempotency_keys SET format = $4 WHERE principal = $1 AND route = $2 AND key = $3")
                    .bind(key.principal().name().unwrap_or_default())
                    .bind(key.route().as_str())
                    .bind(key.key().as_str())
                    .bind(i16::from(version))
            }
        };
        let statement = match damage {
            Damage::Corrupt => statement
                .bind(key.principal().name().unwrap_or_default())
                .bind(key.route().as_str())
                .bind(key.key().as_str()),
            Damage::Version(_) => statement,
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
        let config = config(&format!("postgres://nobody@127.0.0.1:{port}/nothing"))?;
        let store = config.connect_timeout(time).command_timeout(time).connect_lazily();
        Ok(Stranded { store: Arc::new(store), gives_up_within: 2 * time })
    }

    async fn alone(&self) -> Result<(), Halt> {
        Ok(())
    }
}

fn main() -> ExitCode {
    idem_conformance::main(Postgres::new)
}
