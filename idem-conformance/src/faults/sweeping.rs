//! What sweeps take, and what is counted.

use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::atomic::Ordering;

use idem_core::{Content, KeyStore, StoreError, StoreStats, Swept};

use super::crowd::revision;
use super::{BrokenStore, Fault};
use crate::reference::Row;

pub(super) async fn sweep(store: &BrokenStore, limit: NonZeroU32) -> Result<Swept, StoreError> {
    match store.fault {
        Fault::SweepTakesAll => Ok(take(store, limit.get(), |_, _| true)),
        Fault::SweepTakesAbandoned => Ok(take(store, limit.get(), |row, now| now >= row.lease_until)),
        Fault::SweepIgnoresLease => Ok(take(store, limit.get(), |row, now| now >= row.expires_at)),
        Fault::CorruptIsSwept => Ok(take(store, limit.get(), |row, now| {
            row.is_expired(now) || matches!(row.content, Content::Unreadable(_))
        })),
        Fault::SweepIgnoresLimit => Ok(take(store, u32::MAX, Row::is_expired)),
        Fault::SweepMiscounts => {
            let swept = take(store, u32::MAX, Row::is_expired);
            Ok(Swept { removed: swept.removed.min(limit.get()), more: swept.removed > limit.get() })
        }
        Fault::SweepTakesNothing => Ok(Swept { removed: 0, more: false }),
        Fault::SweepForgetsMore => store.inner.sweep(limit).await.map(|swept| Swept { more: false, ..swept }),
        Fault::SweepRemovesByKey => Ok(remove_by_key(store, limit).await),
        _ => store.inner.sweep(limit).await,
    }
}

fn take(store: &BrokenStore, limit: u32, goes: impl Fn(&Row, Duration) -> bool) -> Swept {
    let mut state = store.inner.state();
    let (now, mut removed) = (state.now(), 0);
    state.rows.retain(|_, row| {
        let goes = removed < limit && goes(row, now);
        removed += u32::from(goes);
        !goes
    });
    Swept { removed, more: removed == limit }
}

async fn remove_by_key(store: &BrokenStore, limit: NonZeroU32) -> Swept {
    let keys: Vec<_> = {
        let state = store.inner.state();
        let expired = state.rows.iter().filter(|(_, row)| row.is_expired(state.now()));
        expired.map(|(key, row)| (key.clone(), row.revision)).take(limit.get() as usize).collect()
    };
    if !keys.is_empty() {
        store.shared.swept.store(true, Ordering::Relaxed);
        store.shared.until(|| keys.iter().any(|(key, seen)| revision(store, key) != Some(*seen))).await;
    }
    let mut removed = 0;
    for (key, _) in keys {
        removed += u32::from(store.inner.state().rows.remove(&key).is_some());
    }
    Swept { removed, more: removed == limit.get() }
}

pub(super) async fn stats(store: &BrokenStore) -> Result<StoreStats, StoreError> {
    let stats = store.inner.stats().await?;
    Ok(match store.fault {
        Fault::MiscountsRecords => {
            StoreStats { records: stats.records.zip(stats.expired).map(|(all, expired)| all - expired), ..stats }
        }
        Fault::CountsNoExpired => StoreStats { expired: Some(0), ..stats },
        _ => stats,
    })
}
