//! The published suite, over Postgres through `PgBouncer`, where a transaction is serializable unless it says otherwise.

use std::process::ExitCode;

mod harness;

use harness::Way;

fn main() -> ExitCode {
    harness::main(Way { is_pooled: true, isolation: "serializable", ..Way::USUAL })
}
