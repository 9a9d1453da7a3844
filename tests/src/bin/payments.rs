//! The payments API, as its own `main` starts it.

use std::process::ExitCode;

fn main() -> ExitCode {
    payments::main()
}
