//! A payments API that refuses to charge twice: the example of `idem`.
//!
//! | file | what it shows |
//! |---|---|
//! | `app` | where the layer stands: inside authentication, around one route, under one policy and one mode per route |
//! | `payments` | what a handler does with its attempt: keys for downstream calls, *nothing happened* |
//! | `bank` | a bank that can be told to be slow, to decline, to break off after the money has moved |
//! | `ledger` | every charge that the bank has made, in memory or in Postgres: a duplicate shows here |
//! | `auth`, `problem` | the rest of an API: who calls, and errors as problem details |
//! | `options`, `store`, `serve` | a program around it: settings that are checked, a store by URL, an orderly end |
//!
//! Its README walks through it with `curl`.

mod app;
mod auth;
mod bank;
mod ledger;
mod options;
mod payments;
mod problem;
mod serve;
mod store;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use options::Options;

/// The program: reads the command line, serves until it is told to stop, and says by its exit code how it went.
///
/// 0 after an orderly end, 1 where it could not serve or had to leave attempts behind, 2 for options that do not fit.
#[must_use]
pub fn main() -> ExitCode {
    let settings = Options::parse().check().unwrap_or_else(|error| error.exit());
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let in_colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(in_colour).with_env_filter(filter).init();

    let served = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(serve::ServeError::Runtime)
        .and_then(|runtime| runtime.block_on(serve::serve(settings)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nobody reads it, the exit code has to do.
            let _ = writeln!(std::io::stderr(), "payments: {error}");
            ExitCode::FAILURE
        }
    }
}
