//! Servers of the tests: what is found, what is started, and that nothing of it stays.
#![cfg(unix)]

use idem_tests::postgres::{Database, Server};
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
