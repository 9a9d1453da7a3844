//! How the program comes up, or says why it does not.

use core::time::Duration;
use std::process::Output;

use idem_tests::payments;
use idem_tests::postgres::{Database, Server as Postgres};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::support::{Mode, Shop, booked, connect, once_it_is_free, process};

/// Runs a program that is not to serve.
async fn run(options: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_payments-under-test"));
    let output = program.args(["--listen", "127.0.0.1:0"]).args(options).kill_on_drop(true).output();
    let output = tokio::time::timeout(Duration::from_secs(30), output).await;
    output.expect("it says at once that it cannot serve").expect("it starts")
}

/// Holds it to have ended with this code and these words, and without a word of the password.
fn assert_ended(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("hunter2") && !said.contains("panicked"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "it said that it listens");
}

#[tokio::test]
async fn a_database_that_is_down_is_an_error_that_says_so_and_repeats_no_password() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    for mode in Mode::BOTH {
        let url = mode.url(&format!("postgres://shop:hunter2@{nobody}/money"));
        let place = format!("cannot use the store postgres://{nobody}/money?mode=");
        assert_ended(&run(&["--store", &url]).await, 1, &[&place, "Connection refused"]);
    }
}

#[tokio::test]
async fn a_database_that_never_answers_is_an_error_within_the_time_to_connect() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://shop:hunter2@{}/money", silent.local_addr().expect("an address"));
    assert_ended(&run(&["--store", &url]).await, 1, &["no connection to Postgres within 2s"]);
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_an_error_that_names_it() {
    let database = Database::create().await;
    let url = database.url().replace(database.name(), "no_such_database");
    assert_ended(&run(&["--store", &url]).await, 1, &["cannot use the store", "\"no_such_database\" does not exist"]);
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_an_error_that_says_so() {
    let database = Database::create().await;
    let read_only = format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name());
    let mut connection = connect(database.url()).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(read_only)).execute(&mut connection).await.expect("the test may");
    assert_ended(&run(&["--store", database.url()]).await, 1, &["cannot use the store", "read-only transaction"]);
}

#[tokio::test]
async fn urls_and_bounds_that_do_not_fit_are_refused_with_the_reason() {
    for (options, reason) in [
        (&["--store", "postgres://me:hunter2@db/pay?mode=lease"][..], "`transaction` or `claim`"),
        (&["--store", "postgres://me:hunter2@db/pay?mode="], "`transaction` or `claim`"),
        (&["--store", "postgres://me:hunter2@db/pay?mode=claim&mode=transaction"], "stands there once"),
        (&["--store", "postgres://me:hunter2@db/pay?sslmod=require"], "a parameter that nobody knows"),
        (&["--store", "postgres://me:hunter2@db/pay?sslmode=perhaps"], "cannot be read"),
        (&["--store", "postgres://me:1#hunter2@db/pay"], "%23"),
        (&["--store", "postgres:hunter2"], "postgres://user@host/database"),
        (&["--store", "postgresx://me:hunter2@db/pay"], "no store with the scheme `postgresx`"),
        (&["--db-connections", "1"], "--db-connections"),
        (&["--db-connections", "many"], "--db-connections"),
    ] {
        assert_ended(&run(options).await, 2, &[reason]);
    }
}

#[tokio::test]
async fn the_help_says_what_a_postgres_store_is_and_may_be_told() {
    let output = run(&["--help"]).await;
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).expect("text");
    for word in ["postgres://user@host/db", "?mode=claim", "PGPASSWORD", "--db-connections"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[tokio::test]
async fn the_parameters_of_the_url_but_the_mode_go_on_to_the_connection() {
    let database = Database::create().await;
    let mut connection = connect(database.url()).await;
    sqlx::raw_sql("CREATE SCHEMA till").execute(&mut connection).await.expect("the test may");
    let separator = if database.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}mode=transaction&options[search_path]=till&application_name=till", database.url());
    let server = payments!("--store", &url).await;
    let alice = server.caller("alice");
    let first = alice.pay("in-a-schema-of-its-own").send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    alice.pay("in-a-schema-of-its-own").send().await.assert_replay_of(&first);

    let ids: Vec<String> = sqlx::query_scalar("SELECT id FROM till.payments_ledger JOIN till.idempotency_keys ON true")
        .fetch_all(&mut connection)
        .await
        .expect("both tables are in the schema");
    assert_eq!(ids, [id]);
    let connected: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'till'")
        .fetch_one(&mut connection)
        .await
        .expect("it may look");
    assert!(connected >= 2, "{connected}: the ledger's connections and the keys'");
}

#[tokio::test]
async fn a_process_that_starts_again_finds_ledger_and_answers_as_they_were() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let first = alice.pay("from-before-the-restart").send().await;
        let id = first.assert_charged("/payments", "100.00", "RUB");
        server.kill().await;
        let server = process(mode, database.url(), &[]).await;
        server.caller("alice").pay("from-before-the-restart").send().await.assert_replay_of(&first);
        assert_eq!(server.charged_ids().await, [id], "{mode:?}");
    }
}

#[tokio::test]
async fn neither_serving_nor_losing_the_database_tells_the_log_a_password_a_key_or_a_caller() {
    for mode in Mode::BOTH {
        let postgres = Postgres::create().await;
        let url = postgres.url("postgres").replace("postgres@", "postgres:hunter2@");
        let server = process(mode, &url, &[]).await;
        let alice = server.caller("alice-is-a-secret");
        let first = alice.pay("this-key-is-a-secret").send().await;
        first.assert_charged("/payments", "100.00", "RUB");

        postgres.stop().await;
        for path in ["/ledger", &format!("/payments/{}", first.id())] {
            let closed = alice.get(path).send().await;
            closed.assert_problem(503, "ledger-closed");
            assert_eq!(closed.header("retry-after"), Some("1"));
        }
        for key in ["this-key-is-a-secret", "another-secret-key"] {
            let refused = alice.pay(key).send().await;
            refused.assert_problem(503, "store-unavailable");
            assert!(refused.header("retry-after").is_some(), "{refused:?}");
        }
        server.assert_healthy().await;

        postgres.start().await;
        once_it_is_free(&alice.pay("this-key-is-a-secret")).await.assert_replay_of(&first);
        let answer = once_it_is_free(&alice.pay("another-secret-key")).await;
        answer.assert_charged("/payments", "100.00", "RUB");
        assert_eq!(booked(&url).await, [first.id(), answer.id()], "{mode:?}");
        let log = server.log();
        assert!(log.contains("postgres://127.0.0.1:"), "{log}");
        for secret in ["hunter2", "secret", "panicked"] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
    }
}
