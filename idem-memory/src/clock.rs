//! The store's own clock, the only one that counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells the time since a moment of its own choice.
///
/// # Contract
///
/// Never goes backwards, also between threads: what one thread has read, no other reads less than afterwards. *Broken:
/// a record that was expired is back, and one that was claimed looks as if it had been claimed later.*
///
/// It is read under a lock of the store, before anything is changed there: it must be quick and must not call the store.
pub trait Clock: Send + Sync + 'static {
    /// The time since the origin of this clock.
    fn now(&self) -> Duration;
}

/// The operating system's monotonic clock, counted from the moment this value was made.
///
/// Wall-clock changes do not move it. Whether it stands still while the machine sleeps is up to the system; see
/// [`Instant`].
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Starts at zero, now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that moves when it is told to, for tests. Clones are the same clock.
///
/// ```
/// use std::time::Duration;
///
/// use idem_memory::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.clone().advance(Duration::from_secs(30));
/// assert_eq!(clock.now() - before, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<Mutex<Duration>>,
}

/// Not zero, so that a subtraction that saturates at the origin shows in a test.
const START: Duration = Duration::from_secs(1_000_000);

impl ManualClock {
    /// A clock that stands still, at a time that is not zero.
    #[must_use]
    pub fn new() -> Self {
        Self { now: Arc::new(Mutex::new(START)) }
    }

    /// Moves the clock forward; there is no way back. It stops at [`Duration::MAX`].
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
