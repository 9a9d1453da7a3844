//! A database with the table, and what is asked of a store.

use core::future::poll_fn;
use core::task::Poll;
use std::time::Duration;

use futures_util::future::maybe_done;
use idem_core::{
    Answer, Change, Content, Epoch, Fingerprint, Found, Guard, IdempotencyKey, Inserted, NewRecord, OsTokens,
    Principal, ProfileId, Record, Replaced, Response, Route, ScopedKey, Settlement, State, StoreError, TokenSource,
};
use idem_postgres::PostgresConfig;
use idem_tests::postgres::Database;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool, raw_sql};

pub(crate) struct Scene {
    pub(crate) database: Database,
    /// Past the store, as its superuser.
    pub(crate) stranger: PgPool,
}

impl Scene {
    /// A database with the table in it.
    pub(crate) async fn new() -> Self {
        let scene = Self::without_table().await;
        scene.config().migrate().await.unwrap();
        scene
    }

    pub(crate) async fn without_table() -> Self {
        let database = Database::create().await;
        let stranger = PgPoolOptions::new().max_connections(3).connect(database.url()).await.unwrap();
        Self { database, stranger }
    }

    pub(crate) fn config(&self) -> PostgresConfig {
        PostgresConfig::new(self.database.url()).unwrap()
    }

    /// Settings under which whoever waits for a row waits until it is free.
    pub(crate) fn patient(&self) -> PostgresConfig {
        let long = Duration::from_secs(120);
        self.config().lock_timeout(long).command_timeout(long)
    }

    /// Has the server do all of it.
    pub(crate) async fn sql(&self, text: impl Into<String>) {
        run(&self.stranger, text).await;
    }

    /// The one number that the query gives.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(&self.stranger).await.unwrap()
    }
}

/// Waits until somebody in this database waits for a lock.
pub(crate) async fn until_somebody_waits(stranger: &PgPool) {
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    idem_tests::eventually("somebody waits for a lock", async || {
        sqlx::query_scalar::<_, i64>(waits).fetch_one(stranger).await.unwrap() > 0
    })
    .await;
}

pub(crate) async fn run(executor: impl sqlx::PgExecutor<'_>, text: impl Into<String>) {
    let text = text.into();
    let done = raw_sql(AssertSqlSafe(text.clone())).execute(executor).await;
    done.unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// What all of these give, of which each is polled before any is polled again: all are asked for in the same moment.
pub(crate) async fn at_once<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|context| {
        let pending = futures.iter_mut().filter_map(|future| future.as_mut().poll(context).is_pending().then_some(()));
        if pending.count() == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.iter_mut().map(|future| future.as_mut().take_output().unwrap()).collect()
}

pub(crate) const LEASE: Duration = Duration::from_secs(10 * 60);
pub(crate) const UNSETTLED: Duration = Duration::from_secs(7 * 24 * 3600);
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The key of this name: shared by all callers, on the route `/pay`.
pub(crate) fn key(name: &str) -> ScopedKey {
    ScopedKey::new(Principal::shared(), Route::new("/pay").unwrap(), IdempotencyKey::parse(name).unwrap())
}

/// Keys whose order is that of their numbers.
pub(crate) fn keys(count: usize) -> Vec<ScopedKey> {
    (0..count).map(|number| key(&format!("key-{number:06}"))).collect()
}

/// A first claim with a token of its own.
pub(crate) fn claim() -> NewRecord {
    let fingerprint = Fingerprint::from_parts(ProfileId::from_bits(7), [7; 32]);
    NewRecord::claim(fingerprint, OsTokens.draw().unwrap(), Epoch::FIRST, LEASE, UNSETTLED)
}

pub(crate) fn owner(claim: &NewRecord) -> Guard {
    Guard::Owner(claim.record().token)
}

/// What the attempt of this claim writes when it is done.
pub(crate) fn completed(claim: &NewRecord, body: impl Into<bytes::Bytes>) -> NewRecord {
    let record = claim.record();
    let answer: Answer = Response { status: 201, body: body.into(), ..Response::default() }.into();
    let settlement = Settlement::Completed(answer);
    NewRecord::settled(record.fingerprint, record.token, record.epoch, settlement, RETENTION)
}

pub(crate) fn completion(claim: &NewRecord) -> Change {
    Change::Record(completed(claim, "paid"))
}

pub(crate) fn renewal() -> Change {
    Change::Renew { lease: LEASE, retention: UNSETTLED }
}

/// What a caller may make of an answer: whether it wrote, or whose record it met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Met {
    Done,
    /// This record.
    There(Record),
    Vacant,
}

pub(crate) fn inserted(answer: Result<Inserted, StoreError>) -> Met {
    match answer.unwrap() {
        Inserted::Done(_) => Met::Done,
        Inserted::Occupied(found) => Met::There(record(found)),
    }
}

pub(crate) fn replaced(answer: Result<Replaced, StoreError>) -> Met {
    match answer.unwrap() {
        Replaced::Done(_) => Met::Done,
        Replaced::Lost(Some(found)) => Met::There(record(found)),
        Replaced::Lost(None) => Met::Vacant,
    }
}

pub(crate) fn found(answer: Result<Option<Found>, StoreError>) -> Met {
    answer.unwrap().map_or(Met::Vacant, |found| Met::There(record(found)))
}

pub(crate) fn there(record: &NewRecord) -> Met {
    Met::There(record.record().clone())
}

pub(crate) fn record(found: Found) -> Record {
    match found.content {
        Content::Readable(record) => record,
        Content::Unreadable(why) => panic!("{why:?}"),
    }
}

pub(crate) fn is_in_progress(record: &Record) -> bool {
    record.state == State::InProgress
}
