//! The ledger as a table in Postgres.

use core::error::Error;
use core::future::Future;
use core::time::Duration;

use idem_postgres::sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPoolOptions, PgRow, PgSeverity};
use idem_postgres::sqlx::{self, PgConnection, PgPool, Row, query};
use tokio::time::timeout;

use super::{Entry, Kind, NotEntered};
use crate::payments::{Amount, Currency};

/// The table `payments_ledger`. Clones share its pool.
#[derive(Clone)]
pub(crate) struct Table(PgPool);

/// Why the database could not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
}

/// For a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// For one statement, as the server is told: it gives up, too.
const STATEMENT_TIMEOUT: &str = "4s";

/// For the answer to one, should the server have stopped to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connections that the ledger is written on.
pub(crate) fn pool(options: &PgConnectOptions, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options.clone().options([("statement_timeout", STATEMENT_TIMEOUT)]))
}

impl Table {
    /// Makes the table where there is none. Several processes may do it at once: one does, and the others find it.
    pub(crate) async fn create(pool: PgPool) -> Result<Self, Failure> {
        let creation = async {
            let mut tx = pool.begin().await?;
            // IF NOT EXISTS looks before it creates, and two that look at once both create.
            query("SELECT pg_advisory_xact_lock(hashtext('payments_ledger'))").execute(&mut *tx).await?;
            // That it exists is nothing to be told.
            query("SET LOCAL client_min_messages = warning").execute(&mut *tx).await?;
            query(include_str!("../../queries/create_ledger.sql")).execute(&mut *tx).await?;
            tx.commit().await
        };
        bounded(creation).await?;
        Ok(Self(pool))
    }

    /// Enters one charge, for good.
    pub(super) async fn enter(&self, entry: &Entry) -> Result<(), NotEntered> {
        let mut connection = bounded(self.0.acquire()).await.map_err(NotEntered::Certainly)?;
        let entered = enter(&mut connection, entry).await;
        entered.map_err(|failure| {
            // Nobody knows what it would say next.
            connection.close_on_drop();
            if failure.is_of_the_statement() { NotEntered::Certainly(failure) } else { NotEntered::Perhaps(failure) }
        })
    }

    pub(super) async fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let rows = bounded(query(include_str!("../../queries/entries.sql")).fetch_all(&self.0)).await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    pub(super) async fn entry(&self, id: &str, principal: &str) -> Result<Option<Entry>, Failure> {
        let statement = query(include_str!("../../queries/entry.sql")).bind(id).bind(principal);
        let row = bounded(statement.fetch_optional(&self.0)).await?;
        Ok(row.as_ref().map(read).transpose()?)
    }
}

impl Failure {
    /// Whether the server has undone the statement and says why. Whatever ends the connection may come after a commit.
    fn is_of_the_statement(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        error.try_downcast_ref::<PgDatabaseError>().is_some_and(|error| error.severity() == PgSeverity::Error)
    }
}

/// Enters one charge into whatever transaction the connection is in.
pub(super) async fn enter(connection: &mut PgConnection, entry: &Entry) -> Result<(), Failure> {
    let epoch = entry.epoch.map(i64::try_from).transpose().map_err(|error| sqlx::Error::Encode(error.into()))?;
    let statement = query(include_str!("../../queries/enter.sql"))
        .bind(&entry.id)
        .bind(entry.kind.name())
        .bind(&entry.principal)
        .bind(entry.amount.map(String::from))
        .bind(entry.currency.map(String::from))
        .bind(epoch)
        .bind(&entry.bank_key);
    bounded(statement.execute(connection)).await.map(drop)
}

/// A statement to a server that has stopped to answer ends, too.
async fn bounded<T>(statement: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Failure> {
    match timeout(PATIENCE, statement).await {
        Ok(answered) => Ok(answered?),
        Err(_) => Err(Failure::Late(PATIENCE)),
    }
}

fn read(row: &PgRow) -> Result<Entry, sqlx::Error> {
    let amount: Option<String> = row.try_get("amount")?;
    let currency: Option<String> = row.try_get("currency")?;
    let epoch: Option<i64> = row.try_get("epoch")?;
    Ok(Entry {
        id: row.try_get("id")?,
        kind: Kind::named(row.try_get("kind")?).ok_or_else(|| decode("the ledger has an entry of another kind"))?,
        principal: row.try_get("principal")?,
        amount: amount.map(Amount::try_from).transpose().map_err(decode)?,
        currency: currency.map(Currency::try_from).transpose().map_err(decode)?,
        epoch: epoch.map(u64::try_from).transpose().map_err(decode)?,
        bank_key: row.try_get("bank_key")?,
    })
}

fn decode(error: impl Into<Box<dyn Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

impl Kind {
    const ALL: [Self; 3] = [Self::Payment, Self::Refund, Self::Like];

    const fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Refund => "refund",
            Self::Like => "like",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
