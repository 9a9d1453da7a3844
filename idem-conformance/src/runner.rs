//! Runs cases, each in a task of its own and within a bound.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::{Builder, Runtime};

use crate::harness::{Harness, MakeHarness};
use crate::report::{CaseResult, Report};
use crate::scene::{Scene, Verdict};
use crate::{Case, Halt, cases};

/// Runs the suite as a test target with `harness = false`: one libtest-style test per case.
///
/// It takes the arguments of a test binary (filters, `--list`, `--exact`, `--test-threads`), so `cargo test` and
/// nextest treat it as any other. A case that says nothing about the store counts as ignored, and is named with its
/// reason at the end.
///
/// All cases share one multi-threaded runtime, and with it any pool that the harness keeps.
pub fn main(harness: impl MakeHarness) -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = match Builder::new_multi_thread().worker_threads(4).enable_all().build() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            say(&format!("the suite cannot start a runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let harness: Arc<dyn MakeHarness> = Arc::new(harness);
    let skips = Arc::new(Mutex::new(Vec::new()));
    let trials = cases().iter().map(|case| trial(case, &harness, &runtime, &skips)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let skips = core::mem::take(&mut *skips.lock().unwrap_or_else(PoisonError::into_inner));
    if !skips.is_empty() {
        say(&format!("{} of {} cases say nothing about this store:", skips.len(), cases().len()));
        skips.iter().for_each(|skip| say(skip));
    }
    // A store that blocks its thread for ever must not keep the process.
    if let Ok(runtime) = Arc::try_unwrap(runtime) {
        runtime.shutdown_background();
    }
    conclusion.exit_code()
}

fn trial(
    case: &'static Case,
    harness: &Arc<dyn MakeHarness>,
    runtime: &Arc<Runtime>,
    skips: &Arc<Mutex<Vec<String>>>,
) -> Trial {
    let (harness, runtime, skips) = (Arc::clone(harness), Arc::clone(runtime), Arc::clone(skips));
    Trial::ignorable_test(case.path(), move || match runtime.block_on(run(case, harness)).outcome {
        Ok(()) => Ok(Completion::Completed),
        Err(Halt::Skipped(reason)) => {
            let skip = format!("  {}: {reason}", case.path());
            skips.lock().unwrap_or_else(PoisonError::into_inner).push(skip);
            Ok(Completion::ignored_with(reason))
        }
        Err(Halt::Failed(message)) => Err(Failed::from(message)),
    })
}

/// Runs every case, all at once, within a multi-threaded tokio runtime.
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn run_all(harness: impl MakeHarness) -> Report {
    run_those(harness, |_| true).await
}

/// Runs the cases that `wanted` picks, all at once, within a multi-threaded tokio runtime.
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn run_those(harness: impl MakeHarness, wanted: impl Fn(&Case) -> bool) -> Report {
    let harness: Arc<dyn MakeHarness> = Arc::new(harness);
    let running: Vec<_> = cases()
        .iter()
        .filter(|case| wanted(case))
        .map(|&case| (case, tokio::spawn(run(case, Arc::clone(&harness)))))
        .collect();
    let mut results = Vec::with_capacity(running.len());
    for (case, task) in running {
        results.push(task.await.unwrap_or_else(|error| CaseResult { case, outcome: Err(error.into()) }));
    }
    Report::new(results)
}

/// The longest that a harness may take to be made. After that it says itself how long a case may take.
const SET_UP_BOUND: Duration = Duration::from_secs(60);

async fn run(case: &'static Case, make: Arc<dyn MakeHarness>) -> CaseResult {
    let set = async {
        let harness = tokio::time::timeout(SET_UP_BOUND, make.make()).await;
        let harness = harness.map_err(|_| Halt::fail("the harness was not made within 60 s"))??;
        let bound = harness.bound();
        within(bound, play(case, harness)).await
    };
    let outcome = set.await.map_err(|halt| explained(case, halt));
    CaseResult { case, outcome }
}

async fn play(case: &'static Case, harness: Box<dyn Harness>) -> Verdict {
    let scene = Scene::set(harness, case.name()).await?;
    case.play(&scene).await
}

/// Waits in another task than the case's, so that a store that blocks its thread is found out too.
async fn within(bound: Duration, play: impl Future<Output = Verdict> + Send + 'static) -> Verdict {
    let mut task = tokio::spawn(play);
    match tokio::time::timeout(bound, &mut task).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(panicked)) => Err(panicked.into()),
        Err(_) => {
            task.abort();
            Err(Halt::fail(format!("expected: an answer\ncame:     none; the case hangs, after {bound:?}")))
        }
    }
}

/// Adds what the implementer needs to know: the situation, the promise, and whom it hurts.
fn explained(case: &Case, halt: Halt) -> Halt {
    match halt {
        Halt::Failed(message) => {
            let promise = case.promise();
            Halt::Failed(format!(
                "{promise}: {}\ncase:     {}\n{message}\nharm:     {}",
                promise.text(),
                case.about(),
                promise.harm(),
            ))
        }
        skipped @ Halt::Skipped(_) => skipped,
    }
}

/// Nobody is left to be told when standard error is closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
