//! Carries the machine's decisions out: one store call after the other, every one of them bounded.
//!
//! The driver has no runtime and no clock. It waits on a [`Timer`], and hands what must go on in the background to
//! the spawner of [`Idempotency::spawn_with`].

mod attempt;
mod begin;
mod bounded;
mod events;
mod joined;
mod owed;
mod run;
mod running;
mod settle;
mod timer;
mod transaction;

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

pub use attempt::{Attempt, Settled};
pub use begin::{Begin, Look};
pub use events::{Event, Observer};
pub use joined::Joined;
pub use run::{Handled, Outcome};
pub use running::{Directive, Running};
pub use timer::Timer;
pub use transaction::{Concluded, OneTransaction, TransactionAttempt, TransactionBegin};

use self::owed::{Owed, Spawner};
use crate::machine::{self, NotAClaim};
use crate::{
    Change, Found, Guard, KeyStore, NewRecord, OsTokens, Policy, Replaced, ScopedKey, Settlement, StoreError,
    StoreErrorKind, TokenSource,
};

/// Runs an operation at most once per key, over a store.
///
/// Clones are cheap and share the store and the owed writes; a clone may have another [`policy`](Self::policy).
///
/// Three forms: [`run`](Self::run) around a closure with a serialisable value, [`run_answer`](Self::run_answer)
/// around one with an [`Answer`](crate::Answer), and [`begin`](Self::begin), which gives the [`Attempt`] itself.
///
/// # Example
///
/// ```
/// # use idem_memory::MemoryStore;
/// use idem_core::{Fingerprint, Handled, IdempotencyKey, Idempotency, Outcome, Principal, Route, ScopedKey};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let idem = Idempotency::new(MemoryStore::default(), tokio::time::sleep);
/// let body = br#"{"order":4711}"#;
/// let key = ScopedKey::new(Principal::new("orders")?, Route::new("ship")?, IdempotencyKey::parse("order-4711")?);
/// let ship = async || {
///     let request = Fingerprint::json("ship", body);
///     idem.run(&key, &request, async |running| {
///         let parcel = format!("parcel for {}", running.derive_key("carrier").as_str());
///         Handled::<_, String>::Complete(parcel)
///     })
///     .await
/// };
///
/// let Outcome::Completed(first) = ship().await? else { panic!("a fresh key runs") };
/// let Outcome::Replayed(second) = ship().await? else { panic!("the second call is a retry") };
/// assert_eq!(first, second);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Idempotency<T> {
    settings: Arc<Settings<T>>,
}

impl<T> Clone for Idempotency<T> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<T> core::fmt::Debug for Idempotency<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Idempotency")
            .field("policy", &self.settings.policy)
            .field("call_timeout", &self.settings.call_timeout)
            .field("owed_writes", &self.settings.owed.count())
            .finish_non_exhaustive()
    }
}

/// Work that outlives its caller, for [`Idempotency::spawn_with`].
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Copied on the first change after a clone, so that a clone costs one reference count.
#[derive(Clone)]
struct Settings<T> {
    store: Arc<dyn KeyStore>,
    timer: T,
    policy: Policy,
    call_timeout: Duration,
    tokens: Arc<dyn TokenSource>,
    observer: Arc<dyn Observer>,
    spawner: Option<Spawner>,
    owed: Arc<Owed>,
}

/// How long one store call may take, unless [`Idempotency::call_timeout`] says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How often begin and settle decide anew before they call it contention. Each turn has newer data; several lost
/// races in a row on one key are possible, this many are not.
const ROUNDS: usize = 8;

impl<T: Timer> Idempotency<T> {
    /// Protects operations with the records of `store`, under [`Policy::strict`].
    pub fn new(store: impl KeyStore + 'static, timer: T) -> Self {
        Self {
            settings: Arc::new(Settings {
                store: Arc::new(store),
                timer,
                policy: Policy::strict(),
                call_timeout: CALL_TIMEOUT,
                tokens: Arc::new(OsTokens),
                observer: Arc::new(()),
                spawner: None,
                owed: Arc::default(),
            }),
        }
    }

