//! Takes servers as a test does, for tests that want to see what stays of them.
//!
//! `hold`: takes one of each kind, tells their URLs, and holds them until it is killed. `database`: takes a database,
//! tells its URL, and ends.
#![expect(clippy::panic, clippy::print_stdout, reason = "a helper of tests fails the test")]

#[cfg(unix)]
#[tokio::main]
async fn main() {
    use idem_tests::postgres::{Database, PgBouncer, Server};

    let database = Database::create().await;
    match std::env::args().nth(1).as_deref() {
        Some("database") => println!("{}", database.url()),
        Some("hold") => {
            let server = Server::create().await;
            let bouncer = PgBouncer::create(&server.url("postgres")).await;
            println!("{}\n{}\n{}", database.url(), server.url("postgres"), bouncer.url());
            core::future::pending::<()>().await;
        }
        other => panic!("{other:?} is neither `hold` nor `database`"),
    }
}

#[cfg(not(unix))]
fn main() {}
