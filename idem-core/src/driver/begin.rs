use core::fmt;
use core::pin::pin;
use core::time::Duration;

use futures_util::future::{Either, select};

use super::attempt::{Attempt, Held, LeaseClock};
use super::{Event, Idempotency, ROUNDS, Settings, Timer};
use crate::machine::{Decision, decide, locked};
use crate::policy::StoreDown;
use crate::{
    Answer, Certainty, Change, Epoch, Fingerprint, Found, Guard, Inserted, NewRecord, Refusal, Replaced,
    RequestIdentity, Revision, ScopedKey, StoreError, StoreErrorKind, Token,
};

/// What a request may do.
#[must_use = "a claim that nobody runs blocks its key"]
pub enum Begin<T: Timer> {
    /// Run the handler: the key is claimed.
    Run(Attempt<T>),
    /// Give the stored answer.
    Replay(Answer),
    /// Refuse.
    Refuse(Refusal),
}

impl<T: Timer> fmt::Debug for Begin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(attempt) => f.debug_tuple("Run").field(attempt).finish(),
            Self::Replay(answer) => f.debug_tuple("Replay").field(answer).finish(),
            Self::Refuse(refusal) => f.debug_tuple("Refuse").field(refusal).finish(),
        }
    }
}

/// What a request could do right now; nothing was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The handler would run.
    WouldRun,
    /// There is an answer.
    Replay(Answer),
    /// It would be refused.
    Refuse(Refusal),
}

/// The waits after the store calls of one claim that failed. The next failure ends it.
pub(super) const BACKOFF: [Duration; 2] = [Duration::from_millis(25), Duration::from_millis(75)];

/// The waits between two looks at a running attempt.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(500);

impl<T: Timer> Idempotency<T> {
    /// Claims the key for a request, or says why not.
    ///
    /// # Outcomes
    ///
    /// `Run` once the claim is durable. The caller then runs the operation through [`Attempt::drive`] and settles it.
    /// `Replay` and `Refuse` are answers to the client.
    ///
    /// # Errors
    ///
    /// Where the store could not. Nothing runs. Where a claim may have been written all the same, its release is owed
    /// and goes on in the background; see [`spawn_with`](Self::spawn_with).
    ///
    /// # Cost
    ///
    /// One store call for a fresh key, a replay or a refusal; two for a takeover; more after lost races and failures,
    /// bounded.
    ///
    /// # Cancellation
    ///
    /// A claim that may have been written is released in the background: its handler never ran.
    pub async fn begin(&self, key: &ScopedKey, request: &dyn RequestIdentity) -> Result<Begin<T>, StoreError> {
        let mut claiming = Claiming::new(self, key, request.fingerprint())?;
        match claiming.claim(request).await {
            Err(error) if !claiming.may_stand && self.may_run_unprotected(&error) => {
                self.settings.observer.observe(key, &Event::RanUnprotected(error));
                Ok(Begin::Run(Attempt::unprotected(self.clone(), key.clone())))
            }
            result => result,
        }
    }

    /// As [`begin`](Self::begin), but never runs without protection, whatever the policy says of a store that is
    /// down. For callers that have seen an attempt in progress: to run beside it would be no guess any more.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_protected(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
    ) -> Result<Begin<T>, StoreError> {
        Claiming::new(self, key, request.fingerprint())?.claim(request).await
    }

    /// As [`begin`](Self::begin), but waits up to `limit` for a running attempt, and then gives its answer.
    ///
    /// # Cost
    ///
    /// One store call per look; the looks are 10 ms to 500 ms apart, doubling.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_waiting(
        &self,
        key: &ScopedKey,
        request: &dyn RequestIdentity,
        limit: Duration,
    ) -> Result<Begin<T>, StoreError> {
        let mut over = pin!(self.settings.timer.sleep(limit));
        let mut pause = FIRST_LOOK;
        let mut begun = self.begin(key, request).await?;
        loop {
            let Begin::Refuse(refused @ Refusal::InProgress { .. }) = begun else { return Ok(begun) };
            match select(pin!(self.settings.timer.sleep(pause)), over.as_mut()).await {
                Either::Left(_) => pause = (pause * 2).min(LAST_LOOK),
                Either::Right(_) => return Ok(Begin::Refuse(refused)),
            }
            begun = self.begin_protected(key, request).await?;
        }
    }

    /// Says what a request could do, without a claim. For callers that admit replays but no new work.
    ///
    /// # Errors
    ///
    /// Where the store could not be asked.
    ///
    /// # Cost
    ///
    /// One store call.
    pub async fn look(&self, key: &ScopedKey, request: &dyn RequestIdentity) -> Result<Look, StoreError> {
        let found = self.find(key).await?;
        // No claim can carry this token: it was drawn a moment ago.
        Ok(match decide(found.as_ref(), request, self.draw_token()?, &self.settings.policy) {
            Decision::Claim { .. } | Decision::Resume { .. } => Look::WouldRun,
            Decision::Replay(answer) => Look::Replay(answer),
            Decision::Refuse(refusal) => Look::Refuse(refusal),
        })
    }

    /// Of a request whose claim certainly does not stand.
    fn may_run_unprotected(&self, error: &StoreError) -> bool {
        self.settings.policy.store_down() == StoreDown::RunUnprotected && error.kind() == StoreErrorKind::Unavailable
    }
}

