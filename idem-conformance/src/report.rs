//! What became of the cases.

use core::fmt;

use crate::{Case, Halt};

/// What became of every case of one run.
#[derive(Debug)]
pub struct Report {
    results: Vec<CaseResult>,
}

/// What became of one case.
#[derive(Debug)]
pub struct CaseResult {
    /// Which case.
    pub case: &'static Case,
    /// How it ended; `Err` says that it was skipped, or how it failed.
    pub outcome: Result<(), Halt>,
}

impl Report {
    pub(crate) fn new(results: Vec<CaseResult>) -> Self {
        Self { results }
    }

    /// All of it, in the order of the case list.
    #[must_use]
    pub fn results(&self) -> &[CaseResult] {
        &self.results
    }

    /// Whether every case was run and passed. A skip is not a pass.
    #[must_use]
    pub fn all_passed(&self) -> bool {
        self.results.iter().all(|result| result.outcome.is_ok())
    }

    /// The cases that failed, and how.
    pub fn failed(&self) -> impl Iterator<Item = (&'static Case, &str)> {
        self.results.iter().filter_map(|result| match &result.outcome {
            Err(Halt::Failed(message)) => Some((result.case, &**message)),
            _ => None,
        })
    }

    /// The cases that were skipped, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static Case, &str)> {
        self.results.iter().filter_map(|result| match &result.outcome {
            Err(Halt::Skipped(reason)) => Some((result.case, &**reason)),
            _ => None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (case, message) in self.failed() {
            writeln!(f, "FAILED {}\n{message}\n", case.path())?;
        }
        for (case, reason) in self.skipped() {
            writeln!(f, "skipped {}: {reason}", case.path())?;
        }
        let (failed, skipped) = (self.failed().count(), self.skipped().count());
        let passed = self.results.len() - failed - skipped;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
