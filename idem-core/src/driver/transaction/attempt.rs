use core::fmt;
use core::pin::pin;
use core::time::Duration;

use futures_util::future::{Either, select};

use super::OneTransaction;
use crate::driver::settle::{Place, Written};
use crate::driver::{Event, Running, Timer};
use crate::machine::{AfterCommit, commit_lost, locked};
use crate::{
    Answer, Certainty, Committed, Epoch, Fingerprint, Found, InPlaceOfMine, NewRecord, Refusal, Revision, ScopedKey,
    Settlement, StoreError, StoreErrorKind, Token, TransactionalStore,
};

/// One execution of an operation whose transaction locks its key.
///
/// It ends the transaction that it came with, in one of three ways. Dropped together with its transaction, it leaves
/// nothing: everything is rolled back, and a retry runs.
#[must_use = "the transaction is to be ended through its attempt; dropped, it rolls back"]
pub struct TransactionAttempt<S, T> {
    driver: OneTransaction<S, T>,
    running: Running,
    token: Token,
    fingerprint: Fingerprint,
    /// The version that its record replaces.
    over: Option<Revision>,
}

/// What goes out to the client whose operation wanted to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concluded {
    /// Business writes and record are durable: the operation's own answer.
    Done,
    /// A record was in the way, and everything was rolled back. The answer of the attempt that made it.
    Replay(Answer),
    /// A record was in the way, and everything was rolled back. The request is refused.
    Refuse(Refusal),
}

/// The waits between two looks at what became of a commit whose reply was lost.
const FIRST_LOOK: Duration = Duration::from_millis(25);
const LAST_LOOK: Duration = Duration::from_millis(500);

