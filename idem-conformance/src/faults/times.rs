//! What times and revisions are written, and when records go.

use core::time::Duration;

use idem_core::{Change, Content, NewRecord, Revision, ScopedKey, State, Unreadable};

use super::store::lock;
use super::{BrokenStore, Fault};
use crate::WrongClock;
use crate::reference::Row;

/// Further away than any case lives.
pub(super) const NEVER: Duration = Duration::from_secs(1 << 40);

/// What was written, over what.
pub(super) enum Written<'a> {
    Inserted { settled: bool, retention: Duration },
    Renewed { lease: Duration, retention: Duration, before: &'a Row },
    Settled { retention: Duration, before: &'a Row },
    TakenOver { before: &'a Row },
}

impl<'a> Written<'a> {
    pub(super) fn inserted(record: &NewRecord) -> Self {
        Self::Inserted { settled: record.record().state.is_settled(), retention: record.retention() }
    }

    pub(super) fn replaced(change: &Change, before: Option<&'a Row>) -> Self {
        match (change, before) {
            (Change::Record(record), None) => Self::inserted(record),
            (Change::Renew { retention, .. }, None) => Self::Inserted { settled: false, retention: *retention },
            (Change::Renew { lease, retention }, Some(before)) => {
                Self::Renewed { lease: *lease, retention: *retention, before }
            }
            (Change::Record(record), Some(before)) if record.record().state.is_settled() => {
                Self::Settled { retention: record.retention(), before }
            }
            (Change::Record(_), Some(before)) => Self::TakenOver { before },
        }
    }

    fn before(&self) -> Option<&'a Row> {
        match *self {
            Self::Inserted { .. } => None,
            Self::Renewed { before, .. } | Self::Settled { before, .. } | Self::TakenOver { before } => Some(before),
        }
    }
}

/// Spoils what was written; gives the revision that the caller is told.
pub(super) fn written(store: &BrokenStore, key: &ScopedKey, how: &Written<'_>, revision: Revision) -> Revision {
    let mut state = store.inner.state();
    let now = state.now();
    let Some(row) = state.rows.get_mut(key) else { return revision };
    spoil_times(store.fault, row, how, now);
    spoil_record(store.fault, row, how);
    let told = spoil_revision(store.fault, row, how, revision);
    let (goes_at, first, released) = (row.expires_at.max(row.lease_until), row.found(now), is_released(row));
    if store.is(Fault::ReleaseDeletes) && released {
        state.rows.remove(key);
    }
    drop(state);
    lock(&store.shared.first).entry(key.clone()).or_insert(first);
    if !matches!(how, Written::Renewed { .. }) {
        lock(&store.shared.goes_at).insert(key.clone(), goes_at);
    }
    told
}

fn spoil_times(fault: Fault, row: &mut Row, how: &Written<'_>, now: Duration) {
    match (fault, how) {
        (Fault::NeverExpires, _) => row.expires_at = NEVER,
        (Fault::ExpiresEarly, _) => row.expires_at -= row.expires_at.saturating_sub(now) / 2,
        (Fault::InsertedSettlementIsShort, Written::Inserted { settled: true, retention }) => {
            row.expires_at = now + *retention / 2;
        }
        (Fault::SettlementKeepsLease, Written::Settled { before, .. }) => row.lease_until = before.lease_until,
        (Fault::SettlementResetsAge, Written::Settled { .. }) => row.claimed_at = now,
        (Fault::SecondSettlementResetsAge, Written::Settled { before, .. }) if !before.is_claim() => {
            row.claimed_at = now;
        }
        (Fault::SettlementResetsRetention, Written::Settled { retention, .. }) => row.expires_at = now + *retention,
        (Fault::SettlementKeepsRetention, Written::Settled { before, .. }) => row.expires_at = before.expires_at,
        (Fault::SettlementDropsRetention, Written::Settled { .. }) => row.expires_at = NEVER,
        (Fault::SettlementHasNoFloor, Written::Settled { retention, before }) => {
            row.expires_at = before.claimed_at + *retention;
        }
        (Fault::TakeoverKeepsAge, Written::TakenOver { before }) => row.claimed_at = before.claimed_at,
        (Fault::TakeoverKeepsLease, Written::TakenOver { before }) => row.lease_until = before.lease_until,
        (Fault::TakeoverKeepsRetention, Written::TakenOver { before }) => row.expires_at = before.expires_at,
        (Fault::RenewalKeepsLease, Written::Renewed { before, .. }) => row.lease_until = before.lease_until,
        (Fault::RenewalTakesTheLongerLease, Written::Renewed { before, .. }) => {
            row.lease_until = row.lease_until.max(before.lease_until);
        }
        (Fault::RenewalAddsToLease, Written::Renewed { lease, before, .. }) => {
            row.lease_until = before.lease_until + *lease;
        }
        (Fault::RenewalResetsAge, Written::Renewed { .. }) => row.claimed_at = now,
        (Fault::RenewalAlwaysExtends, Written::Renewed { retention, .. }) => {
            row.expires_at = row.expires_at.max(now + *retention);
        }
        (Fault::RenewalNeverExtends, Written::Renewed { before, .. }) => row.expires_at = before.expires_at,
        (Fault::RenewalShortens, Written::Renewed { retention, .. }) => {
            row.expires_at = row.expires_at.min(now + *retention);
        }
        _ => {}
    }
}

fn spoil_record(fault: Fault, row: &mut Row, how: &Written<'_>) {
    let renewed = matches!(how, Written::Renewed { .. });
    let before = how.before().map(|row| row.content.clone());
    let Content::Readable(record) = &mut row.content else { return };
    if fault == Fault::RenewalCountsUp && renewed {
        record.epoch = record.epoch.next();
    }
    if let Some(Content::Readable(before)) = before {
        match fault {
            Fault::KeepsToken => record.token = before.token,
            Fault::KeepsFingerprint => record.fingerprint = before.fingerprint,
            Fault::KeepsEpoch => record.epoch = before.epoch,
            _ => {}
        }
    }
}

fn spoil_revision(fault: Fault, row: &mut Row, how: &Written<'_>, revision: Revision) -> Revision {
    row.revision = match (fault, how) {
        (Fault::RenewalKeepsRevision, Written::Renewed { before, .. })
        | (Fault::SettlementKeepsRevision, Written::Settled { before, .. })
        | (Fault::TakeoverKeepsRevision, Written::TakenOver { before }) => before.revision,
        (Fault::RevisionsPerRecord, _) => {
            let before = how.before().map_or(0, |row| row.revision.number());
            Revision::from_number(before + 1)
        }
        (Fault::NamesAnotherRevision, _) => return Revision::from_number(revision.number() + 1_000_000),
        _ => return revision,
    };
    row.revision
}

fn is_released(row: &Row) -> bool {
    matches!(&row.content, Content::Readable(record) if record.state == State::Released)
}

/// Removes what this store takes for gone.
pub(super) fn forget_what_is_gone(store: &BrokenStore) {
    let mut state = store.inner.state();
    let now = state.now();
    let unknown = |row: &Row| matches!(row.content, Content::Unreadable(Unreadable::UnknownVersion { .. }));
    let claimed = |row: &Row| matches!(&row.content, Content::Readable(record) if !record.state.is_settled());
    match store.fault {
        Fault::ExpiresWithLease => state.rows.retain(|_, row| !(claimed(row) && now >= row.lease_until)),
        Fault::ExpiresUnderLease => state.rows.retain(|_, row| now < row.expires_at),
        Fault::RenewalLeavesExpiry => {
            let goes_at = lock(&store.shared.goes_at);
            state.rows.retain(|key, _| goes_at.get(key).is_none_or(|goes_at| now < *goes_at));
        }
        Fault::CorruptIsVacant => state.rows.retain(|_, row| matches!(row.content, Content::Readable(_))),
        Fault::UnknownVersionIsVacant => state.rows.retain(|_, row| !unknown(row)),
        _ => {}
    }
}

/// Moves the clock to where this application has it, for as long as a call takes.
pub(super) struct WrongTime<'a>(Option<(&'a BrokenStore, WrongClock)>);

impl<'a> WrongTime<'a> {
    pub(super) fn begin(store: &'a BrokenStore) -> Self {
        let wrong = store.wrong.filter(|_| store.is(Fault::ApplicationClock));
        if let Some(wrong) = wrong {
            store.inner.state().shift(WrongClock::BY, wrong == WrongClock::Ahead);
        }
        Self(wrong.map(|wrong| (store, wrong)))
    }
}

impl Drop for WrongTime<'_> {
    fn drop(&mut self) {
        if let Some((store, wrong)) = self.0 {
            store.inner.state().shift(WrongClock::BY, wrong == WrongClock::Behind);
        }
    }
}
