//! The payments API over Postgres: in the one-transaction mode, and under leases.
#![cfg(unix)]
#![expect(clippy::panic, clippy::print_stderr, reason = "a helper of tests fails the test, and says what it has seen")]

mod load;
mod support;

mod abort;
mod crashes;
mod directives;
mod impatient;
mod likes;
mod processes;
mod silence;
mod start;
mod stop;
mod together;
