//! Servers of the tests: what is found, what is started, and that nothing of it stays.
#![cfg(unix)]

use core::time::Duration;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use idem_tests::eventually;
use idem_tests::postgres::{Database, PgBouncer, Server};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

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
    assert!(server.log().contains("database system was not properly shut down"), "{}", server.log());
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

#[tokio::test]
async fn nothing_stays_of_a_process_that_was_killed_while_it_held_servers() {
    let temporary = Temporary::new();
    let mut process = temporary.takes_servers("hold").stdout(Stdio::piped()).spawn().unwrap();
    let mut urls = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut held = Vec::new();
    for _ in ["a database", "a server", "PgBouncer"] {
        held.push(urls.next_line().await.unwrap().unwrap());
    }
    for url in &held {
        PgConnection::connect(url).await.unwrap();
    }
    assert_eq!(temporary.entries(), 3);

    process.kill().await.unwrap();

    temporary.until_nothing_stays().await;
    for url in &held {
        PgConnection::connect(url).await.unwrap_err();
    }
}

#[tokio::test]
async fn nothing_stays_of_a_process_that_was_killed_while_its_server_started() {
    let temporary = Temporary::new();
    let mut process = temporary.takes_servers("hold").spawn().unwrap();
    eventually("something starts", async || temporary.entries() > 0).await;

    process.kill().await.unwrap();

    temporary.until_nothing_stays().await;
}

#[tokio::test]
async fn a_server_that_outlives_the_run_keeps_no_database_of_it_and_none_of_a_run_long_ago() {
    let server = Server::create().await;
    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
    let of_another_run = format!("idem_test_{}_0123456789abcdef", std::time::UNIX_EPOCH.elapsed().unwrap().as_secs());
    for name in ["idem_test_1700000000_0123456789abcdef", "idem_test_1700000000_mine", &of_another_run] {
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}")))).await.unwrap();
    }

    let output = takes_servers("database").env(URL, server.url("postgres")).output().await.unwrap();

    assert!(output.status.success(), "{output:?}");
    let url = String::from_utf8(output.stdout).unwrap();
    assert!(url.starts_with(&server.url("idem_test_")), "{url}");
    let names = sqlx::query_scalar::<_, String>("SELECT datname::text FROM pg_database WHERE datname LIKE 'idem%'");
    let mut names = names.fetch_all(&mut connection).await.unwrap();
    names.sort();
    assert_eq!(names, ["idem_test_1700000000_mine", &of_another_run]);
}

#[tokio::test]
async fn only_the_kind_of_server_that_is_demanded_is_taken() {
    let server = Server::create().await;

    let mut demanding = takes_servers("database");
    demanding.env("IDEM_TEST_SERVERS", "programs").env(URL, server.url("postgres"));
    let output = demanding.output().await.unwrap();

    let url = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && !url.starts_with(&server.url("")), "{url}");
    let output = takes_servers("database").env("IDEM_TEST_SERVERS", "given").output().await.unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("IDEM_TEST_POSTGRES_URL gives, and it gives none"), "{message}");
}

#[tokio::test]
async fn the_other_programs_of_a_servers_version_are_found_beside_it() {
    let server = Server::create().await;

    let output = Command::new(server.program("pg_controldata")).arg("--version").output().await.unwrap();

    let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
    let version = setting(&mut connection, "server_version").await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("pg_controldata (PostgreSQL) {version}\n"));
}

#[tokio::test]
async fn a_server_that_is_given_and_does_not_answer_fails_the_test_whatever_is_installed() {
    let output = takes_servers("database").env(URL, "postgres://nobody@127.0.0.1:1/none").output().await.unwrap();

    assert!(!output.status.success(), "{output:?}");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("the server that IDEM_TEST_POSTGRES_URL gives is not usable"), "{message}");
}

const URL: &str = "IDEM_TEST_POSTGRES_URL";

/// A process that takes servers.
fn takes_servers(what: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_takes-servers"));
    command.arg(what).env_remove(URL).env_remove("IDEM_TEST_SERVERS").kill_on_drop(true);
    command
}

/// A folder for the temporary things of another process.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        let name = format!("idem-tests-of-{}-{:?}", std::process::id(), std::thread::current().id());
        let folder = std::env::temp_dir().join(name.replace(['(', ')'], ""));
        std::fs::create_dir(&folder).expect("a new folder");
        // As /tmp is: the servers run as somebody else where the tests run as root.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o1777)).expect("it is ours");
        Self(folder)
    }

    fn takes_servers(&self, what: &str) -> Command {
        let mut command = takes_servers(what);
        command.env("TMPDIR", &self.0).env("IDEM_TEST_SERVERS", "programs");
        command
    }

    fn entries(&self) -> usize {
        std::fs::read_dir(&self.0).expect("a folder").count()
    }

    /// Waits until the folder is empty and no process was started with its name in its arguments.
    async fn until_nothing_stays(&self) {
        eventually("the folder is empty", async || self.entries() == 0).await;
        let folder = self.0.to_str().expect("UTF-8");
        eventually("no process is left", async || {
            let processes = Command::new("ps").args(["-A", "-o", "args="]).output().await.expect("ps");
            !String::from_utf8_lossy(&processes.stdout).contains(folder)
        })
        .await;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
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
