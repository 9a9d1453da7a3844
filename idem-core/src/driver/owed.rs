//! Writes that must still happen although nobody waits for them any more.

use core::pin::pin;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event_listener::Event;
use futures_util::future::{Either, select};

use super::settle::Written;
use super::{Event as Observed, Idempotency, Task, Timer};
use crate::{Epoch, Fingerprint, NewRecord, ScopedKey, Settlement, State, StoreError, Token};

/// Starts a task that outlives its caller.
pub(super) type Spawner = Arc<dyn Fn(Task) + Send + Sync>;

/// Outcomes that may be owed at once. A store that is down for long must not fill the memory of its clients.
const MOST_OUTCOMES: usize = 4096;

/// Releases that may be owed at once, apart from the outcomes: while the store is down, every request that comes owes a
/// release, and what has really happened must not be crowded out by what has not.
const MOST_RELEASES: usize = 1024;

/// Bytes of answers that may be owed at once. Above it, an answer is owed as *not kept*: its retries are then
/// refused, which is worse than a replay and better than a second run.
const MOST_OWED_BYTES: usize = 64 << 20;

/// The waits between two tries.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// How long a release looks for a claim of its own, beside the time that a store call may take, before it is believed
/// that there is none: the claim may still be under way, in a socket or in a server that stands still.
const LONGEST_WAY: Duration = Duration::from_secs(5);

/// How often it looks where no time is known.
const LOOKS_FOR_A_CLAIM: u32 = 6;

/// A settled record that its store has not acknowledged.
struct OwedWrite {
    key: ScopedKey,
    record: NewRecord,
    looks: u32,
}

impl OwedWrite {
    fn is_release(&self) -> bool {
        self.record.record().state == State::Released
    }

    fn size(&self) -> usize {
        match &self.record.record().state {
            State::Completed(answer) => answer.size(),
            _ => 0,
        }
    }
}

/// What is owed, in numbers, and the queue for drivers without a spawner.
#[derive(Default)]
pub(super) struct Owed {
    ledger: Mutex<Ledger>,
    hurry: Event,
}

#[derive(Default)]
struct Ledger {
    outcomes: usize,
    releases: usize,
    bytes: usize,
    queue: VecDeque<OwedWrite>,
}

impl Owed {
    pub(super) fn count(&self) -> usize {
        let ledger = self.ledger();
        ledger.outcomes + ledger.releases
    }

    /// A panic elsewhere leaves plain numbers and a queue: both stay usable.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one write; says whether there is any.
    fn take_in(&self, write: &mut OwedWrite) -> bool {
        let mut ledger = self.ledger();
        let (count, most) = ledger.count_of(write);
        if *count >= most {
            return false;
        }
        *count += 1;
        if ledger.bytes + write.size() > MOST_OWED_BYTES {
            write.record = write.record.clone().without_answer();
        }
        ledger.bytes += write.size();
        true
    }

    fn strike_out(&self, write: &OwedWrite) {
        let mut ledger = self.ledger();
        *ledger.count_of(write).0 -= 1;
        ledger.bytes -= write.size();
    }
}

impl Ledger {
    /// How many of this kind are owed, and how many may be.
    fn count_of(&mut self, write: &OwedWrite) -> (&mut usize, usize) {
        if write.is_release() { (&mut self.releases, MOST_RELEASES) } else { (&mut self.outcomes, MOST_OUTCOMES) }
    }
}

impl<T: Timer> Idempotency<T> {
    /// Owes the release of a claim that may stand and whose handler never ran.
    pub(super) fn owe_release(&self, key: &ScopedKey, fingerprint: Fingerprint, token: Token, epoch: Epoch) {
        let retention = self.settings.policy.retention();
        let released = NewRecord::settled(fingerprint, token, epoch, Settlement::Released, retention);
        self.owe(key, released);
    }

    /// Says whether there was room; if not, the observer was told.
    pub(super) fn owe(&self, key: &ScopedKey, record: NewRecord) -> bool {
        let mut write = OwedWrite { key: key.clone(), record, looks: 0 };
        if !self.settings.owed.take_in(&mut write) {
            self.settings.observer.observe(&write.key, &Observed::OwedWriteGivenUp);
            return false;
        }
        match &self.settings.spawner {
            Some(spawn) => spawn(Box::pin(self.clone().write_until_done(write))),
            None => self.settings.owed.ledger().queue.push_back(write),
        }
        true
    }

