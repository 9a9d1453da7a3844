//! The layer over a scriptable service, a scriptable store and a clock that is moved by hand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod capture;
mod chunks;
mod classes;
mod clients;
mod concurrency;
#[path = "../../../idem-core/tests/transaction/database.rs"]
mod database;
mod hooks;
mod observe;
mod refusals;
mod store;
mod support;
mod transaction;
