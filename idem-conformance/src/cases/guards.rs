//! Promise 3: a replacement acts only while its guard holds.

use idem_core::{Change, Guard, NewRecord, Revision, Settlement};

use crate::expect::{ensure, is_version, is_written};
use crate::scene::{
    Answered, LEASE, Lost, RETENTION, Scene, UNSETTLED, Verdict, claim, claim_for, completed, completion, owner,
    renewal, settled, settled_for, settlements, takeover,
};

cases! { 3:
    an_owner_may_settle_its_claim = "The attempt completes, fails or releases its claim, and the record says so.";
    an_owner_may_settle_after_its_lease (slow) = "As long as nobody took the key, the attempt may settle also after its lease.";
    a_strange_token_changes_nothing = "Whoever does not hold the claim's token can neither settle nor renew it.";
    a_late_renewal_does_not_reopen = "A renewal that arrives after the settlement changes nothing.";
    a_second_settlement_changes_nothing = "A settled record is not settled again, not by its own token either.";
    a_renewal_fits_no_settled_record = "There is nothing to renew in a settled record, also where its revision fits.";
    every_write_gives_another_revision = "Insert, renewal, takeover and settlement each give a revision of their own, and find shows it.";
    a_revision_never_comes_twice (slow) = "A takeover that was decided on a record that is gone does not fit the next one.";
    a_revision_of_another_key_fits_nothing = "A key is not changed under the revision of another key.";
    a_replacement_never_creates = "A replacement of a vacant key leaves it vacant, whatever its guard.";
    a_replacement_does_not_revive_an_expired_record (slow) = "An expired record is gone for its owner and for takeovers too.";
}

async fn an_owner_may_settle_its_claim(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = settled(&first, settlement);
        let revision = scene.write(&key, owner(&first), &record).await?;
        let found = scene.find(&key).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn an_owner_may_settle_after_its_lease(scene: &Scene) -> Verdict {
    let (settles, renews) = (scene.key("settles")?, scene.key("renews")?);
    let first = claim_for(scene.unit(), UNSETTLED)?;
    scene.insert(&settles, &first).await?;
    scene.insert(&renews, &first).await?;
    scene.outlast(scene.unit()).await;
    let record = completed(&first);
    scene.write(&settles, owner(&first), &record).await?;
    is_written(&scene.find(&settles).await?, &record)?;
    scene.replace(&renews, owner(&first), &renewal(LEASE)).await?;
    let found = scene.find(&renews).await?;
    is_written(&found, &first)?;
    ensure(!found.lease_left.is_zero(), "a late renewal makes the lease alive again", found)
}

async fn a_strange_token_changes_nothing(scene: &Scene) -> Verdict {
    let (key, first, other) = (scene.key("a")?, claim()?, claim()?);
    let revision = scene.insert(&key, &first).await?;
    for (_, settlement) in settlements() {
        scene.lose(&key, owner(&other), &Change::Record(settled(&other, settlement))).await?;
    }
    scene.lose(&key, owner(&other), &renewal(LEASE * 2)).await?;
    scene.lose(&key, owner(&other), &Change::Record(takeover(&first)?)).await?;
    let found = scene.find(&key).await?;
    is_written(&found, &first)?;
    is_version(&found, revision)?;
    ensure(found.lease_left <= LEASE, "the lease is the claim's own", found)
}

async fn a_late_renewal_does_not_reopen(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = settled(&first, settlement);
        let revision = scene.write(&key, owner(&first), &record).await?;
        is_written(&scene.lose(&key, owner(&first), &renewal(LEASE)).await?, &record)?;
        let found = scene.find(&key).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
        ensure(found.retention_left <= RETENTION, "the retention is the settlement's own", found)?;
    }
    Ok(())
}

async fn a_second_settlement_changes_nothing(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = settled(&first, settlement);
        let revision = scene.write(&key, owner(&first), &record).await?;
        for second in [completion("other"), Settlement::Released, Settlement::Failed { no_effect: true }] {
            is_written(&scene.lose(&key, owner(&first), &Change::Record(settled(&first, second))).await?, &record)?;
        }
        let found = scene.find(&key).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn a_renewal_fits_no_settled_record(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = settled(&first, settlement);
        let revision = scene.write(&key, owner(&first), &record).await?;
        is_written(&scene.lose(&key, Guard::Unchanged(revision), &renewal(LEASE)).await?, &record)?;
        let found = scene.find(&key).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
        ensure(found.lease_left.is_zero() && found.retention_left <= RETENTION, "its times are unchanged", found)?;
    }
    Ok(())
}

