//! Promise 4: only the store's own clock counts.

use std::sync::Arc;

use idem_core::{Change, Found, Guard, Inserted, KeyStore, NewRecord, Replaced, ScopedKey, Settlement, StoreError};

use crate::expect::{
    adds_up, counts_down, ensure, has_passed, has_times_of_claim, has_times_of_settled, is_written, record,
};
use crate::scene::{
    LEASE, Occupied, RETENTION, Scene, UNSETTLED, Verdict, all_at_once, claim, claim_for, completed, completion, owner,
    renewal, settled, settled_for, settlements, takeover, token,
};
use crate::{Halt, WrongClock};

cases! { 4:
    a_claim_shows_its_times = "Age, lease and retention of a new claim count from its insert.";
    times_pass_on_the_stores_clock (slow) = "As time passes the age grows, and lease and retention shrink by as much.";
    every_answer_shows_the_times (slow) = "Occupied and Lost show the same times as find.";
    a_settled_record_shows_its_times = "A settlement ends the lease, and its retention counts from the claim.";
    a_settlement_keeps_the_age_of_its_claim (slow) = "Age and retention of a settled record count from the claim, not from the settlement.";
    a_settlement_over_a_settlement_keeps_the_age_of_the_claim (slow) = "A record that is settled again under its revision still counts from the claim.";
    a_late_settlement_is_kept_for_half_its_retention (slow) = "A claim that took long is settled for at least half of the retention.";
    an_inserted_settlement_counts_from_its_insert = "A settled record that is inserted is kept for its whole retention.";
    a_takeover_starts_the_times_anew (slow) = "Age, lease and retention of a takeover count from the takeover.";
    record_and_times_come_from_one_step = "While others write, the times that are shown belong to the record that is shown.";
    a_wrong_application_clock_ends_no_lease = "In an application whose clock is an hour ahead, leases and retentions are as long as elsewhere.";
    a_wrong_application_clock_prolongs_nothing (slow) = "In an application whose clock is an hour behind, what is over is over.";
}

async fn a_claim_shows_its_times(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let watch = scene.watch();
    scene.insert(&key, &first).await?;
    has_times_of_claim(&scene.find(&key).await?, &first, &watch)
}

async fn times_pass_on_the_stores_clock(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let watch = scene.watch();
    scene.insert(&key, &first).await?;
    // Odd parts of a unit: a store that keeps whole seconds only is a lease off by most of one.
    for _ in 0..3 {
        scene.elapse(scene.unit() / 3).await;
        has_times_of_claim(&scene.find(&key).await?, &first, &watch)?;
    }
    Ok(())
}

async fn every_answer_shows_the_times(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let watch = scene.watch();
    scene.insert(&key, &first).await?;
    scene.elapse(scene.unit() / 3).await;
    has_times_of_claim(&scene.store().insert(&key, &claim()?).await?.occupied()?, &first, &watch)?;
    let other = claim()?;
    let lost = scene.lose(&key, owner(&other), &Change::Record(completed(&other))).await?;
    has_times_of_claim(&lost, &first, &watch)
}

async fn a_settled_record_shows_its_times(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        let watch = scene.watch();
        scene.insert(&key, &first).await?;
        let record = settled(&first, settlement);
        scene.write(&key, owner(&first), &record).await?;
        has_times_of_settled(&scene.find(&key).await?, &record, &watch)?;
        let lost = scene.lose(&key, owner(&first), &Change::Record(record.clone())).await?;
        has_times_of_settled(&lost, &record, &watch)?;
    }
    Ok(())
}

async fn a_settlement_keeps_the_age_of_its_claim(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        let watch = scene.watch();
        scene.insert(&key, &first).await?;
        scene.elapse(scene.unit() / 2).await;
        let record = settled(&first, settlement);
        scene.write(&key, owner(&first), &record).await?;
        has_times_of_settled(&scene.find(&key).await?, &record, &watch)?;
        scene.elapse(scene.unit() / 4).await;
        has_times_of_settled(&scene.find(&key).await?, &record, &watch)?;
    }
    Ok(())
}

async fn a_settlement_over_a_settlement_keeps_the_age_of_the_claim(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let watch = scene.watch();
    scene.insert(&key, &first).await?;
    let released = settled_for(&first, Settlement::Released, RETENTION / 2);
    let seen = scene.write(&key, owner(&first), &released).await?;
    scene.elapse(scene.unit() / 2).await;
    let record = completed(&first);
    scene.write(&key, Guard::Unchanged(seen), &record).await?;
    has_times_of_settled(&scene.find(&key).await?, &record, &watch)
}

