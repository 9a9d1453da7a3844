//! What an implementer tells the suite about a store.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{KeyStore, ScopedKey};

use crate::Halt;

/// Sets one store up for one case.
///
/// The suite makes one harness per case, and runs cases in parallel. They may share a server and a connection pool:
/// every case has keys of its own, also against the keys of an earlier run, and nothing is ever flushed. A manual
/// clock is not shared: one case must not move the time of another.
///
/// Two methods are required. Each of the others gives the suite a grip on the store that some stores do not offer;
/// a harness that leaves one out, or answers [`Halt::skip`], skips the cases that need it, by name.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Opens a handle on the store. Called several times in one case: every handle sees the same data, as several
    /// processes would. A store that lives in one process gives clones of one handle.
    ///
    /// # Errors
    ///
    /// A server that is not there fails the case. Whoever wants to leave it out says so by [`Halt::skip`].
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt>;

    /// Lets at least this much time pass on the store's clock: moves a manual clock, or sleeps.
    async fn elapse(&self, time: Duration);

    /// How time passes, and in which steps. By default a real clock, in steps of 200 ms.
    fn pace(&self) -> Pace {
        Pace::Real { unit: Duration::from_millis(200) }
    }

    /// The longest that a case may take before it counts as hanging; the default is 60 s.
    fn bound(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Damages the stored bytes of the record under `key`, past the store, leaving its expiry alone.
    ///
    /// # Errors
    ///
    /// [`Halt::skip`] where there are no bytes that could be damaged.
    async fn damage(&self, key: &ScopedKey, damage: Damage) -> Result<(), Halt> {
        let _ = (key, damage);
        Err(Halt::skip("the harness does not say how to damage a record (Harness::damage)"))
    }

    /// Opens a store whose server is missing in the given way.
    ///
    /// # Errors
    ///
    /// [`Halt::skip`] where there is no server that could be missing.
    async fn strand(&self, outage: Outage) -> Result<Stranded, Halt> {
        let _ = outage;
        Err(Halt::skip("the harness does not say how to open a store without its server (Harness::strand)"))
    }

    /// Opens a handle on the same data in an application whose clock is wrong by an hour.
    ///
    /// # Errors
    ///
    /// [`Halt::skip`] where application and store have one and the same clock, or where the application's cannot be
    /// set.
    async fn open_with_wrong_clock(&self, wrong: WrongClock) -> Result<Arc<dyn KeyStore>, Halt> {
        let _ = wrong;
        Err(Halt::skip("the harness does not say how to set the application's clock (Harness::open_with_wrong_clock)"))
    }

    /// Says whether this case has the store to itself, and whether records go by [`KeyStore::sweep`] alone. Then the
    /// suite counts what sweeps remove.
    ///
    /// # Errors
    ///
    /// [`Halt::skip`] where other cases share the store, or where the server removes expired records by itself.
    async fn alone(&self) -> Result<(), Halt> {
        Err(Halt::skip("the harness does not say that a case has the store to itself (Harness::alone)"))
    }
}

/// How time passes for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Only by [`Harness::elapse`]: times are compared to within 5 ms, and nothing waits.
    Manual,
    /// By itself. No case waits longer than it must, and none fails because the machine was slow: it tries again
    /// with longer times, and after the fourth try says that it cannot tell.
    Real {
        /// The shortest lease or retention whose end is worth a wait: long against a round trip and against the
        /// steps of the store's clock.
        unit: Duration,
    },
}

impl Pace {
    pub(crate) const fn unit(self) -> Duration {
        match self {
            Self::Manual => Duration::from_secs(8),
            Self::Real { unit } => unit,
        }
    }
}

/// How the bytes of a record are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// They are no record any more: cut short, or one bit flipped behind the version.
    Corrupt,
    /// They begin with a format version that no release has used.
    Version(u8),
}

/// How a server is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Nobody listens: a connection is refused at once.
    Refused,
    /// A connection is accepted and never answered.
    Silent,
}

/// A store without its server.
pub struct Stranded {
    /// The store.
    pub store: Arc<dyn KeyStore>,
    /// The time within which it is configured to give up.
    pub gives_up_within: Duration,
}

impl fmt::Debug for Stranded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stranded").field("gives_up_within", &self.gives_up_within).finish_non_exhaustive()
    }
}

/// How the application's clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongClock {
    /// An hour ahead of the store's.
    Ahead,
    /// An hour behind the store's.
    Behind,
}

impl WrongClock {
    /// How far it is off.
    pub const BY: Duration = Duration::from_secs(3600);
}

/// Makes one harness per case. Every `Fn` that gives a future of one does.
#[async_trait]
pub trait MakeHarness: Send + Sync + 'static {
    /// Makes the harness of one case.
    ///
    /// # Errors
    ///
    /// As [`Harness::open`].
    async fn make(&self) -> Result<Box<dyn Harness>, Halt>;
}

#[async_trait]
impl<F, M, H> MakeHarness for F
where
    F: Fn() -> M + Send + Sync + 'static,
    M: Future<Output = Result<H, Halt>> + Send,
    H: Harness + 'static,
{
    async fn make(&self) -> Result<Box<dyn Harness>, Halt> {
        Ok(Box::new(self().await?))
    }
}
