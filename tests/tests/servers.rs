//! Servers of the tests: what is found, what is started, and that nothing of it stays.
#![cfg(unix)]

use core::time::Duration;

use idem_tests::postgres::{Database, PgBouncer, Server};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

#[tokio::test]
async fn two_databases_are_separate() {
    let (one, other) = tokio::join!(Database::create(), Database::create());
    let mut in_one = PgConnection::connect(one.url()).await.unwrap();
    let mut in_other = PgConnection::connect(other.url()).await.unwrap();
    in_one.execute("CREATE TABLE t (x int)").await.unwrap();

    let error = in_other.execute("SELECT * FROM t").await.unwrap_err();

    assert_eq!(error.as_database_error().and_then(|error| error.code()).as_deref(), Some("42P01"));
    assert_eq!(in_one.execute("INSERT INTO t VALUES (1)").await.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn a_killed_server_comes_back_with_what_was_committed_and_nothing_else() {
    let server = Server::create().await;
    let url = server.url("postgres");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute("CREATE TABLE t (x int)").await.unwrap();
    connection.execute("INSERT INTO t VALUES (1)").await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    connection.execute("INSERT INTO t VALUES (2)").await.unwrap();

    server.kill().await;

    connection.execute("COMMIT").await.unwrap_err();
    PgConnection::connect(&url).await.unwrap_err();
    server.start().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i32>("SELECT x FROM t").fetch_all(&mut connection).await.unwrap(), [1]);
}

#[tokio::test]
async fn a_paused_server_answers_nobody_until_it_goes_on() {
    let server = Server::create().await;
    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();

    server.pause();

    let mut answer = core::pin::pin!(connection.execute("SELECT 1"));
    tokio::time::timeout(Duration::from_millis(200), &mut answer).await.unwrap_err();
    server.resume();
    assert_eq!(answer.await.unwrap().rows_affected(), 1);
}

#[tokio::test]
async fn options_of_a_test_win_over_the_usual_ones() {
    let server = Server::create_with(&[("fsync", "on"), ("application_name", "it's a test")]).await;
    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();

    assert_eq!(setting(&mut connection, "fsync").await, "on");
    assert_eq!(setting(&mut connection, "application_name").await, "it's a test");
    assert_eq!(setting(&mut connection, "max_connections").await, "300");
    assert_eq!(setting(&mut connection, "synchronous_commit").await, "on");
}

#[tokio::test]
async fn a_restarted_server_keeps_its_port_and_its_data() {
    let server = Server::create().await;
    let url = server.url("postgres");
    PgConnection::connect(&url).await.unwrap().execute("CREATE TABLE t AS SELECT 1 AS x").await.unwrap();

    server.restart().await;

    assert_eq!(server.url("postgres"), url);
    let mut connection = PgConnection::connect(&url).await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i32>("SELECT x FROM t").fetch_all(&mut connection).await.unwrap(), [1]);
}

/// Two clients that keep connections take turns on the only one to the server.
#[tokio::test]
async fn pgbouncer_passes_queries_and_gives_a_connection_to_another_after_each_transaction() {
    let database = Database::create().await;
    let bouncer = PgBouncer::create_with(database.url(), &[("default_pool_size", "1")]).await;
    let mut one = PgConnection::connect(bouncer.url()).await.unwrap();
    let mut other = PgConnection::connect(bouncer.url()).await.unwrap();

    let in_one = session(&mut one).await;
    assert_eq!(session(&mut other).await, in_one);
    assert_eq!(in_one.1, database.name());

    let mut transaction = one.begin().await.unwrap();
    transaction.execute("CREATE TABLE t (x int)").await.unwrap();
    let mut waiting = core::pin::pin!(session(&mut other));
    tokio::time::timeout(Duration::from_millis(200), &mut waiting).await.unwrap_err();
    transaction.commit().await.unwrap();
    assert_eq!(waiting.await, in_one);
}

/// The process of the server that answers, and the database. Nothing is prepared under a name: the next statement may
/// meet another process.
async fn session(connection: &mut PgConnection) -> (i32, String) {
    let query = sqlx::query_as("SELECT pg_backend_pid(), current_database()::text").persistent(false);
    query.fetch_one(connection).await.expect("an answer")
}

async fn setting(connection: &mut PgConnection, name: &str) -> String {
    sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await.expect("an answer")
}
