//! The suite as an implementer runs it, over the reference store.

use std::process::ExitCode;

use idem_conformance::ReferenceStore;

fn main() -> ExitCode {
    idem_conformance::main(|| async { Ok(ReferenceStore::new()) })
}
