//! Helpers of the tests that need two crates or a server: the payments API as a process of its own, and a client whose
//! every call is one TCP connection, which ends when the call is dropped.
//!
//! Whatever goes wrong in here panics: it is a test that fails.
#![expect(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper of tests fails the test"
)]

mod answer;
mod call;
mod random;
mod server;
#[cfg(unix)]
pub mod servers;

pub use answer::Answer;
pub use call::{BrokenOff, Call, Multiplexed};
pub use random::Random;
pub use server::{Caller, Charge, Ended, Server, eventually};
#[cfg(unix)]
pub use servers::postgres;

/// An order that is fine.
pub const ORDER: &str = r#"{"amount":"100.00","currency":"RUB"}"#;

/// Starts the payments API on a free port, with these options.
#[macro_export]
macro_rules! payments {
    ($($option:expr),* $(,)?) => {
        $crate::Server::start(env!("CARGO_BIN_EXE_payments-under-test"), &[$($option),*])
    };
}

/// The README's code, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
