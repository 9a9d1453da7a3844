use super::owed::OwedWrite;
use super::{Event, Idempotency, ROUNDS, Settled, Timer};
use crate::machine::{AfterLost, settle_lost};
use crate::{
    Certainty, Change, Epoch, Found, Guard, InPlaceOfMine, Inserted, NewRecord, Replaced, Revision, ScopedKey,
    StoreError, StoreErrorKind,
};

/// A settling write on its way. Dropped before it has its answer, it is owed: the outcome of an operation that ran
/// must not vanish.
pub(super) struct Settling<'a, T: Timer> {
    idem: &'a Idempotency<T>,
    key: &'a ScopedKey,
    record: Option<NewRecord>,
}

impl<'a, T: Timer> Settling<'a, T> {
    pub(super) fn new(idem: &'a Idempotency<T>, key: &'a ScopedKey, record: NewRecord) -> Self {
        Self { idem, key, record: Some(record) }
    }

    pub(super) async fn settle(mut self) -> Settled {
        let Some(record) = &self.record else { return Settled::Done };
        match self.idem.write_settled(self.key, record).await {
            Ok(settled) => {
                self.record = None;
                match settled {
                    Written::Done { .. } => Settled::Done,
                    Written::LeaseLost(instead) => Settled::LeaseLost(instead),
                }
            }
            Err(error) => {
                self.idem.settings.observer.observe(self.key, &Event::SettlingRetried(error));
                Settled::Owed
            }
        }
    }
}

impl<T: Timer> Drop for Settling<'_, T> {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.idem.owe(OwedWrite::new(self.key.clone(), record));
        }
    }
}

/// What became of one settling write that the store has answered.
pub(super) enum Written {
    Done {
        /// There was no record to be released.
        was_vacant: bool,
    },
    LeaseLost(InPlaceOfMine),
}

/// Where the settled record goes.
enum Place {
    Claim,
    Vacancy,
    Released(Revision, Epoch),
}

impl<T: Timer> Idempotency<T> {
    /// Writes a settled record as the owner of its claim, or wherever the machine sends it instead.
    pub(super) async fn write_settled(&self, key: &ScopedKey, record: &NewRecord) -> Result<Written, StoreError> {
        let mut place = Place::Claim;
        for _ in 0..ROUNDS {
            let Some(found) = self.write_at(key, record, &place).await? else {
                return Ok(Written::Done { was_vacant: false });
            };
            place = match settle_lost(found.as_ref(), record.record()) {
                AfterLost::Done => return Ok(Written::Done { was_vacant: found.is_none() }),
                AfterLost::Again => Place::Claim,
                AfterLost::Insert => Place::Vacancy,
                AfterLost::Over(revision, epoch) => Place::Released(revision, epoch),
                AfterLost::LeaseLost(instead) => {
                    self.settings.observer.observe(key, &Event::LeaseLost);
                    return Ok(Written::LeaseLost(instead));
                }
            };
        }
        Err(StoreError::bare(StoreErrorKind::Contended, Certainty::NotWritten))
    }

    /// `None`: it is written; otherwise what stands in its place.
    async fn write_at(
        &self,
        key: &ScopedKey,
        record: &NewRecord,
        place: &Place,
    ) -> Result<Option<Option<Found>>, StoreError> {
        let store = &self.settings.store;
        let (guard, change) = match place {
            Place::Vacancy => {
                return Ok(match self.bounded(store.insert(key, record)).await? {
                    Inserted::Done(_) => None,
                    Inserted::Occupied(found) => Some(Some(found)),
                });
            }
            Place::Claim => (Guard::Owner(record.record().token), Change::Record(record.clone())),
            Place::Released(revision, epoch) => {
                (Guard::Unchanged(*revision), Change::Record(record.clone().with_epoch(*epoch)))
            }
        };
        Ok(match self.bounded(store.replace(key, guard, &change)).await? {
            Replaced::Done(_) => None,
            Replaced::Lost(found) => Some(found),
        })
    }
}
