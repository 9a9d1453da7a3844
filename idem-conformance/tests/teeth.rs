//! The suite is held against a store that keeps every promise.

use idem_conformance::{ReferenceStore, run_all};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(future)
}

#[test]
fn the_reference_store_passes_every_case_and_skips_none() {
    let report = block_on(run_all(|| async { Ok(ReferenceStore::new()) }));
    assert!(report.all_passed(), "{report}");
}

#[test]
fn the_reference_store_fails_no_case_in_real_time() {
    let report = block_on(run_all(|| async { Ok(ReferenceStore::real_time()) }));
    assert_eq!(report.failed().count(), 0, "{report}");
}
