//! Idempotency keys in Postgres: the store for money.
//!
//! Two forms, one table:
//!
//! - **Leases** ([`PostgresStore`], a [`KeyStore`](idem_core::KeyStore)). A key is claimed before the handler runs and
//!   completed after it, each in a round trip that is shared with others. For handlers whose effect is elsewhere: a
//!   bank, a mail server.
//! - **One transaction** ([`InTransaction`], a [`TransactionalStore`](idem_core::TransactionalStore)). What the handler
//!   writes into this database and the record of its key commit together or not at all. The reason to choose Postgres.
//!
//! ```no_run
//! use idem_core::Idempotency;
//! use idem_postgres::{PostgresConfig, PostgresStore};
//!
//! # async fn start(url: &str) -> Result<(), Box<dyn std::error::Error>> {
//! PostgresConfig::new(url)?.migrate().await?;
//! let idem = Idempotency::new(PostgresStore::connect(url).await?, tokio::time::sleep);
//! # drop(idem);
//! # Ok(())
//! # }
//! ```
//!
//! It needs Postgres 14 or newer, a database in `UTF8`, and tokio. TLS is a feature of sqlx, to be switched on in the
//! application's own `Cargo.toml`; [`sqlx`] is exported in the version that the types here are of.
//!
//! # What it promises
//!
//! The ten promises of [`KeyStore`](idem_core::KeyStore), under any number of processes, and through a crash of the
//! server: what was acknowledged is on disk (a server with `synchronous_commit = off` is refused at start). Only the
//! server's clock counts. A replica that is promoted without the last writes has lost them, as it has lost the payments
//! beside them: `synchronous_standby_names` decides that, not this crate.
//!
//! Columns are guarded by Postgres' own data checksums, the answer by one of its own besides.
//!
//! # The table
//!
//! `idempotency_keys`, one row per key, found by the `search_path`; made by [`PostgresConfig::migrate`]. An operator
//! reads it with SQL: principal, route, key, state, epoch and times are columns, and their comments are in the
//! database. Keys and principals stand there in plain text, as the payments do; they are never logged.
//!
//! No index mentions a column that a completion changes, so that completions are HOT updates: they touch the row's own
//! page and nothing else. Rows are swept by `sweep_at`, which only the claim writes: the moment when the record will
//! have expired if it is settled in time. A row that has not ended by then is looked at again when it has.
//!
//! Pages are filled to 30 % by claims, which leaves room for the completions. With answers of 256 bytes, every
//! completion found room, in groups of any size and at any age; at 70 %, 22 to 68 % of them did, for 27 % more WAL and
//! about the same bytes in all. An answer in a table of its own costs 16 % more WAL at 256 bytes and gains nothing at
//! 4 KiB, where Postgres moves it out of the row by itself. `benches/postgres-layout` has the figures for these and
//! other layouts, and the command that makes them.
//!
//! # Grouped writes
//!
//! A commit waits for the disk, and one round trip carries a hundred rows as well as one. While a statement is under
//! way, further claims wait, and travel together in the next; so do completions and renewals. A write that finds
//! nobody goes at once: there is no delay that waits for company.
//!
//! What keeps strangers in one statement from harming each other:
//!
//! | | |
//! |---|---|
//! | two writes of one key | never in one group; the second goes with the next |
//! | two groups that hold rows the other wants | rows are written in the order of their keys, so that none waits for the other |
//! | a row that somebody's open transaction has changed | a claim reads it, which waits for nobody; a completion leaves it out (`SKIP LOCKED`) and is tried again alone |
//! | a key that an open transaction has inserted | the group gives up after 50 ms, and each claim goes alone: that key's is *in progress*, the others are written |
//! | a row that fails | the group is rolled back, and each write goes alone |
//! | a first plan made on an empty table | sequential scans are off for the store's connections, and each look is a sub-select that no planner joins |
//!
//! On two cores that server and load generator shared, 256 requests in flight made 23,800 claims and completions a second,
//! where `pgbench` with 32 clients and the same two statements made 5,300; one in flight made 1,200, where `pgbench` made
//! 1,400. The server spends 47 ms of CPU on 1,000 keys in groups of 64, and 300 ms on single ones. The commands, the
//! spread, and where the time goes are in `benches/README.md`.
//!
//! [`PostgresConfig::group_size`] and [`groups_in_flight`](PostgresConfig::groups_in_flight) are the bounds.
//!
//! # One transaction
//!
//! *In progress* is an advisory lock of the transaction on the key's digest. It is taken first and the table looked at
//! then, by one function in the database that makes two statements of it, because a look that is older than the lock
//! runs two handlers. A duplicate does not wait for the lock: it is in progress, at once. A crash, a rollback or a lost
//! connection frees it.
//!
//! What client and retry see, and what is left in the database:
//!
//! | what happens | record | business writes | the client gets | a retry gets |
//! |---|---|---|---|---|
//! | the handler succeeds | completed, in the same commit | committed | the answer | the same bytes |
//! | a business error (a 4xx that completes) | completed, in a commit of its own | rolled back | the answer | the same bytes |
//! | 5xx, 429, a panic | none | rolled back | the answer | runs |
//! | success, though the database has aborted the transaction | none | rolled back | 500 `not-committed` | runs |
//! | success, though the transaction was never taken | none | none | 500 `not-committed` | runs |
//! | a crash before the commit | none | rolled back | nothing | runs, as soon as the server sees the connection gone |
//! | a crash after the commit, before the answer | completed | committed | nothing | the answer |
//! | the reply to the commit is lost, and it took place | completed | committed | the answer, found by its token | the same bytes |
//! | the commit never reached the server | none | rolled back | 503 | runs |
//! | two executions race | completed, by one of them | of one | one the answer, the other 409 | the same bytes |
//! | the same under `REPEATABLE READ` or `SERIALIZABLE` | completed, by one of them | of one | the others 409 or 503 | the same bytes |
//! | savepoints inside the handler | completed | those that were kept | the answer | the same bytes |
//! | *joined*: a claim settled inside the caller's transaction | completed, in the same commit | committed | the answer | the same bytes |
//! | *joined*, rolled back | the claim, as it was | rolled back | whatever the caller says | by how the claim is settled |
//! | *joined*, the lease was lost | the successor's | rolled back | the successor's answer | the same |
//! | *joined*, completed twice | completed, once | committed, once | the answer | the same bytes |
//! | both forms on one key, a lease first | the lease's | of the lease | the transaction: 409 | the lease's answer |
//! | both forms on one key, a transaction first | the lease's | of the lease; the transaction is rolled back | the transaction: 409, or the lease's answer | the lease's answer |
//!
//! The last two are no invitation: a handler that does something elsewhere may run in both forms at once. One form per
//! route.
//!
//! # Behind a pooler
//!
//! Through `PgBouncer` in transaction mode: [`PostgresConfig::behind_transaction_pooler`]. Statements then cost four round
//! trips to the pooler instead of one, and grouping makes up for it. The application's own statements in one-transaction
//! mode have to be `persistent(false)` there, as any of sqlx's. Migrations go to the server itself.
//!
//! # Cost
//!
//! | | round trips |
//! |---|---|
//! | a claim, a replay, a completion, a renewal | 1, shared |
//! | the loser of a race, a claim over an expired row, a write whose guard does not hold | 2 |
//! | one transaction | begin, 1 to lock and look, the handler's own, 1 to insert the record, commit |
//! | a replay in one-transaction mode | begin, 1, rollback |

mod claim;
mod config;
mod error;
mod group;
mod probe;
mod queries;
mod replace;
mod row;
mod session;
mod store;
mod transaction;
mod writer;

pub use config::PostgresConfig;
pub use probe::Unfit;
pub use sqlx;
pub use store::PostgresStore;
pub use transaction::{InTransaction, Locked};
