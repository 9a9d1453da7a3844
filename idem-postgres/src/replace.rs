//! Replacements: alone, and many in one statement.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use idem_core::{Change, Content, Found, Guard, Replaced, Revision, ScopedKey, State, StoreError, StoreErrorKind};
use sqlx::postgres::types::PgInterval;
use sqlx::{Row, query};
use uuid::Uuid;

use crate::error::{Stage, after_no_write, is_of_one_row, store_error};
use crate::group::{Asked, Write};
use crate::queries::{REPLACE, REPLACE_MANY};
use crate::row::{KeyColumns, RecordColumns, interval, uuid};
use crate::session::Statement;
use crate::writer::{Contended, ROUNDS, Writer, bytes_of};

/// A write over the row of a key.
pub(crate) struct Replace {
    pub(crate) key: ScopedKey,
    pub(crate) guard: Guard,
    pub(crate) change: Change,
    pub(crate) revision: Revision,
    pub(crate) expected: Expected,
}

/// What the row is to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Alive,
    /// As good as absent: an insert takes its place.
    Expired,
}

impl Write for Replace {
    type Answer = Replaced;

    fn key(&self) -> &ScopedKey {
        &self.key
    }

    fn bytes(&self) -> usize {
        match &self.change {
            Change::Record(record) => bytes_of(record),
            Change::Renew { .. } => 0,
        }
    }

    async fn carry_out(&self, writer: &Writer) -> Result<Self::Answer, StoreError> {
        writer.replace(self).await
    }
}

/// The columns of a guarded change. A renewal has none of a record.
struct Columns {
    owner: Option<Uuid>,
    seen: Option<i64>,
    is_to_be_alive: bool,
    profile: Option<i64>,
    digest: Option<[u8; 32]>,
    token: Option<Uuid>,
    epoch: Option<i64>,
    state: Option<i16>,
    answer: Option<Bytes>,
    lease: PgInterval,
    retention: PgInterval,
    expected: PgInterval,
    revision: i64,
}

impl Columns {
    fn of(replace: &Replace) -> Self {
        let (owner, seen) = match replace.guard {
            Guard::Owner(token) => (Some(uuid(token)), None),
            Guard::Unchanged(revision) => (None, Some(revision.number().cast_signed())),
        };
        let is_to_be_alive = replace.expected == Expected::Alive;
        let revision = replace.revision.number().cast_signed();
        match &replace.change {
            Change::Record(new) => {
                let record = RecordColumns::of(new);
                Self {
                    owner,
                    seen,
                    is_to_be_alive,
                    profile: Some(record.profile),
                    digest: Some(record.digest),
                    token: Some(record.token),
                    epoch: Some(record.epoch),
                    state: Some(record.state),
                    answer: record.answer,
                    lease: record.lease,
                    retention: record.retention,
                    expected: record.expected,
                    revision,
                }
            }
            Change::Renew { lease, retention } => Self {
                owner,
                seen,
                is_to_be_alive,
                profile: None,
                digest: None,
                token: None,
                epoch: None,
                state: None,
                answer: None,
                lease: interval(*lease),
                retention: interval(*retention),
                expected: interval(*retention),
                revision,
            },
        }
    }

    fn digest(&self) -> Option<&[u8]> {
        self.digest.as_ref().map(|digest| &digest[..])
    }
}

/// The statement that makes one replacement.
pub(crate) fn replacing(replace: &Replace) -> Statement<'_> {
    let (key, columns) = (KeyColumns::of(&replace.key), Columns::of(replace));
    query(REPLACE)
        .bind(key.principal)
        .bind(key.route)
        .bind(key.key)
        .bind(columns.owner)
        .bind(columns.seen)
        .bind(columns.is_to_be_alive)
        .bind(columns.profile)
        .bind(columns.digest().map(<[u8]>::to_vec))
        .bind(columns.token)
        .bind(columns.epoch)
        .bind(columns.state)
        .bind(columns.answer.map(Vec::from))
        .bind(columns.lease)
        .bind(columns.retention)
        .bind(columns.expected)
        .bind(columns.revision)
}

/// Whether the guard fits what is there: a row that fits and was not written was held by somebody for a moment.
pub(crate) fn still_fits(replace: &Replace, found: Option<&Found>) -> bool {
    let Some(found) = found else { return false };
    let Content::Readable(record) = &found.content else { return false };
    let is_claim = record.state == State::InProgress;
    let fits = match replace.guard {
        Guard::Owner(token) => is_claim && record.token == token,
        Guard::Unchanged(revision) => found.revision == revision,
    };
    fits && replace.expected == Expected::Alive && (is_claim || matches!(replace.change, Change::Record(_)))
}

impl Writer {
    pub(crate) async fn replace(&self, replace: &Replace) -> Result<Replaced, StoreError> {
        let mut error = StoreError::not_written(StoreErrorKind::Contended, Contended);
        for _ in 0..ROUNDS {
            match self.sessions.fetch(replacing(replace)).await {
                Ok(written) if !written.is_empty() => return Ok(Replaced::Done(replace.revision)),
                Ok(_) => {}
                // Somebody writes the row. Once he has, the guard may not fit any more, which says more than the wait.
                Err(locked) if locked.kind() == StoreErrorKind::Locked => error = locked,
                Err(failed) => return Err(failed),
            }
            let found = self.find(&replace.key).await.map_err(after_no_write)?;
            if !still_fits(replace, found.as_ref()) {
                return Ok(Replaced::Lost(found));
            }
        }
        Err(error)
    }

    /// Carries a group out, and answers each of its replacements.
    pub(crate) async fn replace_many(self: Arc<Self>, mut group: Vec<Asked<Replace>>) {
        if group.len() > 1 {
            group.sort_by(|a, b| KeyColumns::of(&a.write.key).cmp(&KeyColumns::of(&b.write.key)));
            group = match self.replace_at_once(&group).await {
                Ok(written) => answer(group, &written),
                Err(error) if is_of_one_row(&error) => group,
                Err(error) => return group.into_iter().for_each(|asked| asked.answer(Err(error.clone()))),
            };
        }
        // What was not written is looked at alone: its guard does not hold, or somebody holds its row.
        self.each_alone(group).await;
    }

    /// The revisions that were written.
    async fn replace_at_once(&self, group: &[Asked<Replace>]) -> Result<HashSet<i64>, StoreError> {
        let keys: Vec<_> = group.iter().map(|asked| KeyColumns::of(&asked.write.key)).collect();
        let rows: Vec<_> = group.iter().map(|asked| Columns::of(&asked.write)).collect();
        let statement = query(REPLACE_MANY)
            .bind(keys.iter().map(|key| key.principal).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| key.route).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| key.key).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.owner).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.seen).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.is_to_be_alive).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.profile).collect::<Vec<_>>())
            .bind(rows.iter().map(Columns::digest).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.token).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.epoch).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.state).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.answer.as_deref()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.lease).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.retention).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.expected).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.revision).collect::<Vec<_>>());
        let written = self.sessions.fetch(statement).await?;
        let revisions: Result<_, _> = written.iter().map(|row| row.try_get(0)).collect();
        revisions.map_err(|error| store_error(error, Stage::Sent))
    }
}

/// Answers what was written, and gives the rest back.
fn answer(group: Vec<Asked<Replace>>, written: &HashSet<i64>) -> Vec<Asked<Replace>> {
    let mut rest = Vec::new();
    for asked in group {
        let revision = asked.write.revision;
        if written.contains(&revision.number().cast_signed()) {
            asked.answer(Ok(Replaced::Done(revision)));
        } else {
            rest.push(asked);
        }
    }
    rest
}