/// A claim on its way. Dropped while the claim may stand in the store, it owes the claim's release: whoever gives up
/// here, by an error or by cancellation, has run nothing.
struct Claiming<'a, T: Timer> {
    idem: &'a Idempotency<T>,
    key: &'a ScopedKey,
    token: Token,
    fingerprint: Fingerprint,
    /// The highest epoch that a claim was sent with.
    epoch: Epoch,
    /// What the claims were sent over may have had an effect.
    effect_open: bool,
    /// A write of the claim was sent, and no answer has denied it.
    may_stand: bool,
    /// Runs since before the first write that may stand.
    oldest_clock: Option<LeaseClock<T>>,
}

/// One conditional write of a claim.
enum Write {
    Insert(Epoch),
    Over(Revision, Epoch),
    Renew,
}

/// What a conditional write has met.
enum Met {
    Nothing,
    Record(Option<Found>),
}

impl<'a, T: Timer> Claiming<'a, T> {
    fn new(idem: &'a Idempotency<T>, key: &'a ScopedKey, fingerprint: Fingerprint) -> Result<Self, StoreError> {
        let (token, epoch) = (idem.draw_token()?, Epoch::FIRST);
        Ok(Self { idem, key, token, fingerprint, epoch, effect_open: false, may_stand: false, oldest_clock: None })
    }

    async fn claim(&mut self, request: &dyn RequestIdentity) -> Result<Begin<T>, StoreError> {
        let mut backoff = BACKOFF.into_iter();
        // The common case is a key that nobody has used: write first, look where that fails.
        let mut found = None;
        for _ in 0..ROUNDS {
            let (epoch, write) = match decide(found.as_ref(), request, self.token, &self.idem.settings.policy) {
                Decision::Replay(answer) => return Ok(Begin::Replay(answer)),
                Decision::Refuse(refusal) => return Ok(Begin::Refuse(refusal)),
                Decision::Claim { epoch, over, effect_open } => {
                    self.epoch = self.epoch.max(epoch);
                    self.effect_open |= effect_open;
                    (epoch, over.map_or(Write::Insert(epoch), |revision| Write::Over(revision, epoch)))
                }
                Decision::Resume { epoch, renew_first: true } => (epoch, Write::Renew),
                Decision::Resume { epoch, renew_first: false } => {
                    // The lease is as old as the first write that may have made it, and is renewed at once.
                    let clock = self.oldest_clock.take().unwrap_or_else(|| self.idem.lease_clock());
                    return Ok(Begin::Run(self.attempt(epoch, clock.already_due())));
                }
            };
            // The lease counts from before the write that makes it is sent.
            let clock = self.idem.lease_clock();
            let stood = core::mem::replace(&mut self.may_stand, true);
            match self.write(write).await {
                Ok(Met::Nothing) => return Ok(Begin::Run(self.attempt(epoch, clock))),
                Ok(Met::Record(there)) => {
                    self.may_stand = stood;
                    found = there;
                }
                Err(error) => {
                    if error.certainty() == Certainty::NotWritten {
                        self.may_stand = stood;
                    } else {
                        self.oldest_clock.get_or_insert(clock);
                    }
                    if error.kind() == StoreErrorKind::Locked && !self.may_stand {
                        return Ok(Begin::Refuse(locked()));
                    }
                    match backoff.next() {
                        Some(pause) if error.is_worth_a_retry() => self.idem.settings.timer.sleep(pause).await,
                        _ => return Err(error),
                    }
                }
            }
        }
        Err(StoreError::bare(StoreErrorKind::Contended, Certainty::NotWritten))
    }

    async fn write(&mut self, write: Write) -> Result<Met, StoreError> {
        let Settings { store, policy, .. } = &*self.idem.settings;
        let (lease, retention) = (policy.lease(), policy.unsettled_retention());
        let claim = |epoch| {
            NewRecord::claim(self.fingerprint, self.token, epoch, lease, retention).expecting(policy.retention())
        };
        let (guard, change) = match write {
            Write::Insert(epoch) => {
                return Ok(match self.idem.bounded(store.insert(self.key, &claim(epoch))).await? {
                    Inserted::Done(_) => Met::Nothing,
                    Inserted::Occupied(found) => Met::Record(Some(found)),
                });
            }
            Write::Over(revision, epoch) => (Guard::Unchanged(revision), Change::Record(claim(epoch))),
            Write::Renew => (Guard::Owner(self.token), Change::Renew { lease, retention }),
        };
        Ok(match self.idem.bounded(store.replace(self.key, guard, &change)).await? {
            Replaced::Done(_) => Met::Nothing,
            Replaced::Lost(found) => Met::Record(found),
        })
    }

    /// Hands the claim over to its attempt, which keeps it from here on.
    fn attempt(&mut self, epoch: Epoch, clock: LeaseClock<T>) -> Attempt<T> {
        self.may_stand = false;
        let held = Held { token: self.token, fingerprint: self.fingerprint, effect_open: self.effect_open };
        Attempt::new(self.idem.clone(), self.key.clone(), epoch, held, clock)
    }
}

impl<T: Timer> Drop for Claiming<'_, T> {
    fn drop(&mut self) {
        if self.may_stand {
            self.idem.owe_release(self.key, self.fingerprint, self.token, self.epoch);
        }
    }
}
