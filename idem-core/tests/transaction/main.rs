//! The one-transaction mode of the driver, over a database in memory that fails on request. Time is tokio's, paused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod begin;
mod commit;
mod database;
mod lost;
mod roll_back;
mod run;
mod support;
