use core::time::Duration;

use idem_tests::postgres::Database;
use idem_tests::{Answer, Call, Caller, Server};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, query_scalar};

/// What holds the key of a charge while its handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Transaction,
    Claim,
}

impl Mode {
    pub(crate) const BOTH: [Self; 2] = [Self::Transaction, Self::Claim];

    /// The URL of a store. The transaction is what a URL means that does not say it.
    pub(crate) fn url(self, database: &str) -> String {
        let separator = if database.contains('?') { '&' } else { '?' };
        match self {
            Self::Transaction => database.to_owned(),
            Self::Claim => format!("{database}{separator}mode=claim"),
        }
    }
}

/// A process on this database.
pub(crate) async fn process(mode: Mode, database: &str, options: &[&str]) -> Server {
    let url = mode.url(database);
    let options: Vec<&str> = ["--store", &url].into_iter().chain(options.iter().copied()).collect();
    Server::start(env!("CARGO_BIN_EXE_payments-under-test"), &options).await
}

/// A database of this test, a process on it, and somebody who pays.
pub(crate) struct Shop {
    pub(crate) database: Database,
    pub(crate) server: Server,
    pub(crate) alice: Caller,
}

impl Shop {
    pub(crate) async fn open(mode: Mode, options: &[&str]) -> Self {
        let database = Database::create().await;
        let server = process(mode, database.url(), options).await;
        let alice = server.caller("alice");
        Self { database, server, alice }
    }
}

pub(crate) async fn connect(database: &str) -> PgConnection {
    PgConnection::connect(database).await.expect("the test's own connection")
}

/// The ids in the ledger, as the database has them.
pub(crate) async fn booked(database: &str) -> Vec<String> {
    let mut connection = connect(database).await;
    let ids = query_scalar("SELECT id FROM payments_ledger ORDER BY number").fetch_all(&mut connection).await;
    ids.expect("the ledger is there")
}

/// How many keys the database remembers.
pub(crate) async fn remembered(database: &str) -> i64 {
    let mut connection = connect(database).await;
    let keys = query_scalar("SELECT count(*) FROM idempotency_keys").fetch_one(&mut connection).await;
    keys.expect("the records are there")
}

/// Ends the lease of every claim now, without the wait.
pub(crate) async fn end_leases(database: &str) {
    let mut connection = connect(database).await;
    let ended =
        sqlx::query("UPDATE idempotency_keys SET lease_until = clock_timestamp()").execute(&mut connection).await;
    ended.expect("the records are there");
}

/// Which problem an answer is; none where it is the answer of a charge.
pub(crate) fn slug(answer: &Answer) -> Option<String> {
    let kind = answer.json()["type"].as_str()?.to_owned();
    kind.rsplit_once('#').map(|(_, slug)| slug.to_owned())
}

/// Holds it to be one of the refusals that say that nothing has run, and when to come back.
pub(crate) fn assert_refused_for_now(answer: &Answer) {
    let slug = slug(answer).unwrap_or_default();
    assert!(["overloaded", "store-unavailable", "bank-closed"].contains(&&*slug), "{answer:?}");
    answer.assert_problem(503, &slug);
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
}

/// The answer of the first retry that finds neither the database away nor the key in progress: what became of the
/// attempt is written a moment later.
pub(crate) async fn once_it_is_free(pay: &Call) -> Answer {
    loop {
        let answer = pay.send().await;
        let pause = match answer.status {
            503 => {
                assert_refused_for_now(&answer);
                Duration::from_millis(50)
            }
            409 if slug(&answer).as_deref() == Some("in-progress") => answer.assert_in_progress(),
            _ => return answer,
        };
        tokio::time::sleep(pause).await;
    }
}
