//! Promise 1: an insert is one atomic step with a durable record at its end.

use core::time::Duration;
use std::sync::Arc;

use idem_core::{Inserted, ScopedKey};

use crate::Halt;
use crate::expect::{ensure, is_version, is_written};
use crate::scene::{
    Answered, Occupied, RACERS, ROUNDS, Scene, UNSETTLED, Verdict, all_at_once, claim, claim_for, completed, owner,
    settled, settlements,
};

cases! { 1:
    an_insert_is_there_at_once = "A claim that was inserted is found, whole, under the revision that the insert gave.";
    a_settled_record_may_be_inserted = "A settled record is inserted where the key is vacant, and is found.";
    an_insert_over_a_live_claim_is_occupied = "A second claim of a key that is in progress writes nothing.";
    an_insert_over_a_settled_record_is_occupied = "A claim of a key that is completed, failed or released writes nothing.";
    an_insert_over_an_abandoned_claim_is_occupied (slow) = "A claim whose lease is over still holds its key against an insert.";
    one_of_many_inserts_wins = "Of many inserts of one key at once, through several handles, exactly one is Done.";
    inserts_of_many_keys_all_win = "Inserts of many keys at once are all Done, each under its own key.";
    the_shortest_times_are_taken (slow) = "A lease and a retention of one nanosecond are no error, and are over at once.";
    the_longest_times_are_taken = "A retention of a hundred years is no error, and does not wrap.";
    a_dropped_insert_leaves_all_or_nothing = "An insert whose future is dropped has written the whole record or nothing.";
}

async fn an_insert_is_there_at_once(scene: &Scene) -> Verdict {
    let (key, claim) = (scene.key("a")?, claim()?);
    scene.find_vacant(&key).await?;
    let revision = scene.insert(&key, &claim).await?;
    for handle in scene.handles().await? {
        let found = handle.find(&key).await?.ok_or_else(|| Halt::broken("every handle finds the claim", "vacant"))?;
        is_written(&found, &claim)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn a_settled_record_may_be_inserted(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let key = scene.key(label)?;
        let record = settled(&claim()?, settlement);
        let revision = scene.insert(&key, &record).await?;
        let found = scene.find(&key).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn an_insert_over_a_live_claim_is_occupied(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let revision = scene.insert(&key, &first).await?;
    is_written(&scene.store().insert(&key, &claim()?).await?.occupied()?, &first)?;
    is_written(&scene.store().insert(&key, &completed(&claim()?)).await?.occupied()?, &first)?;
    let found = scene.find(&key).await?;
    is_written(&found, &first)?;
    is_version(&found, revision)
}

async fn an_insert_over_a_settled_record_is_occupied(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        let record = settled(&first, settlement);
        scene.insert(&key, &first).await?;
        let revision = scene.write(&key, owner(&first), &record).await?;
        is_written(&scene.store().insert(&key, &claim()?).await?.occupied()?, &record)?;
        let found = scene.find(&key).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn an_insert_over_an_abandoned_claim_is_occupied(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(scene.unit(), UNSETTLED)?);
    scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    let found = scene.store().insert(&key, &claim()?).await?.occupied()?;
    is_written(&found, &first)?;
    ensure(found.lease_left.is_zero(), "the lease is over", &found)?;
    is_written(&scene.find(&key).await?, &first)
}

async fn one_of_many_inserts_wins(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    for round in 0..ROUNDS {
        let key = scene.key(round)?;
        let mut races = Vec::new();
        for racer in 0..RACERS {
            let (handle, key, claim) = (Arc::clone(&handles[racer % handles.len()]), key.clone(), claim()?);
            races.push(async move { handle.insert(&key, &claim).await });
        }
        let mut done = 0;
        for answer in all_at_once(races).await? {
            done += usize::from(matches!(answer?, Inserted::Done(_)));
        }
        ensure(done == 1, format_args!("1 of {RACERS} inserts is Done"), format_args!("{done} are"))?;
    }
    Ok(())
}

async fn inserts_of_many_keys_all_win(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    let mut inserts = Vec::new();
    let mut written = Vec::new();
    for number in 0..4 * RACERS {
        let (handle, key, claim) = (Arc::clone(&handles[number % handles.len()]), scene.key(number)?, claim()?);
        written.push((key.clone(), claim.clone()));
        inserts.push(async move { handle.insert(&key, &claim).await });
    }
    let answers = all_at_once(inserts).await?;
    for (answer, (key, claim)) in answers.into_iter().zip(written) {
        let revision = answer?.done()?;
        let found = scene.find(&key).await?;
        is_written(&found, &claim)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn the_shortest_times_are_taken(scene: &Scene) -> Verdict {
    let instant = Duration::from_nanos(1);
    let (abandoned, gone) = (scene.key("abandoned")?, scene.key("gone")?);
    let first = claim_for(instant, UNSETTLED)?;
    scene.insert(&abandoned, &first).await?;
    scene.insert(&gone, &claim_for(instant, instant)?).await?;
    scene.outlast(scene.unit()).await;
    let found = scene.find(&abandoned).await?;
    is_written(&found, &first)?;
    ensure(found.lease_left.is_zero(), "a lease of one nanosecond is over", &found)?;
    scene.find_vacant(&gone).await?;
    scene.insert(&gone, &claim()?).await?;
    Ok(())
}

async fn the_longest_times_are_taken(scene: &Scene) -> Verdict {
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    let (key, first) = (scene.key("a")?, claim_for(century / 2, century)?);
    scene.insert(&key, &first).await?;
    let found = scene.find(&key).await?;
    is_written(&found, &first)?;
    let (day, last) = (Duration::from_secs(24 * 3600), found.retention_left);
    ensure(last > century - day && last <= century + day, "a hundred years are left", &found)?;
    let last = found.lease_left;
    ensure(last > century / 2 - day && last <= century / 2 + day, "fifty years of lease are left", &found)
}

async fn a_dropped_insert_leaves_all_or_nothing(scene: &Scene) -> Verdict {
    for round in 0..4 * ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        drop_after(round, scene, &key, &first).await;
        if let Some(found) = scene.store().find(&key).await? {
            is_written(&found, &first)?;
        }
        // The retry of the same attempt: either way, the key is its own afterwards.
        if let Inserted::Occupied(found) = scene.store().insert(&key, &first).await? {
            is_written(&found, &first)?;
        }
        is_written(&scene.find(&key).await?, &first)?;
    }
    Ok(())
}

/// Drops an insert later in each round: after so many polls first, then after so many milliseconds.
async fn drop_after(round: usize, scene: &Scene, key: &ScopedKey, claim: &idem_core::NewRecord) {
    let mut insert = scene.store().insert(key, claim);
    if round < ROUNDS {
        for _ in 0..=round {
            let mut done = false;
            core::future::poll_fn(|context| {
                done = insert.as_mut().poll(context).is_ready();
                core::task::Poll::Ready(())
            })
            .await;
            if done {
                return;
            }
            tokio::task::yield_now().await;
        }
    } else {
        let bound = Duration::from_micros(200) * u32::try_from(round - ROUNDS).unwrap_or(0);
        let _ = tokio::time::timeout(bound, insert).await;
    }
}
