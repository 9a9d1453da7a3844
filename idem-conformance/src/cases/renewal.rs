//! Promise 4: what a renewal does to the times, and to nothing else.

use core::time::Duration;

use idem_core::{Change, Guard, Inserted, Replaced};

use crate::expect::{adds_up, counts_down, ensure, has_passed, is_written};
use crate::scene::{LEASE, RETENTION, Scene, UNSETTLED, Verdict, claim, claim_for, owner, renewal};

cases! { 4:
    a_renewal_moves_the_end_of_the_lease = "After a renewal the lease is over as long after it as the renewal says, be it later or sooner.";
    a_renewal_keeps_the_age (slow) = "The age of a renewed claim still counts from the claim.";
    a_renewal_changes_nothing_but_times = "Fingerprint, token, epoch and state are the same after a renewal.";
    a_renewal_leaves_a_long_retention_alone = "Where half of the retention or more is left, a renewal neither extends nor shortens it.";
    a_renewal_extends_a_short_retention = "Where less than half of the retention is left, all of it is left after the renewal.";
    a_renewed_claim_outlives_its_first_times (slow) = "A claim that was renewed in time is alive after its first lease and its first retention.";
}

async fn a_renewal_moves_the_end_of_the_lease(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    for lease in [LEASE * 3, LEASE, LEASE / 2] {
        let watch = scene.watch();
        scene.replace(&key, owner(&first), &renewal(lease)).await?;
        let found = scene.find(&key).await?;
        counts_down("lease_left", found.lease_left, lease, &watch, &found)?;
    }
    Ok(())
}

async fn a_renewal_keeps_the_age(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let watch = scene.watch();
    scene.insert(&key, &first).await?;
    scene.elapse(scene.unit() / 2).await;
    scene.replace(&key, owner(&first), &renewal(LEASE)).await?;
    let found = scene.find(&key).await?;
    has_passed("age", found.age, &watch, &found)?;
    adds_up("retention_left", found.retention_left, UNSETTLED, &found)
}

async fn a_renewal_changes_nothing_but_times(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    scene.replace(&key, owner(&first), &renewal(LEASE)).await?;
    is_written(&scene.find(&key).await?, &first)?;
    let seen = scene.find(&key).await?.revision;
    scene.replace(&key, Guard::Unchanged(seen), &renewal(LEASE)).await?;
    is_written(&scene.find(&key).await?, &first)
}

async fn a_renewal_leaves_a_long_retention_alone(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(LEASE, RETENTION)?);
    scene.insert(&key, &first).await?;
    for retention in [RETENTION + RETENTION / 2, RETENTION, RETENTION / 2, LEASE] {
        scene.replace(&key, owner(&first), &Change::Renew { lease: LEASE, retention }).await?;
        let found = scene.find(&key).await?;
        adds_up("retention_left", found.retention_left, RETENTION, &found)?;
        ensure(!found.retention_left.is_zero(), "the retention is not over", found)?;
    }
    Ok(())
}

async fn a_renewal_extends_a_short_retention(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(LEASE, RETENTION)?);
    scene.insert(&key, &first).await?;
    for retention in [RETENTION * 3, RETENTION * 7] {
        let watch = scene.watch();
        scene.replace(&key, owner(&first), &Change::Renew { lease: LEASE, retention }).await?;
        let found = scene.find(&key).await?;
        counts_down("retention_left", found.retention_left, retention, &watch, &found)?;
    }
    Ok(())
}

async fn a_renewed_claim_outlives_its_first_times(scene: &Scene) -> Verdict {
    for (round, unit) in scene.units().enumerate() {
        let (key, first) = (scene.key(round)?, claim_for(unit, unit * 2)?);
        let watch = scene.watch();
        scene.insert(&key, &first).await?;
        let renewed = scene.store().replace(&key, owner(&first), &renewal(LEASE)).await?;
        if watch.at_most() >= unit * 2 {
            continue;
        }
        ensure(matches!(renewed, Replaced::Done(_)), "the renewal is Done", renewed)?;
        scene.outlast(unit * 2).await;
        let found = scene.find(&key).await?;
        is_written(&found, &first)?;
        ensure(found.lease_left > Duration::ZERO, "the lease is alive", found)?;
        let met = scene.store().insert(&key, &claim()?).await?;
        return ensure(matches!(met, Inserted::Occupied(_)), "the key is taken", met);
    }
    scene.cannot_tell()
}