async fn a_late_settlement_is_kept_for_half_its_retention(scene: &Scene) -> Verdict {
    for (round, unit) in scene.units().enumerate() {
        let (key, first) = (scene.key(round)?, claim()?);
        scene.insert(&key, &first).await?;
        // From its claim it would be kept for two units: it is over before it is written.
        scene.elapse(unit * 3).await;
        let record = settled_for(&first, completion("late"), unit * 2);
        let watch = scene.watch();
        scene.write(&key, owner(&first), &record).await?;
        let found = scene.store().find(&key).await?;
        if watch.at_most() >= unit {
            continue;
        }
        let found = found.ok_or_else(|| Halt::broken("half of the retention is left", "vacant"))?;
        is_written(&found, &record)?;
        counts_down("retention_left", found.retention_left, unit, &watch, &found)?;
        scene.outlast(unit).await;
        scene.find_vacant(&key).await?;
        return Ok(());
    }
    scene.cannot_tell()
}

async fn an_inserted_settlement_counts_from_its_insert(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let key = scene.key(label)?;
        let record = settled(&claim()?, settlement);
        let watch = scene.watch();
        scene.insert(&key, &record).await?;
        has_times_of_settled(&scene.find(&key).await?, &record, &watch)?;
    }
    Ok(())
}

async fn a_takeover_starts_the_times_anew(scene: &Scene) -> Verdict {
    for (label, settlement) in [("claimed", None)].into_iter().chain(settlements().map(|(label, s)| (label, Some(s)))) {
        let (key, first) = (scene.key(label)?, claim_for(LEASE / 2, UNSETTLED / 2)?);
        let mut seen = scene.insert(&key, &first).await?;
        if let Some(settlement) = settlement {
            seen = scene.write(&key, owner(&first), &settled(&first, settlement)).await?;
        }
        scene.elapse(scene.unit() / 2).await;
        let next = takeover(&first)?;
        let watch = scene.watch();
        scene.write(&key, Guard::Unchanged(seen), &next).await?;
        has_times_of_claim(&scene.find(&key).await?, &next, &watch)?;
    }
    Ok(())
}

/// The record tells which times it must have: a first claim a short lease, a second a long one, a settlement none.
fn times_fit(found: &Found) -> Verdict {
    let record = record(found)?;
    if record.state.is_settled() {
        ensure(found.lease_left.is_zero(), "a settled record has no lease", found)?;
        return adds_up("retention_left", found.retention_left, RETENTION, found);
    }
    let (lease, retention) = times_of(record.epoch.number());
    adds_up("lease_left", found.lease_left, lease, found)?;
    adds_up("retention_left", found.retention_left, retention, found)?;
    ensure(!found.lease_left.is_zero(), "the lease is alive", found)
}

fn times_of(epoch: u64) -> (core::time::Duration, core::time::Duration) {
    if epoch % 2 == 1 { (LEASE, UNSETTLED) } else { (LEASE * 3, UNSETTLED * 2) }
}

async fn record_and_times_come_from_one_step(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    let mut tasks: Vec<core::pin::Pin<Box<dyn Future<Output = Verdict> + Send>>> = Vec::new();
    let handles = scene.handles().await?;
    let looking = Arc::new(());
    for handle in &handles {
        for looks in [Look::Find, Look::Insert, Look::Replace] {
            let (handle, key, looking) = (Arc::clone(handle), key.clone(), Arc::clone(&looking));
            tasks.push(Box::pin(async move {
                let _looking = looking;
                for _ in 0..40 {
                    times_fit(&look(&*handle, &key, looks).await?)?;
                    tokio::task::yield_now().await;
                }
                Ok(())
            }));
        }
    }
    let writer = Arc::clone(&handles[0]);
    tasks.push(Box::pin(async move { keep_changing(&*writer, &key, first, &looking).await }));
    all_at_once(tasks).await?.into_iter().collect()
}

#[derive(Clone, Copy)]
enum Look {
    Find,
    Insert,
    Replace,
}

