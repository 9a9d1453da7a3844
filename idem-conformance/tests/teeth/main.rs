//! The suite has teeth: a store that keeps every promise passes all of it, every broken store fails the cases that
//! are named for its fault, and every case is failed by some broken store.

mod caught_by;
mod real_time;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use caught_by::{CAUGHT_BY, HANGS};
use idem_conformance::{BrokenStore, Fault, Promise, ReferenceStore, Stranded, cases, run_all, run_those};

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("threads are to be had").block_on(future)
}

#[test]
fn the_reference_store_passes_every_case_and_skips_none() {
    let report = block_on(run_all(|| async { Ok(ReferenceStore::new()) }));
    assert!(report.all_passed(), "{report}");
    assert_eq!(report.results().len(), cases().len());
}

#[test]
fn every_broken_store_fails_the_cases_that_are_named_for_it() {
    // All of them at once: some hang until their bound.
    let missed = block_on(async {
        let tasks: Vec<_> = CAUGHT_BY.iter().map(|&(fault, names)| tokio::spawn(unnoticed(fault, names))).collect();
        let mut missed = Vec::new();
        for task in tasks {
            missed.extend(task.await.expect("the suite does not panic"));
        }
        missed
    });
    assert!(missed.is_empty(), "not noticed:\n{}", missed.join("\n"));
}

/// The named cases that the broken store does not fail.
async fn unnoticed(fault: Fault, names: &'static [&'static str]) -> Vec<String> {
    let make = move || async move { Ok(BrokenStore::new(fault)) };
    let report = run_those(make, |case| names.contains(&case.name())).await;
    assert_eq!(report.results().len(), names.len(), "{fault:?} names a case that does not exist, or one twice");
    // A store that is only slow has shown no fault.
    let shown = report.failed().filter(|(_, message)| HANGS.contains(&fault) || !message.contains("the case hangs"));
    let failed: BTreeSet<_> = shown.map(|(case, _)| case.name()).collect();
    names.iter().filter(|name| !failed.contains(*name)).map(|name| format!("{fault:?}: {name}")).collect()
}

#[test]
fn every_fault_is_listed_once() {
    let listed: Vec<_> = CAUGHT_BY.iter().map(|(fault, _)| *fault).collect();
    let missing: Vec<_> = Fault::ALL.iter().filter(|fault| !listed.contains(fault)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(listed.len(), Fault::ALL.len());
    assert!(CAUGHT_BY.iter().all(|(_, names)| !names.is_empty()));
}

#[test]
fn every_case_is_failed_by_some_broken_store() {
    let named: BTreeSet<_> = CAUGHT_BY.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let toothless: Vec<_> = cases().iter().map(|case| case.name()).filter(|name| !named.contains(name)).collect();
    assert!(toothless.is_empty(), "{toothless:#?}");
}

#[test]
fn what_a_harness_is_made_of_can_be_printed() {
    let (reference, broken) = (ReferenceStore::new(), BrokenStore::new(Fault::KeepsToken));
    let stranded = Stranded { store: Arc::new(reference.clone()), gives_up_within: Duration::from_secs(2) };
    let now = "31536000s";
    assert_eq!(format!("{reference:?}"), format!("ReferenceStore {{ records: 0, now: {now}, .. }}"));
    assert_eq!(format!("{broken:?}"), format!("BrokenStore {{ fault: KeepsToken, inner: {reference:?}, .. }}"));
    assert_eq!(format!("{stranded:?}"), "Stranded { gives_up_within: 2s, .. }");
}

#[test]
fn every_promise_has_cases_and_no_two_cases_share_a_name() {
    for promise in Promise::ALL {
        assert!(cases().iter().any(|case| case.promise() == promise), "{promise}");
    }
    let names: BTreeSet<_> = cases().iter().map(|case| case.name()).collect();
    assert_eq!(names.len(), cases().len());
}

#[test]
fn a_failure_names_promise_situation_expectation_and_harm() {
    let name = "a_late_renewal_does_not_reopen";
    let make = || async { Ok(BrokenStore::new(Fault::RenewalReopens)) };
    let report = block_on(run_those(make, |case| case.name() == name));
    let (case, message) = report.failed().next().expect("the fault is noticed");
    for part in [case.promise().text(), case.about(), "expected:", "came:", case.promise().harm()] {
        assert!(message.contains(part), "{part:?} is missing in:\n{message}");
    }
}
