//! The database does not answer in time while a charge runs.

use core::time::Duration;

use idem_tests::postgres::Server as Postgres;
use idem_tests::{Answer, Server};
use sqlx::Connection;

use crate::support::{Mode, Shop, booked, connect, once_it_is_free, process, remembered};

#[tokio::test]
async fn a_charge_that_waits_too_long_for_the_ledger_is_not_made_and_its_retry_charges_once() {
    tokio::join!(lock_the_ledger(Mode::Transaction), lock_the_ledger(Mode::Claim));
}

async fn lock_the_ledger(mode: Mode) {
    let Shop { database, server, alice } = Shop::open(mode, &[]).await;
    let pay = alice.pay("stuck-at-the-ledger");
    let mut somebody = connect(database.url()).await;
    let mut lock = somebody.begin().await.expect("the test's own transaction");
    sqlx::query("LOCK TABLE payments_ledger IN SHARE MODE").execute(&mut *lock).await.expect("the table is there");
    let (refused, ()) = tokio::join!(pay.send(), async {
        server.until_in_flight(1).await;
        pay.send().await.assert_in_progress();
    });
    refused.assert_problem(503, "bank-closed");
    assert_eq!(refused.header("retry-after"), Some("1"));
    lock.rollback().await.expect("it is let go");

    let first = pay.send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    pay.send().await.assert_replay_of(&first);
    assert_eq!(booked(database.url()).await, [id], "{mode:?}");
}

#[tokio::test]
async fn a_charge_whose_database_falls_silent_before_the_ledger_is_not_made_and_its_retry_charges_once() {
    tokio::join!(halt_the_database(Mode::Transaction), halt_the_database(Mode::Claim));
}

async fn halt_the_database(mode: Mode) {
    let postgres = Postgres::create().await;
    let url = postgres.url("postgres");
    let server = process(mode, &url, &[]).await;
    let pay = server.caller("alice").pay("paid-into-silence").bank("slow=1000");
    let (refused, ()) = tokio::join!(pay.send(), async {
        server.until_in_flight(1).await;
        assert_eq!(booked(&url).await.len(), 0, "{mode:?}: it was halted after the charge");
        postgres.pause();
    });
    refused.assert_problem(503, "bank-closed");
    postgres.resume();
    let first = once_it_is_free(&pay).await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    pay.send().await.assert_replay_of(&first);
    assert_eq!((booked(&url).await, remembered(&url).await), (vec![id], 1), "{mode:?}");
}

#[tokio::test]
async fn a_statement_that_dies_with_its_database_is_undone_in_one_transaction() {
    let (refused, postgres, server) = kill_the_database_under_the_statement(Mode::Transaction).await;
    refused.assert_problem(503, "bank-closed");
    let pay = server.caller("alice").pay("the-last-statement");
    let first = once_it_is_free(&pay).await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    pay.send().await.assert_replay_of(&first);
    assert_eq!(booked(&postgres.url("postgres")).await, [id]);
}

#[tokio::test]
async fn under_a_claim_nobody_knows_of_a_statement_that_dies_with_its_database_and_it_is_not_made_again() {
    let (refused, postgres, server) = kill_the_database_under_the_statement(Mode::Claim).await;
    let problem = refused.assert_problem(502, "bank-gave-no-answer");
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("may or may not")), "{problem}");
    let pay = server.caller("alice").pay("the-last-statement");
    let problem = once_it_is_free(&pay).await.assert_problem(500, "previous-attempt-failed");
    assert_eq!(problem["safe_to_use_new_key"], false, "{problem}");
    assert_eq!(booked(&postgres.url("postgres")).await.len(), 0, "the test's lock let nothing through");
}

/// Pays, kills the database while the ledger's statement is at work there, and starts it again.
async fn kill_the_database_under_the_statement(mode: Mode) -> (Answer, Postgres, Server) {
    let postgres = Postgres::create().await;
    let url = postgres.url("postgres");
    let server = process(mode, &url, &[]).await;
    let mut somebody = connect(&url).await;
    let mut lock = somebody.begin().await.expect("the test's own transaction");
    sqlx::query("LOCK TABLE payments_ledger IN SHARE MODE").execute(&mut *lock).await.expect("the table is there");
    let pay = server.caller("alice").pay("the-last-statement");
    let (answer, ()) = tokio::join!(pay.send(), async {
        let mut watcher = connect(&url).await;
        let waiting =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'payments_ledger'::regclass AND NOT granted)";
        while !sqlx::query_scalar::<_, bool>(waiting).fetch_one(&mut watcher).await.expect("it may look") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        postgres.kill().await;
    });
    postgres.start().await;
    (answer, postgres, server)
}
