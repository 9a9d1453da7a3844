//! Postgres for tests: a database of one's own, a server of one's own, and `PgBouncer`.
//!
//! ```no_run
//! # async fn example() {
//! use idem_tests::postgres::Database;
//!
//! // Of this test alone. Every test of the process shares the server.
//! let database = Database::create().await;
//! let url: &str = database.url();
//! # }
//! ```
//!
//! A test that stops or kills its server takes a [`Server`] of its own:
//!
//! ```no_run
//! # async fn example() {
//! use idem_tests::postgres::Server;
//!
//! let server = Server::create_with(&[("fsync", "on")]).await;
//! let url = server.url("postgres");
//! server.kill().await;
//! server.start().await; // the same data, the same port
//! # }
//! ```
//!
//! # Which server
//!
//! [`Database::create`] takes the first of these that there is:
//!
//! 1. the server at `IDEM_TEST_POSTGRES_URL`, as a user who may create databases. If that does not work, the test fails;
//! 2. a private server started from installed programs: `initdb` and `postgres` in `PATH` or under
//!    `/usr/lib/postgresql/*/bin`, the newest version first. Run by root, it runs as `postgres` or `nobody`;
//! 3. a server in a container, through `testcontainers`: of the image `IDEM_TEST_POSTGRES_IMAGE`, or else
//!    `postgres:17-alpine`;
//!
//! otherwise the test fails and says what to install. `IDEM_TEST_SERVERS` demands one of them: `given`, `programs` or
//! `containers`.
//!
//! Private servers have no `fsync` (`kill -9` loses nothing; the machine's own crash would), room for 300 connections,
//! `UTF8` and the locale `C`. Those started from programs trust everybody on this machine.

#[cfg(feature = "containers")]
mod container;
mod database;
mod pgbouncer;
mod server;
mod source;

pub use database::Database;
pub use pgbouncer::PgBouncer;
pub use server::Server;
