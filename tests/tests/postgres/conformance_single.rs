//! The published suite, over Postgres, with a statement for each write.

use std::process::ExitCode;

mod harness;

use harness::Way;

fn main() -> ExitCode {
    harness::main(Way { group_size: 1, ..Way::USUAL })
}