async fn every_write_gives_another_revision(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let mut revisions: Vec<Revision> = Vec::new();
    let steps: [(Option<Guard>, Step); 7] = [
        (None, Step::Insert(first.clone())),
        (Some(owner(&first)), Step::Change(renewal(LEASE))),
        (Some(owner(&first)), Step::Change(renewal(LEASE))),
        (None, Step::Change(Change::Record(takeover(&first)?))),
        (None, Step::Change(renewal(LEASE))),
        (None, Step::Change(Change::Record(settled(&first, Settlement::Released)))),
        (None, Step::Change(Change::Record(takeover(&first)?))),
    ];
    for (guard, step) in steps {
        let revision = match step {
            Step::Insert(record) => scene.insert(&key, &record).await?,
            Step::Change(change) => {
                let last = revisions.last().copied().unwrap_or(Revision::from_number(0));
                scene.replace(&key, guard.unwrap_or(Guard::Unchanged(last)), &change).await?
            }
        };
        is_version(&scene.find(&key).await?, revision)?;
        ensure(!revisions.contains(&revision), format_args!("a revision that is none of {revisions:?}"), revision)?;
        // Every version before this one has lost its force.
        if let Some(&before) = revisions.last() {
            let late = Change::Record(takeover(&first)?);
            is_version(&scene.lose(&key, Guard::Unchanged(before), &late).await?, revision)?;
        }
        revisions.push(revision);
    }
    Ok(())
}

enum Step {
    Insert(NewRecord),
    Change(Change),
}

async fn a_revision_never_comes_twice(scene: &Scene) -> Verdict {
    let key = scene.key("a")?;
    let mut revisions = Vec::new();
    // Removed by expiry alone, and by a sweep.
    for sweeps in [false, true, true] {
        let first = claim_for(scene.unit() / 4, scene.unit() / 2)?;
        revisions.push(scene.insert(&key, &first).await?);
        if let Ok(renewed) = scene.store().replace(&key, owner(&first), &renewal(scene.unit() / 4)).await?.done() {
            // A renewal extends the retention, so this claim is settled to make it go.
            revisions.push(renewed);
            let short = settled_for(&first, Settlement::Released, scene.unit() / 4);
            scene.write(&key, owner(&first), &short).await?;
        }
        scene.outlast(scene.unit()).await;
        if sweeps {
            scene.store().sweep(core::num::NonZeroU32::MIN.saturating_add(9_999)).await?;
        }
    }
    let last = claim()?;
    let revision = scene.insert(&key, &last).await?;
    ensure(!revisions.contains(&revision), format_args!("a revision that is none of {revisions:?}"), revision)?;
    for seen in revisions {
        is_written(&scene.lose(&key, Guard::Unchanged(seen), &Change::Record(takeover(&last)?)).await?, &last)?;
    }
    Ok(())
}

async fn a_revision_of_another_key_fits_nothing(scene: &Scene) -> Verdict {
    let (mine, other) = (scene.key("mine")?, scene.key("other")?);
    let (my_claim, other_claim) = (claim()?, claim()?);
    scene.insert(&other, &other_claim).await?;
    let mut seen = scene.insert(&mine, &my_claim).await?;
    let current = scene.find(&other).await?.revision;
    // Revisions need not differ between keys; where they happen to be equal, this says nothing, so it is moved on.
    if seen == current {
        seen = scene.replace(&mine, owner(&my_claim), &renewal(LEASE)).await?;
    }
    let late = Change::Record(takeover(&other_claim)?);
    is_written(&scene.lose(&other, Guard::Unchanged(seen), &late).await?, &other_claim)?;
    is_written(&scene.find(&other).await?, &other_claim)?;
    is_written(&scene.find(&mine).await?, &my_claim)
}

async fn a_replacement_never_creates(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let revision = scene.insert(&scene.key("elsewhere")?, &first).await?;
    for guard in [owner(&first), Guard::Unchanged(revision), Guard::Unchanged(Revision::from_number(0))] {
        let changes = [Change::Record(completed(&first)), Change::Record(takeover(&first)?), renewal(LEASE)];
        for change in changes {
            scene.store().replace(&key, guard, &change).await?.lost()?;
            scene.find_vacant(&key).await?;
        }
    }
    Ok(())
}

async fn a_replacement_does_not_revive_an_expired_record(scene: &Scene) -> Verdict {
    let key = scene.key("a")?;
    let first = claim_for(scene.unit() / 2, scene.unit())?;
    let revision = scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    for guard in [owner(&first), Guard::Unchanged(revision)] {
        let changes = [renewal(LEASE), Change::Record(completed(&first)), Change::Record(takeover(&first)?)];
        for change in changes {
            scene.store().replace(&key, guard, &change).await?.lost()?;
            scene.find_vacant(&key).await?;
        }
    }
    Ok(())
}
