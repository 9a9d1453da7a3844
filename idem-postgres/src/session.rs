//! Connections, and one statement on one of them, within bounds.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use idem_core::{StoreError, StoreErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, Executor, PgConnection, PgPool, Postgres, SqlStr};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::PostgresConfig;
use crate::error::{Stage, TimedOut, spares_the_connection, store_error};

/// A statement with its arguments.
pub(crate) type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// The pool, and the connections that were taken from it and are kept at hand.
///
/// sqlx's pool asks a connection whether it is alive whenever it takes it back, which is a second round trip for each
/// statement. So a connection that was used goes to the pool only once in a while.
pub(crate) struct Sessions {
    pool: PgPool,
    /// As many as the pool has connections: whoever has a permit finds one at hand or room for another.
    permits: Semaphore,
    at_hand: Mutex<Vec<Held>>,
    begin: Option<SqlStr>,
    connect_timeout: Duration,
    command_timeout: Duration,
}

struct Held {
    connection: PoolConnection<Postgres>,
    since: Instant,
    used: Instant,
}

/// After this long without use, a connection is asked whether it is alive before the next statement.
const IDLE: Duration = Duration::from_secs(1);

/// After this long at hand, a connection goes to the pool, which looks at its age.
const AT_HAND: Duration = Duration::from_secs(30);

impl Sessions {
    pub(crate) fn new(config: &PostgresConfig) -> Self {
        Self {
            pool: config.pool(),
            permits: Semaphore::new(config.max_connections as usize),
            at_hand: Mutex::default(),
            begin: config.begin(),
            connect_timeout: config.connect_timeout,
            command_timeout: config.command_timeout,
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Sends one statement, in a transaction of its own, and reads all rows of its answer.
    ///
    /// Cancellation: the connection is closed; the statement may or may not have taken effect.
    pub(crate) async fn fetch(&self, statement: Statement<'_>) -> Result<Vec<PgRow>, StoreError> {
        let (_permit, mut used) = self.connection().await?;
        let fetched = timeout(self.command_timeout, self.fetch_on(used.connection(), statement)).await;
        match fetched {
            Ok(Ok(rows)) => {
                self.put_back(used);
                Ok(rows)
            }
            Ok(Err(Failed { error, is_usable })) => {
                if is_usable {
                    self.put_back(used);
                }
                Err(store_error(error, Stage::Sent))
            }
            Err(_) => Err(StoreError::unknown(StoreErrorKind::Unavailable, TimedOut::Answer(self.command_timeout))),
        }
    }

    async fn fetch_on(&self, connection: &mut PgConnection, statement: Statement<'_>) -> Result<Vec<PgRow>, Failed> {
        let Some(begin) = &self.begin else {
            let fetched = connection.fetch_all(statement).await;
            return fetched.map_err(|error| Failed { is_usable: spares_the_connection(&error), error });
        };
        // A transaction that did not begin as it should may have begun all the same.
        let closes = |error| Failed { error, is_usable: false };
        let mut transaction = connection.begin_with(begin.clone()).await.map_err(closes)?;
        match transaction.fetch_all(statement.persistent(false)).await {
            Ok(rows) => {
                transaction.commit().await.map_err(closes)?;
                Ok(rows)
            }
            Err(error) => {
                let is_usable = transaction.rollback().await.is_ok() && spares_the_connection(&error);
                Err(Failed { error, is_usable })
            }
        }
    }

    /// A connection, from those at hand or from the pool, that was alive a second ago.
    async fn connection(&self) -> Result<(SemaphorePermit<'_>, InUse), StoreError> {
        let late = || StoreError::not_written(StoreErrorKind::Unavailable, TimedOut::Connecting(self.connect_timeout));
        let connecting = async {
            let permit = self.permits.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
            while let Some(held) = self.take_from_hand() {
                let is_fresh = held.used.elapsed() < IDLE;
                let mut used = InUse(Some(held));
                // One that nobody answers on must not take the time of all the others.
                let is_alive =
                    is_fresh || matches!(timeout(self.connect_timeout / 4, used.connection().ping()).await, Ok(Ok(())));
                if is_alive {
                    return Ok((permit, used));
                }
            }
            let (connection, now) = (self.pool.acquire().await?, Instant::now());
            Ok((permit, InUse(Some(Held { connection, since: now, used: now }))))
        };
        match timeout(self.connect_timeout, connecting).await {
            Ok(Ok(connected)) => Ok(connected),
            Ok(Err(sqlx::Error::PoolTimedOut)) | Err(_) => Err(late()),
            Ok(Err(error)) => Err(store_error(error, Stage::Connecting)),
        }
    }

    fn put_back(&self, used: InUse) {
        if let Some(held) = used.done()
            && held.since.elapsed() < AT_HAND
        {
            let mut at_hand = self.at_hand();
            // Under the lock: what came after the pool was closed would keep it from its end.
            if !self.pool.is_closed() {
                at_hand.push(Held { used: Instant::now(), ..held });
            }
        }
    }

    /// Ends all connections; those in use once they are put back.
    pub(crate) async fn close(&self) {
        let closing = self.pool.close();
        drop(core::mem::take(&mut *self.at_hand()));
        closing.await;
    }

    fn take_from_hand(&self) -> Option<Held> {
        self.at_hand().pop()
    }

    /// A list stays usable whatever panicked while it was locked.
    fn at_hand(&self) -> MutexGuard<'_, Vec<Held>> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement that failed, and whether its connection may be used for the next.
struct Failed {
    error: sqlx::Error,
    is_usable: bool,
}

/// A connection whose answer is still to come. Dropped before that, it is closed: nobody knows what it would say next.
struct InUse(Option<Held>);

impl InUse {
    fn connection(&mut self) -> &mut PgConnection {
        &mut self.0.as_mut().expect("a connection is in use until it is done").connection
    }

    fn done(mut self) -> Option<Held> {
        self.0.take()
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(held) = &mut self.0 {
            held.connection.close_on_drop();
        }
    }
}
