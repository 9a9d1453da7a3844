//! The published suite, over Postgres through `PgBouncer` in transaction mode.

use std::process::ExitCode;

mod harness;

use harness::Way;

fn main() -> ExitCode {
    harness::main(Way { is_pooled: true, ..Way::USUAL })
}