    /// Settling writes that the store has not acknowledged yet.
    #[must_use]
    pub fn owed_writes(&self) -> usize {
        self.settings.owed.count()
    }

    /// Tries the owed writes of the background at once, instead of after their pauses. For a shutdown that waits for
    /// them.
    pub fn hurry_owed_writes(&self) {
        self.settings.owed.hurry.notify(usize::MAX);
    }

    /// Tries every owed write once, for callers without a spawner; gives back how many are still owed. To be called
    /// every second or so while there are any: a release that finds nothing is tried six times before that is believed.
    ///
    /// # Cancellation
    ///
    /// The write that is under way goes back to the queue.
    pub async fn work_off_owed(&self) -> usize {
        let waiting = self.settings.owed.ledger().queue.len();
        for _ in 0..waiting {
            let Some(write) = self.settings.owed.ledger().queue.pop_front() else { break };
            let mut trying = Trying { owed: &self.settings.owed, write: Some(write) };
            let Some(write) = &mut trying.write else { break };
            let done = match self.try_once(write).await {
                Ok(Tried::Done) => true,
                Ok(Tried::NothingThere) => {
                    write.looks += 1;
                    write.looks >= LOOKS_FOR_A_CLAIM
                }
                Err(_) => false,
            };
            if done {
                trying.strike_out();
            }
        }
        self.owed_writes()
    }

    async fn write_until_done(self, write: OwedWrite) {
        let owed = &self.settings.owed;
        let longest_pause = self.longest_pause(&write);
        let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
        let mut hurry = owed.hurry.listen();
        loop {
            match select(pin!(self.settings.timer.sleep(pause)), hurry).await {
                Either::Left(_) => waited += pause,
                Either::Right(_) => pause = FIRST_PAUSE,
            }
            // Heard also while the write is tried.
            hurry = owed.hurry.listen();
            match self.try_once(&write).await {
                Ok(Tried::Done) => break,
                Ok(Tried::NothingThere) if waited >= self.settings.call_timeout + LONGEST_WAY => break,
                Ok(Tried::NothingThere) => {}
                Err(error) => self.settings.observer.observe(&write.key, &Observed::SettlingRetried(error)),
            }
            if waited >= self.settings.policy.retention() {
                self.settings.observer.observe(&write.key, &Observed::OwedWriteGivenUp);
                break;
            }
            pause = (pause * 2).min(longest_pause);
        }
        owed.strike_out(&write);
    }

    /// An outcome is tried as often as its lease was renewed: while it is owed, nobody else renews, and a policy that
    /// runs abandoned operations again must not come first once the store is back.
    fn longest_pause(&self, write: &OwedWrite) -> Duration {
        if write.is_release() {
            return LAST_PAUSE;
        }
        (self.settings.policy.lease() / 3).clamp(FIRST_PAUSE, LAST_PAUSE)
    }

    async fn try_once(&self, write: &OwedWrite) -> Result<Tried, StoreError> {
        Ok(match self.write_settled(&write.key, &write.record).await? {
            Written::NothingThere | Written::LeaseLost(_) if write.is_release() => Tried::NothingThere,
            Written::Done | Written::NothingThere => Tried::Done,
            Written::LeaseLost(_) => {
                self.settings.observer.observe(&write.key, &Observed::LeaseLost);
                Tried::Done
            }
        })
    }
}

/// What one try at an owed write has found.
enum Tried {
    Done,
    /// A release has found no claim of its own, so far.
    NothingThere,
}

/// An owed write that is being tried; it goes back to the queue unless it is struck out.
struct Trying<'a> {
    owed: &'a Owed,
    write: Option<OwedWrite>,
}

impl Trying<'_> {
    fn strike_out(&mut self) {
        if let Some(write) = self.write.take() {
            self.owed.strike_out(&write);
        }
    }
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        if let Some(write) = self.write.take() {
            self.owed.ledger().queue.push_back(write);
        }
    }
}
