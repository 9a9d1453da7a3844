//! Who may run, and who has to be waited for at shutdown.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Permits for attempts, and the list of those that run. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    permits: Arc<Semaphore>,
    /// Closed once the drain has begun.
    tracker: TaskTracker,
}

/// Leave to claim a key and to run its handler. The drain waits until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _one_of_many: OwnedSemaphorePermit,
    _waited_for: TaskTrackerToken,
}

impl InFlight {
    pub(crate) fn new(most: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(most)), tracker: TaskTracker::new() }
    }

    /// The same list under another bound.
    pub(crate) fn with_bound(&self, most: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(most)), tracker: self.tracker.clone() }
    }

    /// Whether new work would be refused right now.
    pub(crate) fn is_full(&self) -> bool {
        self.tracker.is_closed() || self.permits.available_permits() == 0
    }

    /// `None` where too many run, or where the drain has begun.
    pub(crate) fn enter(&self) -> Option<Permit> {
        // Counted before the look at the drain, and both live in one atomic number: either the drain sees this
        // permit, or this permit sees the drain.
        let waited_for = self.tracker.token();
        if self.tracker.is_closed() {
            return None;
        }
        let one_of_many = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Permit { _one_of_many: one_of_many, _waited_for: waited_for })
    }

    /// Lets nothing new begin, and waits for what runs and for what is owed.
    pub(crate) async fn drain(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Runs a task that nobody waits for but the drain. Outside of a runtime, as in a destructor at its very end,
    /// there is nothing to run it on.
    pub(crate) fn spawn_owed(&self, task: idem_core::Task) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(self.tracker.track_future(task))),
            Err(_) => tracing::error!("no runtime is left to settle an idempotency key on; its claim stays"),
        }
    }

    /// Attempts and owed writes that are under way.
    pub(crate) fn count(&self) -> usize {
        self.tracker.len()
    }
}
