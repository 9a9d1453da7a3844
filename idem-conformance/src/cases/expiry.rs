//! Promise 1: an expired record is absent, and only an expired one.

use std::sync::Arc;

use idem_core::{Change, Inserted, Replaced, Settlement};

use crate::Halt;
use crate::expect::{ensure, has_passed, is_version, is_written};
use crate::scene::{
    LEASE, RACERS, Scene, UNSETTLED, Verdict, all_at_once, claim, claim_for, completed, completion, owner, settled_for,
    settlements,
};

cases! { 1:
    an_expired_claim_is_no_obstacle (slow) = "A claim that nobody settled expires with its retention; the next insert is Done.";
    an_expired_settlement_is_no_obstacle (slow) = "A settled record expires with its retention; the next insert is Done.";
    an_expired_record_is_not_found (slow) = "A record past its retention is not found, before any sweep.";
    one_of_many_inserts_over_an_expired_record_wins (slow) = "Of many inserts over an expired record at once, exactly one is Done.";
    a_record_stays_for_its_whole_retention (slow) = "A record is there until its retention is over, whatever its state.";
    a_claim_outlives_its_lease (slow) = "A claim whose lease is over stays for its retention: it tells that an attempt was abandoned.";
    a_live_lease_keeps_its_record (slow) = "A record whose lease is alive does not expire, whatever its retention says.";
    a_renewed_lease_keeps_its_record (slow) = "A lease that was renewed past the retention keeps its record too.";
}

async fn an_expired_claim_is_no_obstacle(scene: &Scene) -> Verdict {
    let key = scene.key("a")?;
    scene.insert(&key, &claim_for(scene.unit() / 2, scene.unit())?).await?;
    scene.outlast(scene.unit()).await;
    let next = claim()?;
    scene.insert(&key, &next).await?;
    is_written(&scene.find(&key).await?, &next)
}

async fn an_expired_settlement_is_no_obstacle(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let key = scene.key(label)?;
        scene.insert(&key, &settled_for(&claim()?, settlement, scene.unit())).await?;
    }
    scene.outlast(scene.unit()).await;
    for (label, _) in settlements() {
        let (key, next) = (scene.key(label)?, claim()?);
        scene.insert(&key, &next).await?;
        is_written(&scene.find(&key).await?, &next)?;
    }
    Ok(())
}

async fn an_expired_record_is_not_found(scene: &Scene) -> Verdict {
    let (claimed, settled, over) = (scene.key("claimed")?, scene.key("settled")?, scene.key("over")?);
    let unit = scene.unit();
    scene.insert(&claimed, &claim_for(unit / 2, unit)?).await?;
    scene.insert(&settled, &settled_for(&claim()?, completion("paid"), unit)).await?;
    // Settled over a claim that would have stayed: the settlement's retention counts, not the claim's.
    let first = claim()?;
    scene.insert(&over, &first).await?;
    scene.write(&over, owner(&first), &settled_for(&first, completion("paid"), unit)).await?;
    // Half a retention is promised from the settlement on, and the claim was a moment before.
    scene.outlast(unit * 2).await;
    for key in [claimed, settled, over] {
        scene.find_vacant(&key).await?;
    }
    Ok(())
}

async fn one_of_many_inserts_over_an_expired_record_wins(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    const KEYS: usize = 6;
    for label in 0..KEYS {
        let record = match label % 2 {
            0 => claim_for(scene.unit() / 2, scene.unit())?,
            _ => settled_for(&claim()?, Settlement::Released, scene.unit()),
        };
        scene.insert(&scene.key(label)?, &record).await?;
    }
    scene.outlast(scene.unit()).await;
    for label in 0..KEYS {
        let key = scene.key(label)?;
        let mut races = Vec::new();
        for racer in 0..RACERS {
            let (handle, key, claim) = (Arc::clone(&handles[racer % handles.len()]), key.clone(), claim()?);
            races.push(async move { handle.insert(&key, &claim).await.map(|answer| (answer, claim)) });
        }
        let mut winners = Vec::new();
        let mut met = Vec::new();
        for answer in all_at_once(races).await? {
            match answer? {
                (Inserted::Done(_), claim) => winners.push(claim),
                (Inserted::Occupied(found), _) => met.push(found),
            }
        }
        let done = winners.len();
        ensure(done == 1, format_args!("1 of {RACERS} inserts is Done"), format_args!("{done} are"))?;
        met.iter().try_for_each(|found| is_written(found, &winners[0]))?;
        is_written(&scene.find(&key).await?, &winners[0])?;
    }
    Ok(())
}

async fn a_record_stays_for_its_whole_retention(scene: &Scene) -> Verdict {
    for (round, unit) in scene.units().enumerate() {
        let retention = unit * 4;
        let watch = scene.watch();
        let mut records = Vec::new();
        for (label, settlement) in settlements() {
            let key = scene.key(format_args!("{label}{round}"))?;
            let record = settled_for(&claim()?, settlement, retention);
            scene.insert(&key, &record).await?;
            records.push((key, record));
        }
        let (key, record) = (scene.key(format_args!("claimed{round}"))?, claim_for(unit, retention)?);
        scene.insert(&key, &record).await?;
        records.push((key, record));
        scene.elapse(retention - unit / 2).await;
        let mut answers = Vec::new();
        for (key, _) in &records {
            answers.push(scene.store().find(key).await?);
        }
        if watch.at_most() >= retention {
            continue;
        }
        for (found, (_, record)) in answers.into_iter().zip(&records) {
            let found = found.ok_or_else(|| Halt::broken("a record within its retention", "vacant"))?;
            is_written(&found, record)?;
        }
        return Ok(());
    }
    scene.cannot_tell()
}

async fn a_claim_outlives_its_lease(scene: &Scene) -> Verdict {
    let key = scene.key("a")?;
    let first = claim_for(scene.unit(), UNSETTLED)?;
    let watch = scene.watch();
    let revision = scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    let found = scene.find(&key).await?;
    is_written(&found, &first)?;
    is_version(&found, revision)?;
    ensure(found.lease_left.is_zero(), "the lease is over: lease_left is zero", &found)?;
    has_passed("age", found.age, &watch, &found)
}

async fn a_live_lease_keeps_its_record(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(LEASE, scene.unit())?);
    scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    let found = scene.find(&key).await?;
    is_written(&found, &first)?;
    ensure(!found.lease_left.is_zero(), "the lease is alive", &found)?;
    let answer = scene.store().insert(&key, &claim()?).await?;
    ensure(matches!(answer, Inserted::Occupied(_)), "a live lease keeps its key", answer)?;
    // Its owner still may settle.
    scene.write(&key, owner(&first), &completed(&first)).await?;
    Ok(())
}

async fn a_renewed_lease_keeps_its_record(scene: &Scene) -> Verdict {
    for (round, unit) in scene.units().enumerate() {
        let (key, first) = (scene.key(round)?, claim_for(unit, unit * 2)?);
        let watch = scene.watch();
        scene.insert(&key, &first).await?;
        // More than half of this retention is left, so the renewal moves the lease alone.
        let renewal = Change::Renew { lease: LEASE, retention: unit };
        let renewed = scene.store().replace(&key, owner(&first), &renewal).await?;
        if watch.at_most() >= unit {
            continue;
        }
        ensure(matches!(renewed, Replaced::Done(_)), "the renewal is Done", &renewed)?;
        scene.outlast(unit * 2).await;
        is_written(&scene.find(&key).await?, &first)?;
        return Ok(());
    }
    scene.cannot_tell()
}
