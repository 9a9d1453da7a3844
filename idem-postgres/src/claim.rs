//! Inserts: alone, and many in one statement.

use std::collections::HashMap;
use std::sync::Arc;

use idem_core::{Change, Found, Guard, Inserted, NewRecord, Replaced, Revision, ScopedKey, StoreError, StoreErrorKind};
use sqlx::postgres::PgRow;
use sqlx::{Row, ValueRef, query};

use crate::error::{Stage, after_no_write, is_of_one_row, store_error};
use crate::group::{Asked, Write};
use crate::queries::{CLAIM, CLAIM_MANY};
use crate::replace::{Expected, Replace};
use crate::row::{KeyColumns, RecordColumns, Seen, seen};
use crate::session::Statement;
use crate::writer::{Contended, ROUNDS, Writer, bytes_of};

/// An insert of one record.
pub(crate) struct Claim {
    pub(crate) key: ScopedKey,
    pub(crate) record: NewRecord,
    pub(crate) revision: Revision,
}

impl Write for Claim {
    type Answer = Inserted;

    fn key(&self) -> &ScopedKey {
        &self.key
    }

    fn bytes(&self) -> usize {
        // Claims have no answer. A settled record that is inserted is rare, and has one.
        bytes_of(&self.record)
    }

    async fn carry_out(&self, writer: &Writer) -> Result<Self::Answer, StoreError> {
        writer.insert(self).await
    }
}

/// What one look has met.
enum Met {
    Written,
    There(Found),
    /// An expired row, in this version.
    Expired(Revision),
    /// Somebody was faster, and the statement's snapshot does not show who.
    Nothing,
}

/// A statement that inserts one record: `claim.sql` or `insert.sql`, which take the same arguments.
pub(crate) fn inserting<'q>(
    sql: &'static str,
    key: &'q ScopedKey,
    record: &NewRecord,
    revision: Revision,
) -> Statement<'q> {
    let (key, record) = (KeyColumns::of(key), RecordColumns::of(record));
    query(sql)
        .bind(key.principal)
        .bind(key.route)
        .bind(key.key)
        .bind(record.profile)
        .bind(record.digest.to_vec())
        .bind(record.token)
        .bind(record.epoch)
        .bind(revision.number().cast_signed())
        .bind(record.state)
        .bind(record.answer.map(Vec::from))
        .bind(record.lease)
        .bind(record.retention)
        .bind(record.expected)
}

impl Writer {
    pub(crate) async fn insert(&self, claim: &Claim) -> Result<Inserted, StoreError> {
        let mut error = StoreError::not_written(StoreErrorKind::Contended, Contended);
        for _ in 0..ROUNDS {
            match self.insert_once(claim).await {
                Ok(Met::Written) => return Ok(Inserted::Done(claim.revision)),
                Ok(Met::There(found)) => return Ok(Inserted::Occupied(found)),
                Ok(Met::Nothing) => {}
                Ok(Met::Expired(over)) => {
                    if let Some(done) = self.insert_over(claim, over).await? {
                        return Ok(done);
                    }
                }
                // An open transaction has inserted the key, or writes its row. A row that can be seen says more.
                Err(locked) if locked.kind() == StoreErrorKind::Locked => {
                    if let Some(found) = self.find(&claim.key).await.map_err(after_no_write)? {
                        return Ok(Inserted::Occupied(found));
                    }
                    // Or the table is being extended, by whoever was slow at it.
                    error = locked;
                }
                Err(failed) => return Err(failed),
            }
        }
        Err(error)
    }

    async fn insert_once(&self, claim: &Claim) -> Result<Met, StoreError> {
        let statement = inserting(CLAIM, &claim.key, &claim.record, claim.revision);
        let rows = self.sessions.fetch(statement).await?;
        match rows.first() {
            Some(row) => met(row).map_err(|error| store_error(error, Stage::Sent)),
            None => Ok(Met::Nothing),
        }
    }

    /// Takes the place of an expired row. `None`: it is not there any more.
    async fn insert_over(&self, claim: &Claim, over: Revision) -> Result<Option<Inserted>, StoreError> {
        let replace = Replace {
            key: claim.key.clone(),
            guard: Guard::Unchanged(over),
            change: Change::Record(claim.record.clone()),
            revision: claim.revision,
            expected: Expected::Expired,
        };
        Ok(match self.replace(&replace).await? {
            Replaced::Done(revision) => Some(Inserted::Done(revision)),
            Replaced::Lost(Some(found)) => Some(Inserted::Occupied(found)),
            Replaced::Lost(None) => None,
        })
    }

