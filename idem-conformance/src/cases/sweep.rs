//! Promise 1: a durable record is not swept away.

use core::num::NonZeroU32;
use std::sync::Arc;

use idem_core::{Inserted, StoreError, Swept};

use crate::expect::{ensure, is_written};
use crate::scene::{
    LEASE, RACERS, Scene, UNSETTLED, Verdict, all_at_once, claim, claim_for, completed, completion, owner, settled_for,
};

cases! { 1:
    a_sweep_spares_what_is_alive = "Live claims and settled records within their retention survive any sweep.";
    a_sweep_spares_an_abandoned_claim (slow) = "A claim whose lease is over, but not its retention, survives a sweep.";
    a_sweep_spares_a_live_lease (slow) = "A record with a live lease survives a sweep after its retention.";
    a_sweep_spares_what_was_inserted_anew (slow) = "Sweeps at the same time as inserts over expired records take none of the new records.";
    a_sweep_keeps_to_its_limit (slow) = "A sweep removes at most as many as it was told to, says how many, and whether there are more.";
    sweeps_remove_all_that_is_expired (slow) = "Sweeps that go on while there is more remove every expired record and nothing else.";
}

const MANY: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");

async fn a_sweep_spares_what_is_alive(scene: &Scene) -> Verdict {
    let mut written = Vec::new();
    for label in 0..4 {
        let (key, first) = (scene.key(label)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = completed(&first);
        if label % 2 == 0 {
            written.push((key, first));
        } else {
            scene.write(&key, owner(&first), &record).await?;
            written.push((key, record));
        }
    }
    scene.store().sweep(MANY).await?;
    for (key, record) in written {
        is_written(&scene.find(&key).await?, &record)?;
    }
    Ok(())
}

async fn a_sweep_spares_an_abandoned_claim(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(scene.unit(), UNSETTLED)?);
    scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    scene.store().sweep(MANY).await?;
    is_written(&scene.find(&key).await?, &first)
}

async fn a_sweep_spares_a_live_lease(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim_for(LEASE, scene.unit())?);
    scene.insert(&key, &first).await?;
    scene.outlast(scene.unit()).await;
    scene.store().sweep(MANY).await?;
    is_written(&scene.find(&key).await?, &first)
}

async fn a_sweep_spares_what_was_inserted_anew(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    const KEYS: usize = 3 * RACERS;
    for label in 0..KEYS {
        scene.insert(&scene.key(label)?, &settled_for(&claim()?, completion("old"), scene.unit())).await?;
    }
    scene.outlast(scene.unit()).await;
    let mut tasks: Vec<core::pin::Pin<Box<dyn Future<Output = Result<_, StoreError>> + Send>>> = Vec::new();
    for label in 0..KEYS {
        let (handle, key, claim) = (Arc::clone(&handles[label % handles.len()]), scene.key(label)?, claim()?);
        tasks.push(Box::pin(async move {
            let answer = handle.insert(&key, &claim).await?;
            Ok(Some((key, claim, answer)))
        }));
        if label % 8 == 0 {
            let handle = Arc::clone(&handles[label % handles.len()]);
            tasks.push(Box::pin(async move { handle.sweep(MANY).await.map(|_| None) }));
        }
    }
    for written in all_at_once(tasks).await? {
        if let Some((key, claim, answer)) = written? {
            ensure(matches!(answer, Inserted::Done(_)), "an insert over an expired record is Done", answer)?;
            is_written(&scene.find(&key).await?, &claim)?;
        }
    }
    Ok(())
}

async fn expire(scene: &Scene, keys: usize) -> Verdict {
    for label in 0..keys {
        scene.insert(&scene.key(label)?, &settled_for(&claim()?, completion("old"), scene.unit())).await?;
    }
    scene.outlast(scene.unit()).await;
    Ok(())
}

async fn a_sweep_keeps_to_its_limit(scene: &Scene) -> Verdict {
    let two = NonZeroU32::MIN.saturating_add(1);
    expire(scene, 5).await?;
    let mut removed = 0;
    for sweeps in 1..=10 {
        let swept = scene.store().sweep(two).await?;
        ensure(swept.removed <= 2, "a sweep of at most 2 removes at most 2", swept)?;
        // Where others sweep too, that is all that can be told.
        scene.harness().alone().await?;
        removed += swept.removed;
        ensure(swept.more || removed == 5, format_args!("there is more after {sweeps} sweeps of 5 records"), swept)?;
        if removed == 5 {
            break;
        }
    }
    ensure(removed == 5, "sweeps of at most 2 remove 5 records, and say so", removed)?;
    let rest = scene.store().sweep(MANY).await?;
    ensure(rest.removed == 0, "nothing is left that no sweep has counted", rest)
}

async fn sweeps_remove_all_that_is_expired(scene: &Scene) -> Verdict {
    scene.harness().alone().await?;
    let (key, alive) = (scene.key("alive")?, claim()?);
    scene.insert(&key, &alive).await?;
    expire(scene, 10).await?;
    let mut removed = 0;
    for _ in 0..20 {
        let swept = scene.store().sweep(NonZeroU32::MIN.saturating_add(3)).await?;
        removed += swept.removed;
        if !swept.more {
            break;
        }
    }
    ensure(removed == 10, "sweeps go on while there is more, and remove 10 records", removed)?;
    let last = scene.store().sweep(MANY).await?;
    ensure(last == Swept { removed: 0, more: false }, "nothing is left to remove", last)?;
    let stats = scene.store().stats().await?;
    ensure(stats.records.is_none_or(|records| records == 1), "one record is left", stats)?;
    ensure(stats.expired.is_none_or(|expired| expired == 0), "no expired record is left", stats)?;
    is_written(&scene.find(&key).await?, &alive)
}
