use super::{Event, Idempotency, ROUNDS, Running, Settled, Timer};
use crate::machine::{AfterLost, settle_lost};
use crate::{
    Certainty, Change, Content, Epoch, Found, Guard, InPlaceOfMine, Inserted, KeyStore, NewRecord, Replaced, Revision,
    ScopedKey, StoreError, StoreErrorKind,
};

/// A settling write on its way. Dropped before it has its answer, it is owed: the outcome of an operation that ran
/// must not vanish.
pub(super) struct Settling<'a, T: Timer> {
    idem: &'a Idempotency<T>,
    running: &'a Running,
    record: Option<NewRecord>,
}

impl<'a, T: Timer> Settling<'a, T> {
    pub(super) fn new(idem: &'a Idempotency<T>, running: &'a Running, record: NewRecord) -> Self {
        Self { idem, running, record: Some(record) }
    }

    pub(super) async fn settle(mut self) -> Settled {
        let Some(record) = &self.record else { return Settled::Done };
        match self.idem.write_settled(self.running.key(), record).await {
            Ok(written) => {
                self.record = None;
                match written {
                    Written::Done | Written::NothingThere => Settled::Done,
                    Written::LeaseLost(instead) => {
                        // A renewal may have found it before.
                        if self.running.signal_lost() {
                            self.observe(&Event::LeaseLost);
                        }
                        Settled::LeaseLost(instead)
                    }
                }
            }
            Err(error) => {
                self.observe(&Event::SettlingRetried(error));
                if self.owe() { Settled::Owed } else { Settled::GivenUp }
            }
        }
    }

    /// Says whether the write is owed, or done with.
    fn owe(&mut self) -> bool {
        self.record.take().is_none_or(|record| self.idem.owe(self.running.key(), record))
    }

    fn observe(&self, event: &Event) {
        self.idem.settings.observer.observe(self.running.key(), event);
    }
}

impl<T: Timer> Drop for Settling<'_, T> {
    fn drop(&mut self) {
        self.owe();
    }
}

/// What became of one settling write that the store has answered.
pub(super) enum Written {
    /// The record says it.
    Done,
    /// A release has found nothing of its own to release.
    NothingThere,
    LeaseLost(InPlaceOfMine),
}

/// Where the settled record goes.
pub(super) enum Place {
    Claim,
    Vacancy,
    Over(Revision, Epoch),
}

impl<T: Timer> Idempotency<T> {
    /// Writes a settled record as the owner of its claim, or wherever the machine sends it instead.
    pub(super) async fn write_settled(&self, key: &ScopedKey, record: &NewRecord) -> Result<Written, StoreError> {
        self.write_settled_to(&*self.settings.store, Place::Claim, key, record).await
    }

    /// Writes a settled record to `place`, or wherever the machine sends it instead.
    pub(super) async fn write_settled_to(
        &self,
        store: &dyn KeyStore,
        mut place: Place,
        key: &ScopedKey,
        record: &NewRecord,
    ) -> Result<Written, StoreError> {
        for _ in 0..ROUNDS {
            let Some(found) = self.write_at(store, key, record, &place).await? else {
                return Ok(Written::Done);
            };
            place = match settle_lost(found.as_ref(), record.record()) {
                AfterLost::Done if is_own(found.as_ref(), record) => return Ok(Written::Done),
                AfterLost::Done => return Ok(Written::NothingThere),
                AfterLost::Again => Place::Claim,
                AfterLost::Insert => Place::Vacancy,
                AfterLost::Over(revision, epoch) => Place::Over(revision, epoch),
                AfterLost::LeaseLost(instead) => return Ok(Written::LeaseLost(instead)),
            };
        }
        Err(StoreError::bare(StoreErrorKind::Contended, Certainty::NotWritten))
    }

    /// `None`: it is written; otherwise what stands in its place.
    async fn write_at(
        &self,
        store: &dyn KeyStore,
        key: &ScopedKey,
        record: &NewRecord,
        place: &Place,
    ) -> Result<Option<Option<Found>>, StoreError> {
        let (guard, change) = match place {
            Place::Vacancy => {
                return Ok(match self.bounded(store.insert(key, record)).await? {
                    Inserted::Done(_) => None,
                    Inserted::Occupied(found) => Some(Some(found)),
                });
            }
            Place::Claim => (Guard::Owner(record.record().token), Change::Record(record.clone())),
            Place::Over(revision, epoch) => {
                (Guard::Unchanged(*revision), Change::Record(record.clone().with_epoch(*epoch)))
            }
        };
        Ok(match self.bounded(store.replace(key, guard, &change)).await? {
            Replaced::Done(_) => None,
            Replaced::Lost(found) => Some(found),
        })
    }
}

/// Whether what was found was written by the attempt itself.
fn is_own(found: Option<&Found>, record: &NewRecord) -> bool {
    found.is_some_and(|found| match &found.content {
        Content::Readable(theirs) => theirs.token == record.record().token,
        Content::Unreadable(_) => false,
    })
}
