//! The published suite, over Postgres where a transaction is serializable unless it says otherwise.

use std::process::ExitCode;

mod harness;

use harness::Way;

fn main() -> ExitCode {
    harness::main(Way { isolation: "serializable", ..Way::USUAL })
}
