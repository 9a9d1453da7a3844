//! The published suite, over Postgres.

use std::process::ExitCode;

mod harness;

fn main() -> ExitCode {
    harness::main(harness::Way::USUAL)
}
