//! How a replacement goes wrong.

use core::time::Duration;

use idem_core::{Change, Content, Guard, KeyStore, NewRecord, Record, Replaced, ScopedKey, State, StoreError, Token};

use super::bytes::built;
use super::crowd::{meet, revision};
use super::{BrokenStore, Fault};
use crate::reference::Row;

pub(super) async fn replace(
    store: &BrokenStore,
    key: &ScopedKey,
    guard: Guard,
    change: &Change,
) -> Result<Replaced, StoreError> {
    let inner = &store.inner;
    let now = inner.state().now();
    let there = inner.state().live(key).cloned();
    let guard = taken_for(store.fault, guard, there.as_ref());
    match (store.fault, change, &there) {
        (Fault::ReplaceIsADefault, _, _) => Ok(Replaced::Lost(inner.find(key).await?)),
        (Fault::CreatesOnReplace, Change::Record(record), None) => Ok(written(store, key, record)),
        (Fault::RevivesExpired, _, None) => revive(store, key, guard, change).await,
        (Fault::RenewalReopens, Change::Renew { lease, retention }, Some(row)) if holds_token(row, guard) => {
            let reopened = readable(row).map(|record| Record { state: State::InProgress, ..record.clone() });
            match reopened {
                Some(record) if is_settled(row) => Ok(written(store, key, &built(record, *lease, *retention))),
                _ => inner.replace(key, guard, change).await,
            }
        }
        (Fault::SettlesTwice, Change::Record(record), Some(row)) if holds_token(row, guard) => {
            Ok(written(store, key, record))
        }
        (Fault::RenewsSettled, Change::Renew { retention, .. }, Some(row)) if is_settled(row) => {
            if guard != Guard::Unchanged(row.revision) {
                return inner.replace(key, guard, change).await;
            }
            let mut state = inner.state();
            let revision = state.next_revision();
            if let Some(row) = state.rows.get_mut(key) {
                (row.revision, row.expires_at) = (revision, now + *retention);
            }
            Ok(Replaced::Done(revision))
        }
        (Fault::CorruptIsAnyones, Change::Record(record), Some(row)) if readable(row).is_none() => {
            Ok(written(store, key, record))
        }
        (Fault::RefusesLateOwner, _, Some(row)) if matches!(guard, Guard::Owner(_)) && now >= row.lease_until => {
            Ok(Replaced::Lost(Some(row.found(now))))
        }
        (Fault::FailedIsFinal, _, Some(row))
            if readable(row).is_some_and(|record| matches!(record.state, State::Failed { .. })) =>
        {
            Ok(Replaced::Lost(Some(row.found(now))))
        }
        (Fault::ReleasedIsNeverSettled, Change::Record(record), Some(row))
            if record.record().state.is_settled()
                && readable(row).is_some_and(|there| there.state == State::Released) =>
        {
            Ok(Replaced::Lost(Some(row.found(now))))
        }
        (Fault::SaysReplacedWithoutWriting, _, Some(row)) => {
            let replaced = inner.replace(key, guard, change).await?;
            inner.state().rows.insert(key.clone(), row.clone());
            Ok(replaced)
        }
        (Fault::ReadsThenTakesOver, Change::Record(record), Some(row)) if guard == Guard::Unchanged(row.revision) => {
            meet(store, key, Some(row.revision)).await;
            Ok(written(store, key, record))
        }
        (Fault::ReadsThenSettles, Change::Record(record), Some(row)) if holds_token(row, guard) && !is_settled(row) => {
            meet(store, key, Some(row.revision)).await;
            Ok(written(store, key, record))
        }
        (Fault::ReadsThenRenews, Change::Renew { lease, retention }, Some(row))
            if holds_token(row, guard) && !is_settled(row) =>
        {
            // Not for another renewal: what is undone is some other write.
            let seen = Some(row.revision);
            store.shared.until(|| revision(store, key) != seen).await;
            let record = readable(row).cloned();
            let back = record.map(|record| built(record, *lease, *retention));
            Ok(back.map_or(Replaced::Lost(None), |record| written(store, key, &record)))
        }
        _ => inner.replace(key, guard, change).await,
    }
}

fn written(store: &BrokenStore, key: &ScopedKey, record: &NewRecord) -> Replaced {
    Replaced::Done(store.inner.state().write(key, record))
}

/// The guard that a store takes the given one for.
fn taken_for(fault: Fault, guard: Guard, row: Option<&Row>) -> Guard {
    let Some(row) = row else { return guard };
    match (guard, readable(row)) {
        (Guard::Unchanged(_), _) if fault == Fault::IgnoresRevision => Guard::Unchanged(row.revision),
        (Guard::Owner(token), Some(record)) if is_taken_for(fault, token, record.token) => Guard::Owner(record.token),
        _ => guard,
    }
}

fn is_taken_for(fault: Fault, one: Token, other: Token) -> bool {
    let (one, other) = (one.to_bytes(), other.to_bytes());
    let text = |bytes: &[u8; 16]| bytes.iter().copied().take_while(|byte| *byte != 0).collect::<Vec<_>>();
    match fault {
        Fault::IgnoresToken => true,
        Fault::TokensFoldCase => one.eq_ignore_ascii_case(&other),
        Fault::TokensByPrefix => one[..8] == other[..8],
        Fault::TokensStopAtNul => text(&one) == text(&other),
        Fault::TokensLossy => String::from_utf8_lossy(&one) == String::from_utf8_lossy(&other),
        _ => false,
    }
}

fn readable(row: &Row) -> Option<&Record> {
    match &row.content {
        Content::Readable(record) => Some(record),
        Content::Unreadable(_) => None,
    }
}

fn is_settled(row: &Row) -> bool {
    readable(row).is_some_and(|record| record.state.is_settled())
}

fn holds_token(row: &Row, guard: Guard) -> bool {
    readable(row).is_some_and(|record| guard == Guard::Owner(record.token))
}

/// Writes over an expired row as if it were alive.
async fn revive(store: &BrokenStore, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
    {
        let mut state = store.inner.state();
        let now = state.now();
        if let Some(row) = state.rows.get_mut(key) {
            row.expires_at = now + Duration::from_secs(1);
        }
    }
    store.inner.replace(key, guard, change).await
}
