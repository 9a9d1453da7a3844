//! Promise 3: a takeover and an operator write under the revision that was seen, and write all of the record.

use idem_core::{Change, Epoch, Guard, NewRecord, Settlement};

use crate::expect::{ensure, is_version, is_written};
use crate::scene::{
    LEASE, Scene, UNSETTLED, Verdict, claim, claim_for, completed, completion, fingerprint, owner, renewal, settled,
    settlements, takeover, token,
};

cases! { 3:
    a_takeover_ends_the_former_attempt = "After a takeover the former token can neither settle nor renew.";
    a_takeover_acts_on_what_was_seen = "A takeover that was decided before a renewal or a settlement changes nothing.";
    a_takeover_writes_the_whole_record = "A takeover replaces fingerprint, token and epoch, not only the lease.";
    an_abandoned_claim_is_taken_over (slow) = "A claim whose lease is over is taken over under its revision, and is alive again.";
    a_released_key_is_claimed_by_its_revision = "A released record remembers the epoch and is claimed by a replacement.";
    a_failed_key_is_claimed_by_its_revision = "A failed record is claimed by a replacement, where the policy runs it again.";
    a_released_key_is_settled_by_its_revision = "An attempt whose claim was released in its place may still write what it did, under the revision.";
    an_operator_settles_what_it_saw = "A settlement under the revision is written, and the late attempt loses by its token.";
    an_operator_does_not_settle_what_has_moved_on = "A settlement under a revision that is over changes nothing.";
}

async fn a_takeover_ends_the_former_attempt(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let seen = scene.insert(&key, &first).await?;
    let next = takeover(&first)?;
    let revision = scene.write(&key, Guard::Unchanged(seen), &next).await?;
    for (_, settlement) in settlements() {
        is_written(&scene.lose(&key, owner(&first), &Change::Record(settled(&first, settlement))).await?, &next)?;
    }
    is_written(&scene.lose(&key, owner(&first), &renewal(LEASE * 2)).await?, &next)?;
    is_version(&scene.find(&key).await?, revision)?;
    let record = completed(&next);
    scene.write(&key, owner(&next), &record).await?;
    is_written(&scene.find(&key).await?, &record)
}

async fn a_takeover_acts_on_what_was_seen(scene: &Scene) -> Verdict {
    let (renewed, done) = (scene.key("renewed")?, scene.key("settled")?);
    let first = claim()?;
    let seen = scene.insert(&renewed, &first).await?;
    scene.replace(&renewed, owner(&first), &renewal(LEASE)).await?;
    let late = Change::Record(takeover(&first)?);
    is_written(&scene.lose(&renewed, Guard::Unchanged(seen), &late).await?, &first)?;
    is_written(&scene.find(&renewed).await?, &first)?;

    let seen = scene.insert(&done, &first).await?;
    let record = completed(&first);
    scene.write(&done, owner(&first), &record).await?;
    is_written(&scene.lose(&done, Guard::Unchanged(seen), &late).await?, &record)?;
    is_written(&scene.find(&done).await?, &record)
}

async fn a_takeover_writes_the_whole_record(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let seen = scene.insert(&key, &first).await?;
    let next = NewRecord::claim(fingerprint(9), token()?, Epoch::from_number(41), LEASE, UNSETTLED);
    scene.write(&key, Guard::Unchanged(seen), &next).await?;
    is_written(&scene.find(&key).await?, &next)?;
    let record = completed(&next);
    scene.write(&key, owner(&next), &record).await?;
    is_written(&scene.find(&key).await?, &record)
}

async fn an_abandoned_claim_is_taken_over(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(scene.unit(), UNSETTLED)?);
    scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    let seen = scene.find(&key).await?;
    let next = takeover(&first)?;
    scene.write(&key, Guard::Unchanged(seen.revision), &next).await?;
    let found = scene.find(&key).await?;
    is_written(&found, &next)?;
    ensure(!found.lease_left.is_zero(), "the new claim is alive", found)
}

async fn is_claimed_by_its_revision(scene: &Scene, settlement: Settlement) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    let revision = scene.write(&key, owner(&first), &settled(&first, settlement)).await?;
    let next = takeover(&first)?;
    scene.write(&key, Guard::Unchanged(revision), &next).await?;
    let found = scene.find(&key).await?;
    is_written(&found, &next)?;
    ensure(!found.lease_left.is_zero(), "the new claim is alive", found)?;
    scene.lose(&key, owner(&first), &Change::Record(completed(&first))).await?;
    let record = completed(&next);
    scene.write(&key, owner(&next), &record).await?;
    is_written(&scene.find(&key).await?, &record)
}

async fn a_released_key_is_claimed_by_its_revision(scene: &Scene) -> Verdict {
    is_claimed_by_its_revision(scene, Settlement::Released).await
}

async fn a_failed_key_is_claimed_by_its_revision(scene: &Scene) -> Verdict {
    is_claimed_by_its_revision(scene, Settlement::Failed { no_effect: true }).await
}

async fn a_released_key_is_settled_by_its_revision(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    let seen = scene.write(&key, owner(&first), &settled(&claim()?, Settlement::Released)).await?;
    let record = completed(&first);
    let revision = scene.write(&key, Guard::Unchanged(seen), &record).await?;
    let found = scene.find(&key).await?;
    is_written(&found, &record)?;
    is_version(&found, revision)
}

async fn an_operator_settles_what_it_saw(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        let seen = scene.insert(&key, &first).await?;
        let record = first.record();
        let operator = NewRecord::settled(record.fingerprint, token()?, record.epoch, settlement, UNSETTLED);
        scene.write(&key, Guard::Unchanged(seen), &operator).await?;
        is_written(&scene.find(&key).await?, &operator)?;
        let late = Change::Record(settled(&first, completion("late")));
        is_written(&scene.lose(&key, owner(&first), &late).await?, &operator)?;
        is_written(&scene.find(&key).await?, &operator)?;
    }
    Ok(())
}

async fn an_operator_does_not_settle_what_has_moved_on(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let seen = scene.insert(&key, &first).await?;
    let record = completed(&first);
    scene.write(&key, owner(&first), &record).await?;
    for (_, settlement) in settlements() {
        let late = Change::Record(settled(&claim()?, settlement));
        is_written(&scene.lose(&key, Guard::Unchanged(seen), &late).await?, &record)?;
    }
    is_written(&scene.find(&key).await?, &record)
}