    /// Carries a group out, and answers each of its claims.
    pub(crate) async fn insert_many(self: Arc<Self>, mut group: Vec<Asked<Claim>>) {
        if group.len() > 1 {
            group.sort_by(|a, b| KeyColumns::of(&a.write.key).cmp(&KeyColumns::of(&b.write.key)));
            group = match self.insert_at_once(&group).await {
                Ok(met) => answer(group, met),
                Err(error) if is_of_one_row(&error) => group,
                Err(error) => return group.into_iter().for_each(|asked| asked.answer(Err(error.clone()))),
            };
        }
        // What the statement could not decide is decided alone: an expired row, a lost race, a row that failed it.
        self.each_alone(group).await;
    }

    /// What each claim of the group has met.
    async fn insert_at_once(&self, group: &[Asked<Claim>]) -> Result<Vec<Met>, StoreError> {
        let keys: Vec<_> = group.iter().map(|asked| KeyColumns::of(&asked.write.key)).collect();
        let records: Vec<_> = group.iter().map(|asked| RecordColumns::of(&asked.write.record)).collect();
        let revisions: Vec<_> = group.iter().map(|asked| asked.write.revision.number().cast_signed()).collect();
        let statement = query(CLAIM_MANY)
            .bind(keys.iter().map(|key| key.principal).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| key.route).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| key.key).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.profile).collect::<Vec<_>>())
            .bind(records.iter().map(|record| &record.digest[..]).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.token).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.epoch).collect::<Vec<_>>())
            .bind(&revisions)
            .bind(records.iter().map(|record| record.state).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.answer.as_deref()).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.lease).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.retention).collect::<Vec<_>>())
            .bind(records.iter().map(|record| record.expected).collect::<Vec<_>>())
            .bind(self.group_lock_timeout.as_millis().max(1).to_string());
        let rows = self.sessions.fetch(statement).await?;
        met_by_each(&rows, &revisions).map_err(|error| store_error(error, Stage::Sent))
    }
}

/// Answers what is decided, and gives the rest back.
fn answer(group: Vec<Asked<Claim>>, met: Vec<Met>) -> Vec<Asked<Claim>> {
    let mut rest = Vec::new();
    for (asked, met) in group.into_iter().zip(met) {
        match met {
            Met::Written => {
                let revision = asked.write.revision;
                asked.answer(Ok(Inserted::Done(revision)));
            }
            Met::There(found) => asked.answer(Ok(Inserted::Occupied(found))),
            Met::Expired(_) | Met::Nothing => rest.push(asked),
        }
    }
    rest
}

/// A row of `claim.sql`: the moment of the look is there where a row was found, not where one was inserted.
fn met(row: &PgRow) -> Result<Met, sqlx::Error> {
    if row.try_get_raw("now")?.is_null() {
        return Ok(Met::Written);
    }
    Ok(match seen(row, 0)? {
        Seen::Alive(found) => Met::There(found),
        Seen::Expired(revision) => Met::Expired(revision),
    })
}

/// Rows of `claim_many.sql`: those found say their place in the group, those inserted their revision.
fn met_by_each(rows: &[PgRow], revisions: &[i64]) -> Result<Vec<Met>, sqlx::Error> {
    let places: HashMap<i64, usize> =
        revisions.iter().enumerate().map(|(place, revision)| (*revision, place)).collect();
    let mut met: Vec<_> = revisions.iter().map(|_| Met::Nothing).collect();
    for row in rows {
        let place: Option<i64> = row.try_get(0)?;
        let (place, what) = match place {
            Some(place) => {
                let what = match seen(row, 1)? {
                    Seen::Alive(found) => Met::There(found),
                    Seen::Expired(revision) => Met::Expired(revision),
                };
                (usize::try_from(place - 1).ok(), what)
            }
            None => (places.get(&row.try_get(2)?).copied(), Met::Written),
        };
        if let Some(slot) = place.and_then(|place| met.get_mut(place)) {
            *slot = what;
        }
    }
    Ok(met)
}
