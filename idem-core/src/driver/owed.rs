//! Writes that must still happen although nobody waits for them any more.

use core::pin::pin;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event_listener::Event;
use futures_util::future::{Either, select};

use super::attempt::Held;
use super::settle::Written;
use super::{Event as Observed, Idempotency, Task, Timer};
use crate::{Epoch, NewRecord, ScopedKey, Settlement, State, StoreError};

/// Starts a task that outlives its caller.
pub(super) type Spawner = Arc<dyn Fn(Task) + Send + Sync>;

/// Writes that may be owed at once. A store that is down for long must not fill the memory of its clients.
const MOST_OWED: usize = 4096;

/// Bytes of answers that may be owed at once. Above it, an answer is owed as *not kept*: its retries are then
/// refused, which is worse than a replay and better than a second run.
const MOST_OWED_BYTES: usize = 64 << 20;

/// The waits between two tries.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// How often a claim that is to be released may be missing before that is believed: its write may still be under way.
/// With the pauses above, six looks take 6.3 s.
const LOOKS_AT_VACANCY: u32 = 6;

/// A settled record that its store has not acknowledged.
pub(super) struct OwedWrite {
    key: ScopedKey,
    record: NewRecord,
    looks: u32,
}

impl OwedWrite {
    pub(super) fn new(key: ScopedKey, record: NewRecord) -> Self {
        Self { key, record, looks: 0 }
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
    count: usize,
    bytes: usize,
    queue: VecDeque<OwedWrite>,
}

impl Owed {
    pub(super) fn count(&self) -> usize {
        self.ledger().count
    }

    /// A panic elsewhere leaves plain numbers and a queue: both stay usable.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one write; says whether there is any.
    fn take_in(&self, write: &mut OwedWrite) -> bool {
        let mut ledger = self.ledger();
        if ledger.count >= MOST_OWED {
            return false;
        }
        if ledger.bytes + write.size() > MOST_OWED_BYTES {
            write.record = write.record.clone().without_answer();
        }
        ledger.count += 1;
        ledger.bytes += write.size();
        true
    }

    fn strike_out(&self, write: &OwedWrite) {
        let mut ledger = self.ledger();
        ledger.count -= 1;
        ledger.bytes -= write.size();
    }
}

impl<T: Timer> Idempotency<T> {
    /// Owes the release of a claim that may stand and whose handler never ran.
    pub(super) fn owe_release(&self, key: &ScopedKey, claim: Held, epoch: Epoch) {
        let retention = self.settings.policy.retention();
        let released = NewRecord::settled(claim.fingerprint, claim.token, epoch, Settlement::Released, retention);
        self.owe(OwedWrite::new(key.clone(), released));
    }

    pub(super) fn owe(&self, mut write: OwedWrite) {
        if !self.settings.owed.take_in(&mut write) {
            return self.settings.observer.observe(&write.key, &Observed::OwedWriteGivenUp);
        }
        match &self.settings.spawner {
            Some(spawn) => spawn(Box::pin(self.clone().write_until_done(write))),
            None => self.settings.owed.ledger().queue.push_back(write),
        }
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

    /// Tries every owed write once, for callers without a spawner; gives back how many are still owed.
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
            if self.try_once(write).await.is_ok_and(|done| done) {
                trying.strike_out();
            }
        }
        self.owed_writes()
    }

    async fn write_until_done(self, mut write: OwedWrite) {
        let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
        loop {
            let hurry = self.settings.owed.hurry.listen();
            match select(pin!(self.settings.timer.sleep(pause)), hurry).await {
                Either::Left(_) => waited += pause,
                Either::Right(_) => pause = FIRST_PAUSE,
            }
            match self.try_once(&mut write).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => self.settings.observer.observe(&write.key, &Observed::SettlingRetried(error)),
            }
            if waited >= self.settings.policy.retention() {
                self.settings.observer.observe(&write.key, &Observed::OwedWriteGivenUp);
                break;
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
        self.settings.owed.strike_out(&write);
    }

    /// Whether the write is done with.
    async fn try_once(&self, write: &mut OwedWrite) -> Result<bool, StoreError> {
        match self.write_settled(&write.key, &write.record).await? {
            Written::Done { was_vacant: true } => {
                write.looks += 1;
                Ok(write.looks >= LOOKS_AT_VACANCY)
            }
            Written::Done { .. } | Written::LeaseLost(_) => Ok(true),
        }
    }
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
