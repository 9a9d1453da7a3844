use core::fmt;
use core::future::{Future, pending, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Poll, ready};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use event_listener::Event as Listenable;
use futures_util::future::{Either, select};

use super::bounded::poll_once;
use super::joined::Renewals;
use super::settle::Settling;
use super::{Event, Idempotency, Running, Timer};
use crate::{Change, Epoch, Fingerprint, Guard, InPlaceOfMine, NewRecord, Replaced, ScopedKey, Settlement, Token};

/// One execution of an operation, holding its key.
///
/// The attempt goes through [`drive`](Self::drive), which keeps the lease alive, to [`settle`](Self::settle).
///
/// Dropped before that, it keeps its claim: a future that was dropped proves nothing about what it did. The claim is
/// then abandoned once its lease is over, and the policy decides.
#[must_use = "an attempt that is dropped keeps its claim until its lease is over, and longer under a strict policy"]
pub struct Attempt<T: Timer> {
    pub(super) idem: Idempotency<T>,
    running: Running,
    held: Option<Held>,
    clocks: Mutex<Clocks<T>>,
    pub(super) on_renewal_over: Listenable,
}

/// What makes the claim the attempt's own.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) token: Token,
    pub(super) fingerprint: Fingerprint,
    /// An attempt before this one may have had an effect.
    pub(super) effect_open: bool,
}

/// The two moments of a lease. Started before the write that grants the lease is sent, so that the store, whose clock
/// counts, never ends the lease first.
pub(super) struct LeaseClock<T: Timer> {
    /// When to renew; `None`: at once.
    due: Option<Pin<Box<T::Sleep>>>,
    /// When the lease is as good as over; `None` once that was said.
    over: Option<Pin<Box<T::Sleep>>>,
}

impl<T: Timer> LeaseClock<T> {
    pub(super) fn already_due(mut self) -> Self {
        self.due = None;
        self
    }
}

/// What limits the attempt. Behind a lock, because a `Sleep` need not be `Sync` and an attempt is: only one task ever
/// drives it.
pub(super) struct Clocks<T: Timer> {
    lease: LeaseClock<T>,
    /// Started by the first handler that has to wait.
    ceiling: Option<Pin<Box<T::Sleep>>>,
    ceiling_reached: bool,
    pub(super) renewals: Renewals,
}

/// What became of [`Attempt::settle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The record says it.
    Done,
    /// The key was another attempt's. What goes out to the client instead.
    LeaseLost(InPlaceOfMine),
    /// The store did not take it. The claim stays, and the write is tried again in the background.
    Owed,
    /// The store did not take it, and too many writes are owed already. The claim stays, and nobody will settle it
    /// but another call of [`settle`](Attempt::settle), or an operator.
    GivenUp,
    /// There was no record to settle: the attempt ran unprotected.
    Unprotected,
}

impl<T: Timer> Attempt<T> {
    pub(super) fn new(idem: Idempotency<T>, key: ScopedKey, epoch: Epoch, held: Held, lease: LeaseClock<T>) -> Self {
        let clocks = Mutex::new(Clocks { lease, ceiling: None, ceiling_reached: false, renewals: Renewals::default() });
        Self { idem, running: Running::new(key, epoch), held: Some(held), clocks, on_renewal_over: Listenable::new() }
    }

    /// An attempt without a claim: it has no lease, and settles nothing.
    pub(super) fn unprotected(idem: Idempotency<T>, key: ScopedKey) -> Self {
        let lease = LeaseClock { due: None, over: None };
        let clocks = Mutex::new(Clocks { lease, ceiling: None, ceiling_reached: false, renewals: Renewals::default() });
        Self {
            idem,
            running: Running::new(key, Epoch::UNPROTECTED),
            held: None,
            clocks,
            on_renewal_over: Listenable::new(),
        }
    }

