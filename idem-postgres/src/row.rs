//! A record as columns, there and back.

use core::time::Duration;

use bytes::Bytes;
use idem_core::{
    Answer, Content, Epoch, Fingerprint, Found, NewRecord, ProfileId, Record, Revision, ScopedKey, State, Token,
    Unreadable,
};
use sqlx::decode::Decode;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Postgres, Row, Type};
use uuid::Uuid;

/// The version of the row's own layout. The answer has that of [`idem_core::wire`] besides.
const FORMAT: i16 = 1;

const IN_PROGRESS: i16 = 1;
const COMPLETED: i16 = 2;
const FAILED: i16 = 3;
const FAILED_WITHOUT_EFFECT: i16 = 4;
const RELEASED: i16 = 5;

/// Every column that the store reads or writes; the probe looks for them.
pub(crate) const COLUMNS: [&str; 15] = [
    "claimed_at",
    "sweep_at",
    "profile",
    "epoch",
    "token",
    "principal",
    "route",
    "key",
    "digest",
    "revision",
    "lease_until",
    "expires_at",
    "format",
    "state",
    "answer",
];

/// The three columns of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyColumns<'a> {
    /// Empty for the shared principal, which no name can be.
    pub(crate) principal: &'a str,
    pub(crate) route: &'a str,
    pub(crate) key: &'a str,
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn of(key: &'a ScopedKey) -> Self {
        Self {
            principal: key.principal().name().unwrap_or_default(),
            route: key.route().as_str(),
            key: key.key().as_str(),
        }
    }
}

/// The columns of a record that is to be written.
pub(crate) struct RecordColumns {
    pub(crate) profile: i64,
    pub(crate) digest: [u8; 32],
    pub(crate) token: Uuid,
    pub(crate) epoch: i64,
    pub(crate) state: i16,
    pub(crate) answer: Option<Bytes>,
    pub(crate) lease: PgInterval,
    pub(crate) retention: PgInterval,
    pub(crate) expected: PgInterval,
}

impl RecordColumns {
    pub(crate) fn of(new: &NewRecord) -> Self {
        let record = new.record();
        let (state, answer) = match &record.state {
            State::InProgress => (IN_PROGRESS, None),
            State::Completed(answer) => (COMPLETED, Some(answer.to_bytes())),
            State::Failed { no_effect: false } => (FAILED, None),
            State::Failed { no_effect: true } => (FAILED_WITHOUT_EFFECT, None),
            State::Released => (RELEASED, None),
        };
        Self {
            profile: record.fingerprint.profile().to_bits().cast_signed(),
            digest: *record.fingerprint.digest(),
            token: uuid(record.token),
            epoch: record.epoch.number().cast_signed(),
            state,
            answer,
            lease: interval(new.lease()),
            retention: interval(new.retention()),
            expected: interval(new.expected_retention()),
        }
    }
}

pub(crate) fn uuid(token: Token) -> Uuid {
    Uuid::from_bytes(token.to_bytes())
}

/// Durations beyond a thousand years are cut: `timestamptz` ends, and nobody will be there to notice.
pub(crate) fn interval(duration: Duration) -> PgInterval {
    const LONGEST: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(LONGEST).min(LONGEST);
    PgInterval { months: 0, days: 0, microseconds }
}

/// A revision as the column holds it.
pub(crate) fn revision_of(column: i64) -> Revision {
    Revision::from_number(column.cast_unsigned())
}

/// What a row says of its key at the moment of the look.
pub(crate) enum Seen {
    /// It counts.
    Alive(Found),
    /// It is as good as absent; this version of it.
    Expired(Revision),
}

impl Seen {
    /// The record, where it counts.
    pub(crate) fn alive(self) -> Option<Found> {
        match self {
            Self::Alive(found) => Some(found),
            Self::Expired(_) => None,
        }
    }
}

/// Reads the columns `now` to `answer`, in the order of `queries/find.sql`, from column `first` on.
pub(crate) fn seen(row: &PgRow, first: usize) -> Result<Seen, sqlx::Error> {
    let Moment(now) = row.try_get(first)?;
    let revision = revision_of(row.try_get(first + 1)?);
    let Moment(claimed_at) = row.try_get(first + 2)?;
    let Moment(lease_until) = row.try_get(first + 3)?;
    let Moment(expires_at) = row.try_get(first + 4)?;
    let (lease_left, retention_left) = (span(now, lease_until), span(now, expires_at));
    if lease_left.is_zero() && retention_left.is_zero() {
        return Ok(Seen::Expired(revision));
    }
    let content = match record(row, first + 5)? {
        Ok(record) => Content::Readable(record),
        Err(unreadable) => Content::Unreadable(unreadable),
    };
    Ok(Seen::Alive(Found { revision, age: span(claimed_at, now), lease_left, retention_left, content }))
}

fn record(row: &PgRow, first: usize) -> Result<Result<Record, Unreadable>, sqlx::Error> {
    let format: i16 = row.try_get(first + 4)?;
    if format != FORMAT {
        let version = u8::try_from(format).unwrap_or(u8::MAX);
        return Ok(Err(Unreadable::UnknownVersion { version }));
    }
    let profile: i64 = row.try_get(first)?;
    let digest: &[u8] = row.try_get(first + 1)?;
    let token: Uuid = row.try_get(first + 2)?;
    let epoch: i64 = row.try_get(first + 3)?;
    let state: i16 = row.try_get(first + 5)?;
    let answer: Option<&[u8]> = row.try_get(first + 6)?;
    let Ok(digest) = <[u8; 32]>::try_from(digest) else { return Ok(Err(Unreadable::Corrupt)) };
    let state = match (state, answer) {
        (IN_PROGRESS, None) => State::InProgress,
        (COMPLETED, Some(answer)) => match Answer::from_bytes(Bytes::copy_from_slice(answer)) {
            Ok(answer) => State::Completed(answer),
            Err(unreadable) => return Ok(Err(unreadable)),
        },
        (FAILED, None) => State::Failed { no_effect: false },
        (FAILED_WITHOUT_EFFECT, None) => State::Failed { no_effect: true },
        (RELEASED, None) => State::Released,
        _ => return Ok(Err(Unreadable::Corrupt)),
    };
    Ok(Ok(Record {
        fingerprint: Fingerprint::from_parts(ProfileId::from_bits(profile.cast_unsigned()), digest),
        token: Token::from_bytes(token.into_bytes()),
        epoch: Epoch::from_number(epoch.cast_unsigned()),
        state,
    }))
}

/// From one moment to a later one; zero where it is none.
fn span(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// A `timestamptz` in its own unit: microseconds, since a moment that does not matter here. Only differences are used,
/// both ends of them from the same server, so that no clock library is needed.
struct Moment(i64);

impl Type<Postgres> for Moment {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl Decode<'_, Postgres> for Moment {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let bytes = <[u8; 8]>::try_from(value.as_bytes()?)?;
        Ok(Self(i64::from_be_bytes(bytes)))
    }
}