    /// Sets the policy, for this value and its later clones.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.change().policy = policy;
        self
    }

    /// Bounds every single store call, beside whatever bounds the store has itself. The default is 5 s.
    ///
    /// A claim takes at most three calls that fail, and a renewal waits at most a third of the lease.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.change().call_timeout = timeout;
        self
    }

    /// Lets writes that are owed go on in the background: completions that the store did not take, and the release
    /// of claims whose reply was lost.
    ///
    /// Without a spawner they wait for [`work_off_owed`](Self::work_off_owed).
    ///
    /// ```
    /// # use idem_memory::MemoryStore;
    /// # use idem_core::Idempotency;
    /// let idem = Idempotency::new(MemoryStore::default(), tokio::time::sleep)
    ///     .spawn_with(|task| drop(tokio::spawn(task)));
    /// assert_eq!(idem.owed_writes(), 0);
    /// ```
    #[must_use]
    pub fn spawn_with(mut self, spawn: impl Fn(Task) + Send + Sync + 'static) -> Self {
        self.change().spawner = Some(Arc::new(spawn));
        self
    }

    /// Tells `observer` what happens that no answer shows: lost leases, retried completions, unprotected runs.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer + 'static) -> Self {
        self.change().observer = Arc::new(observer);
        self
    }

    /// Takes tokens from `source` instead of the operating system. For tests that replay a schedule.
    #[must_use]
    pub fn tokens(mut self, source: impl TokenSource + 'static) -> Self {
        self.change().tokens = Arc::new(source);
        self
    }

    fn change(&mut self) -> &mut Settings<T> {
        Arc::make_mut(&mut self.settings)
    }

    /// The store, for sweeps and statistics.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn KeyStore> {
        &self.settings.store
    }

    /// The policy that this value works under.
    #[must_use]
    pub fn current_policy(&self) -> &Policy {
        &self.settings.policy
    }

    /// Reads the record of a key, for operators.
    ///
    /// # Errors
    ///
    /// Where the store could not be asked.
    pub async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.bounded(self.settings.store.find(key)).await
    }

    /// Settles a claim in its attempt's place: what an operator or a reconciler does once it knows the outcome.
    ///
    /// `seen` is what [`find`](Self::find) gave; a record that has changed since is left alone. The token changes, so
    /// that the attempt, should it still run, finds its lease lost.
    ///
    /// # Errors
    ///
    /// Where the store could not. Of certainty *unknown*: look again.
    ///
    /// # Example
    ///
    /// ```
    /// # use idem_memory::MemoryStore;
    /// # use idem_core::*;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let key = ScopedKey::new(Principal::shared(), Route::new("ship")?, IdempotencyKey::parse("order-4711")?);
    /// # let request = Fingerprint::json("ship", b"{}");
    /// let idem = Idempotency::new(MemoryStore::default(), tokio::time::sleep);
    /// let Begin::Run(abandoned) = idem.begin(&key, &request).await? else { panic!("a fresh key runs") };
    /// drop(abandoned);
    ///
    /// let seen = idem.find(&key).await?.expect("a dropped attempt keeps its claim");
    /// assert_eq!(idem.resolve(&key, &seen, Settlement::Released).await?, Resolved::Done);
    /// assert!(matches!(idem.begin(&key, &request).await?, Begin::Run(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn resolve(&self, key: &ScopedKey, seen: &Found, settlement: Settlement) -> Result<Resolved, StoreError> {
        let (revision, claim) = match machine::resolve(seen) {
            Ok(claim) => claim,
            Err(NotAClaim) => return Ok(Resolved::NotAClaim),
        };
        let token = self.draw_token()?;
        let retention = self.settings.policy.retention();
        let settled = NewRecord::settled(claim.fingerprint, token, claim.epoch, settlement, retention);
        let change = Change::Record(settled);
        match self.bounded(self.settings.store.replace(key, Guard::Unchanged(revision), &change)).await? {
            Replaced::Done(_) => Ok(Resolved::Done),
            Replaced::Lost(found) => Ok(Resolved::Changed(found)),
        }
    }

    fn draw_token(&self) -> Result<crate::Token, StoreError> {
        self.settings.tokens.draw().map_err(|error| StoreError::not_written(StoreErrorKind::Other, error))
    }
}

/// What became of [`Idempotency::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the record may have changed, and nothing be written"]
pub enum Resolved {
    /// The claim is settled.
    Done,
    /// The record has changed since it was seen; nothing was written. What is there now.
    Changed(Option<Found>),
    /// What was seen is no claim in progress; nothing was asked of the store.
    NotAClaim,
}