    /// What the handler gets to see.
    #[must_use]
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Whether a record protects this attempt. False only where the policy runs operations while the store is down.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.held.is_some()
    }

    /// Runs the handler, and renews the lease while it runs: every third of the lease, up to the policy's ceiling.
    ///
    /// The handler is signalled through [`Running::lost`] when a renewal finds the key taken, or when none was
    /// acknowledged for so long that the lease is as good as over. It is never stopped.
    ///
    /// Handler and renewals share one task: a handler that blocks its thread blocks its renewals. An attempt may be
    /// driven again, through the next step of one operation.
    ///
    /// # Cost
    ///
    /// Nothing for a handler that is done at its first poll; one store call per third of a lease after that.
    ///
    /// # Cancellation
    ///
    /// The claim stays, and is abandoned once its lease is over.
    pub async fn drive<F: Future>(&self, handler: F) -> F::Output {
        let mut handler = pin!(handler);
        if let Poll::Ready(output) = poll_once(handler.as_mut()).await {
            return output;
        }
        let Some(held) = self.held else { return handler.await };
        // In a box, because handlers that are done at once should not carry its size about.
        match select(handler, Box::pin(self.keep_alive(held))).await {
            Either::Left((output, _)) => output,
            Either::Right(((), handler)) => handler.await,
        }
    }

    /// Renews until the key is lost or the ceiling is reached.
    async fn keep_alive(&self, held: Held) {
        let settings = &*self.idem.settings;
        let policy = &settings.policy;
        let (timer, lease) = (&settings.timer, policy.lease());
        let renewal = Change::Renew { lease, retention: policy.unsettled_retention() };
        let call_timeout = self.idem.renewal_timeout();
        let mut ceiling = pin!(self.ceiling());
        loop {
            let due = {
                let due = pin!(self.ringing(self.renewal_due()));
                // The ceiling first: a renewal that has been due since is not made any more.
                matches!(select(ceiling.as_mut(), due).await, Either::Right(_))
            };
            if !due {
                break;
            }
            let Some(_under_way) = self.renewal_begins() else { break };
            let clock = self.idem.lease_clock();
            let call = settings.store.replace(self.running.key(), Guard::Owner(held.token), &renewal);
            match self.ringing(self.idem.bounded_by(call_timeout, call)).await {
                Ok(Replaced::Done(_)) => self.clocks().lease = clock,
                Ok(Replaced::Lost(_)) => {
                    if self.running.signal_lost() {
                        settings.observer.observe(self.running.key(), &Event::LeaseLost);
                    }
                    return;
                }
                Err(_) => self.clocks().lease.due = Some(Box::pin(timer.sleep(SHORTEST_PAUSE.max(lease / 12)))),
            }
        }
        // No renewal any more: the lease runs out, and the handler has to know.
        self.ringing(pending::<()>()).await;
    }

    /// Waits for `what`, and signals the handler should the lease clock ring meanwhile. An attempt that was signalled
    /// goes on renewing: as long as nobody has taken the key, that keeps a second run away.
    async fn ringing<F: Future>(&self, what: F) -> F::Output {
        match select(pin!(what), pin!(self.lease_over())).await {
            Either::Left((output, _)) => output,
            Either::Right(((), what)) => {
                self.fall_silent();
                what.await
            }
        }
    }

    /// Completes once, when the lease clock rings.
    async fn lease_over(&self) {
        poll_fn(|context| {
            let mut clocks = self.clocks();
            let Some(over) = &mut clocks.lease.over else { return Poll::Pending };
            ready!(over.as_mut().poll(context));
            clocks.lease.over = None;
            Poll::Ready(())
        })
        .await;
    }

    /// Completes when the lease is to be renewed, and at once until it was.
    async fn renewal_due(&self) {
        poll_fn(|context| {
            let mut clocks = self.clocks();
            if let Some(due) = &mut clocks.lease.due {
                ready!(due.as_mut().poll(context));
                clocks.lease.due = None;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Completes once the ceiling is reached, and at once from then on.
    async fn ceiling(&self) {
        poll_fn(|context| {
            let settings = &*self.idem.settings;
            let mut clocks = self.clocks();
            if !clocks.ceiling_reached {
                let start = || Box::pin(settings.timer.sleep(settings.policy.ceiling()));
                ready!(clocks.ceiling.get_or_insert_with(start).as_mut().poll(context));
                clocks.ceiling_reached = true;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Two sleeps and a flag stay usable whatever panicked while they were locked.
    pub(super) fn clocks(&self) -> MutexGuard<'_, Clocks<T>> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fall_silent(&self) {
        if self.running.signal_lost() {
            self.idem.settings.observer.observe(self.running.key(), &Event::LeaseSilent);
        }
    }

    /// Writes the outcome. Takes `&self`, so that a caller may settle again after [`Settled::Owed`]; the same
    /// settlement twice is done once.
    ///
    /// # Outcomes
    ///
    /// See [`Settled`]. A store that fails is no outcome of the operation: the claim stays, the client gets the
    /// handler's answer, and the write is owed.
    ///
    /// # Cost
    ///
    /// One store call; after a lost lease two or three.
    ///
    /// # Cancellation
    ///
    /// The write is owed and goes on in the background.
    pub async fn settle(&self, settlement: Settlement) -> Settled {
        let Some((_, record)) = self.settled_record(settlement) else { return Settled::Unprotected };
        Settling::new(&self.idem, &self.running, record).settle().await
    }

    /// The record that settles the claim, and what it is guarded by. `None` where there is no claim.
    pub(super) fn settled_record(&self, settlement: Settlement) -> Option<(Guard, NewRecord)> {
        let held = self.held?;
        let settlement = match settlement {
            // The handler speaks for its own attempt; what an abandoned one before it did is as open as ever.
            Settlement::Failed { no_effect } => Settlement::Failed { no_effect: no_effect && !held.effect_open },
            settlement => settlement,
        };
        let retention = self.idem.settings.policy.retention();
        let record = NewRecord::settled(held.fingerprint, held.token, self.running.epoch(), settlement, retention);
        Some((Guard::Owner(held.token), record))
    }
}

/// The shortest pause between two renewals that fail.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

impl<T: Timer> Idempotency<T> {
    /// How long a renewal is waited for.
    pub(super) fn renewal_timeout(&self) -> Duration {
        self.settings.call_timeout.min(self.settings.policy.lease() / 3)
    }

    /// Starts the clock of a lease that is about to be asked for. It is to be renewed after a third. A tenth is left
    /// for clocks that run at different speeds, and for the handler to react.
    pub(super) fn lease_clock(&self) -> LeaseClock<T> {
        let lease = self.settings.policy.lease();
        let sleep = |duration| Some(Box::pin(self.settings.timer.sleep(duration)));
        LeaseClock { due: sleep(lease / 3), over: sleep(lease - lease / 10) }
    }
}

impl<T: Timer> fmt::Debug for Attempt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("running", &self.running)
            .field("protected", &self.is_protected())
            .finish_non_exhaustive()
    }
}
