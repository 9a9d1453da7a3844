//! What callers are shown.

use core::time::Duration;

use idem_core::{
    Answer, Content, Epoch, Fingerprint, Found, KeyStore, NewRecord, ProfileId, Record, Revision, ScopedKey, State,
    StoreError, StoreErrorKind, Token, Unreadable,
};

use super::crowd::revision;
use super::store::lock;
use super::{BrokenStore, Fault};

/// What an insert is told that met a record.
pub(super) async fn occupied(store: &BrokenStore, key: &ScopedKey, mine: &NewRecord, found: Found) -> Found {
    let mut found = shown(store, key, found).await;
    match store.fault {
        Fault::OccupiedIsStale => found = first(store, key).unwrap_or(found),
        Fault::LosersGetNoTimes => without_times(&mut found),
        Fault::OccupiedLeavesAnswerOut => {
            change(&mut found, |record| {
                if let State::Completed(answer) = &mut record.state {
                    *answer = Answer::NotKept;
                }
            });
        }
        Fault::HidesOwnToken => change(&mut found, |record| {
            if record.token == mine.record().token {
                record.token = Token::from_bytes([0; 16]);
            }
        }),
        _ => {}
    }
    found
}

/// What a replacement is told whose guard does not hold.
pub(super) async fn lost(store: &BrokenStore, key: &ScopedKey, found: Option<Found>) -> Option<Found> {
    let mut found = match found {
        Some(found) => Some(shown(store, key, found).await),
        None => None,
    };
    match (store.fault, &mut found) {
        (Fault::LostIsStale, Some(_)) => first(store, key).or(found),
        (Fault::LostSaysVacant, _) => None,
        (Fault::LostInvents, None) => Some(invented()),
        (Fault::LostShowsExpired, None) => even_if_expired(store, key),
        (Fault::LosersGetNoTimes, Some(there)) => {
            without_times(there);
            found
        }
        _ => found,
    }
}

pub(super) async fn find(store: &BrokenStore, key: &ScopedKey, found: Option<Found>) -> Option<Found> {
    match (store.fault, found) {
        (Fault::FindShowsExpired, None) => even_if_expired(store, key),
        (Fault::CachesPerHandle, Some(found)) => Some(lock(&store.seen).entry(key.clone()).or_insert(found).clone()),
        (_, Some(found)) => Some(shown(store, key, found).await),
        (_, None) => None,
    }
}

/// What everybody is shown.
async fn shown(store: &BrokenStore, key: &ScopedKey, mut found: Found) -> Found {
    match (store.fault, &found.content) {
        (Fault::ShowsNoTimes, _) => without_times(&mut found),
        (Fault::AgeStandsStill, _) => found.age = Duration::ZERO,
        (Fault::LeaseStandsStill, _) if !found.lease_left.is_zero() => found.lease_left += found.age,
        (Fault::WholeSeconds, _) => {
            for time in [&mut found.age, &mut found.lease_left, &mut found.retention_left] {
                *time = Duration::from_secs(time.as_secs());
            }
        }
        (Fault::TwoMoments, _) => {
            let seen = Some(found.revision);
            store.shared.until(|| revision(store, key) != seen).await;
            if let Ok(Some(later)) = store.inner.find(key).await {
                found = Found { content: found.content, ..later };
            }
        }
        (Fault::CorruptIsDefault, Content::Unreadable(_)) => {
            found.content = invented().content;
        }
        (Fault::UnknownVersionIsCorrupt, Content::Unreadable(_)) => {
            found.content = Content::Unreadable(Unreadable::Corrupt);
        }
        _ => {}
    }
    found
}

/// The store whose decoder fails calls it an error.
pub(super) fn fail_on_corrupt(store: &BrokenStore, key: &ScopedKey) -> Result<(), StoreError> {
    let state = store.inner.state();
    match state.live(key).map(|row| &row.content) {
        Some(Content::Unreadable(why)) if store.is(Fault::CorruptIsAnError) => {
            Err(StoreError::not_written(StoreErrorKind::Other, *why))
        }
        _ => Ok(()),
    }
}

fn first(store: &BrokenStore, key: &ScopedKey) -> Option<Found> {
    lock(&store.shared.first).get(key).cloned()
}

fn even_if_expired(store: &BrokenStore, key: &ScopedKey) -> Option<Found> {
    let state = store.inner.state();
    state.rows.get(key).map(|row| row.found(state.now()))
}

fn without_times(found: &mut Found) {
    (found.age, found.lease_left, found.retention_left) = Default::default();
}

fn change(found: &mut Found, how: impl FnOnce(&mut Record)) {
    if let Content::Readable(record) = &mut found.content {
        how(record);
    }
}

/// A record of nothing but default values.
fn invented() -> Found {
    let record = Record {
        fingerprint: Fingerprint::from_parts(ProfileId::from_bits(0), [0; 32]),
        token: Token::from_bytes([0; 16]),
        epoch: Epoch::from_number(0),
        state: State::Completed(Answer::NotKept),
    };
    Found {
        revision: Revision::from_number(0),
        age: Duration::ZERO,
        lease_left: Duration::ZERO,
        retention_left: Duration::ZERO,
        content: Content::Readable(record),
    }
}
