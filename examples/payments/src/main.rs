//! A payments API that refuses to charge twice.

use std::process::ExitCode;

fn main() -> ExitCode {
    payments::main()
}