impl<S: TransactionalStore + 'static, T: Timer> TransactionAttempt<S, T> {
    pub(super) fn new(
        driver: OneTransaction<S, T>,
        key: ScopedKey,
        epoch: Epoch,
        token: Token,
        fingerprint: Fingerprint,
        over: Option<Revision>,
    ) -> Self {
        Self { driver, running: Running::new(key, epoch), token, fingerprint, over }
    }

    /// What the operation gets to see. Its lease is never lost: there is none.
    #[must_use]
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Commits the business writes together with the record that retries get `answer` from.
    ///
    /// A commit whose reply was lost is looked up, for at most the time of a store call.
    ///
    /// # Outcomes
    ///
    /// See [`Concluded`]. The operation's own answer may go out after `Done`, and after nothing else.
    ///
    /// # Errors
    ///
    /// Of certainty *not written* where everything was rolled back: of the kind
    /// [`Aborted`](StoreErrorKind::Aborted) where the transaction had been aborted before, because an error of the
    /// database was passed over; a retry runs. Of certainty *unknown* where nobody can tell yet: a retry finds out.
    ///
    /// # Cost
    ///
    /// One call of the store.
    ///
    /// # Cancellation
    ///
    /// Committed or rolled back, both whole; a retry finds out.
    pub async fn commit(self, tx: S::Tx, answer: Answer) -> Result<Concluded, StoreError> {
        let (store, key, record) = (&self.driver.store, self.running.key(), self.completed(answer));
        match self.driver.settings.bounded(store.commit(tx, key, &record, self.over)).await {
            Ok(Committed::Done) => Ok(Concluded::Done),
            Ok(Committed::Conflict(found)) => self
                .conclude(found.as_ref(), &record)
                .unwrap_or_else(|| Err(StoreError::bare(StoreErrorKind::Contended, Certainty::NotWritten))),
            Err(error) if error.certainty() == Certainty::NotWritten => Err(error),
            Err(error) => self.look_up(&record, error).await,
        }
    }

    /// Rolls the business writes back and remembers `answer` all the same, in a write of its own: for an answer that
    /// completes the operation without having done anything, such as a refusal that will not change.
    ///
    /// Where the write fails, that is told to the [observer](crate::Observer) and to nobody else: nothing has happened,
    /// and a retry runs.
    ///
    /// # Outcomes
    ///
    /// What goes out to the client: its own answer; or, where another got the key between the two steps, that one's
    /// answer for the same request, or *in progress*.
    ///
    /// # Cost
    ///
    /// Two calls of the store.
    ///
    /// # Cancellation
    ///
    /// Rolled back; the answer is remembered or not.
    pub async fn roll_back_and_remember(self, tx: S::Tx, answer: Answer) -> InPlaceOfMine {
        self.end(tx).await;
        let (key, record) = (self.running.key(), self.completed(answer));
        let place = self.over.map_or(Place::Vacancy, |revision| Place::Over(revision, self.running.epoch()));
        match self.driver.settings.write_settled_to(&*self.driver.store, place, key, &record).await {
            Ok(Written::Done | Written::NothingThere) => InPlaceOfMine::OwnAnswer,
            Ok(Written::LeaseLost(instead)) => instead,
            // Another transaction was quicker.
            Err(error) if error.kind() == StoreErrorKind::Locked => InPlaceOfMine::Refuse(locked()),
            Err(error) => {
                self.observe(&Event::NotRemembered(error));
                InPlaceOfMine::OwnAnswer
            }
        }
    }

    /// Rolls the business writes back and leaves the key as it was: nothing has happened, and a retry runs.
    ///
    /// Waits for the rollback, so that the retry does not find the key locked; but no longer than a store call may
    /// take. A rollback that fails has lost its connection, and the database does the rest.
    ///
    /// # Cost
    ///
    /// One call of the store.
    ///
    /// # Cancellation
    ///
    /// Rolled back, a moment later.
    pub async fn roll_back(self, tx: S::Tx) {
        self.end(tx).await;
    }

    async fn end(&self, tx: S::Tx) {
        // Without an answer, the connection is gone and the transaction with it: there is nothing to be done about it.
        let _ = self.driver.settings.bounded(self.driver.store.roll_back(tx)).await;
    }

    fn completed(&self, answer: Answer) -> NewRecord {
        let retention = self.driver.settings.settings.policy.retention();
        let settlement = Settlement::Completed(answer);
        NewRecord::settled(self.fingerprint, self.token, self.running.epoch(), settlement, retention)
    }

    /// Finds out what became of a commit whose reply was lost. Whoever gets the lock sees it for good.
    async fn look_up(&self, record: &NewRecord, lost: StoreError) -> Result<Concluded, StoreError> {
        self.observe(&Event::CommitUnknown(lost.clone()));
        let settings = &self.driver.settings.settings;
        let mut over = pin!(settings.timer.sleep(settings.call_timeout));
        let mut pause = FIRST_LOOK;
        loop {
            if let Either::Left((Some(found), _)) =
                select(pin!(self.driver.look_after_the_last(self.running.key())), over.as_mut()).await
            {
                let concluded = self.conclude(found.as_ref(), record);
                return concluded.unwrap_or_else(|| Err(lost.with_nothing_written()));
            }
            match select(pin!(settings.timer.sleep(pause)), over.as_mut()).await {
                Either::Left(_) => pause = (pause * 2).min(LAST_LOOK),
                Either::Right(_) => return Err(lost),
            }
        }
    }

    /// `None` where nothing was written and nothing stands in the way of the next try.
    fn conclude(&self, found: Option<&Found>, record: &NewRecord) -> Option<Result<Concluded, StoreError>> {
        match commit_lost(found, record.record(), &self.driver.settings.settings.policy) {
            AfterCommit::Done => Some(Ok(Concluded::Done)),
            AfterCommit::Replay(answer) => Some(Ok(Concluded::Replay(answer))),
            AfterCommit::Refuse(refusal) => Some(Ok(Concluded::Refuse(refusal))),
            AfterCommit::NothingWritten => None,
        }
    }

    fn observe(&self, event: &Event) {
        self.driver.settings.settings.observer.observe(self.running.key(), event);
    }
}

impl<S, T> fmt::Debug for TransactionAttempt<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionAttempt").field("running", &self.running).finish_non_exhaustive()
    }
}