async fn look(store: &dyn KeyStore, key: &ScopedKey, looks: Look) -> Result<Found, Halt> {
    let stranger = claim()?;
    let vacant = || Halt::broken("the record, which is never gone", "vacant");
    match looks {
        Look::Find => store.find(key).await?.ok_or_else(vacant),
        Look::Insert => store.insert(key, &stranger).await?.occupied(),
        Look::Replace => match store.replace(key, owner(&stranger), &Change::Record(completed(&stranger))).await? {
            Replaced::Lost(found) => found.ok_or_else(vacant),
            done => Err(Halt::broken("Lost: the token is a stranger's", done)),
        },
    }
}

/// Settles and takes over in turn, each time with other times, for as long as somebody is looking.
async fn keep_changing(store: &dyn KeyStore, key: &ScopedKey, first: NewRecord, looking: &Arc<()>) -> Verdict {
    let mut current = first;
    while Arc::strong_count(looking) > 1 {
        let done = store.replace(key, owner(&current), &Change::Record(completed(&current))).await?;
        let Replaced::Done(revision) = done else { return Err(Halt::broken("the owner settles", done)) };
        tokio::task::yield_now().await;
        let record = current.record();
        let (lease, retention) = times_of(record.epoch.next().number());
        let next = NewRecord::claim(record.fingerprint, token()?, record.epoch.next(), lease, retention);
        let taken = store.replace(key, Guard::Unchanged(revision), &Change::Record(next.clone())).await?;
        ensure(matches!(taken, Replaced::Done(_)), "nobody else writes: the takeover is Done", taken)?;
        current = next;
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn a_wrong_application_clock_ends_no_lease(scene: &Scene) -> Verdict {
    for (label, wrong) in [("ahead", WrongClock::Ahead), ("behind", WrongClock::Behind)] {
        let elsewhere = scene.harness().open_with_wrong_clock(wrong).await?;
        let (mine, theirs) = (scene.key(format_args!("m{label}"))?, scene.key(format_args!("t{label}"))?);
        let first = claim_for(LEASE, LEASE * 2)?;
        let watch = scene.watch();
        scene.insert(&mine, &first).await?;
        let inserted = elsewhere.insert(&theirs, &first).await?;
        ensure(matches!(inserted, Inserted::Done(_)), "Done: the key was vacant", inserted)?;
        for key in [&mine, &theirs] {
            has_times_of_claim(&scene.find(key).await?, &first, &watch)?;
            let found = elsewhere.find(key).await?.ok_or_else(|| Halt::broken("a live claim", "vacant"))?;
            has_times_of_claim(&found, &first, &watch)?;
            let met = elsewhere.insert(key, &claim()?).await?.occupied()?;
            has_times_of_claim(&met, &first, &watch)?;
        }
        elsewhere.sweep(core::num::NonZeroU32::MIN.saturating_add(999)).await?;
        let renewed = elsewhere.replace(&mine, owner(&first), &renewal(LEASE)).await?;
        ensure(matches!(renewed, Replaced::Done(_)), "the owner renews", renewed)?;
        let found = scene.find(&mine).await?;
        counts_down("lease_left", found.lease_left, LEASE, &watch, &found)?;
        has_passed("age", found.age, &watch, &found)?;
        let record = completed(&first);
        let settled = elsewhere.replace(&theirs, owner(&first), &Change::Record(record.clone())).await?;
        ensure(matches!(settled, Replaced::Done(_)), "the owner settles", settled)?;
        has_times_of_settled(&scene.find(&theirs).await?, &record, &watch)?;
    }
    Ok(())
}

async fn a_wrong_application_clock_prolongs_nothing(scene: &Scene) -> Verdict {
    let elsewhere = scene.harness().open_with_wrong_clock(WrongClock::Behind).await?;
    let (mine, theirs) = (scene.key("mine")?, scene.key("theirs")?);
    let first = claim_for(scene.unit() / 2, scene.unit())?;
    scene.insert(&mine, &first).await?;
    elsewhere.insert(&theirs, &first).await?;
    scene.outlast(scene.unit()).await;
    let gone = |found: Result<Option<Found>, StoreError>| match found? {
        None => Ok(()),
        Some(found) => Err(Halt::broken("the record is over, on the store's clock", found)),
    };
    for key in [&mine, &theirs] {
        gone(scene.store().find(key).await)?;
        gone(elsewhere.find(key).await)?;
    }
    let inserted = elsewhere.insert(&mine, &claim()?).await?;
    ensure(matches!(inserted, Inserted::Done(_)), "Done: the key is vacant again", inserted)?;
    Ok(())
}
