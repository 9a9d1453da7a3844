//! Promise 9: every method answers, through every handle and every wrapper.

use core::num::NonZeroU32;
use std::sync::Arc;

use idem_core::{Change, KeyStore, NewRecord, ScopedKey};

use crate::Halt;
use crate::expect::{ensure, is_version, is_written};
use crate::scene::{Answered, Occupied, Scene, Verdict, claim, completed, completion, owner, settled_for};

cases! { 9:
    every_wrapper_does_what_it_wraps = "Through a reference, a box and an arc, insert, replace and find act on the same record.";
    every_handle_sees_the_same_record = "What one handle writes the next one finds, and what the next one changes the first one finds.";
    stats_count_what_is_there (slow) = "Where the store knows them, the numbers of records and of expired ones are right.";
}

async fn acts(store: impl KeyStore, key: &ScopedKey) -> Verdict {
    let first = claim()?;
    let revision = store.insert(key, &first).await?.done()?;
    let found = store.insert(key, &claim()?).await?.occupied()?;
    is_written(&found, &first)?;
    is_version(&found, revision)?;
    let record = completed(&first);
    store.replace(key, owner(&first), &Change::Record(record.clone())).await?.done()?;
    let found = store.find(key).await?.ok_or_else(|| Halt::broken("the completed record", "vacant"))?;
    is_written(&found, &record)?;
    store.sweep(NonZeroU32::MIN).await?;
    store.stats().await?;
    let found = store.find(key).await?.ok_or_else(|| Halt::broken("the completed record", "vacant"))?;
    is_written(&found, &record)
}

async fn every_wrapper_does_what_it_wraps(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    acts(&*handles[0], &scene.key("ref")?).await?;
    acts(Box::new(&*handles[0]), &scene.key("box")?).await?;
    acts(Arc::clone(&handles[0]), &scene.key("arc")?).await?;
    let boxed: Box<dyn KeyStore> = Box::new(Arc::clone(&handles[1]));
    acts(boxed, &scene.key("dyn")?).await
}

async fn every_handle_sees_the_same_record(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    let sees = async |store: &dyn KeyStore, key: &ScopedKey, record: &NewRecord| -> Verdict {
        let found = store.find(key).await?.ok_or_else(|| Halt::broken("what another handle has written", "vacant"))?;
        is_written(&found, record)
    };
    for (round, writer) in handles.iter().enumerate() {
        let (key, first) = (scene.key(round)?, claim()?);
        let next = &handles[(round + 1) % handles.len()];
        writer.insert(&key, &first).await?.done()?;
        for handle in &handles {
            sees(&**handle, &key, &first).await?;
        }
        let record = completed(&first);
        next.replace(&key, owner(&first), &Change::Record(record.clone())).await?.done()?;
        for handle in &handles {
            sees(&**handle, &key, &record).await?;
        }
    }
    Ok(())
}

async fn stats_count_what_is_there(scene: &Scene) -> Verdict {
    scene.harness().alone().await?;
    for label in 0..3 {
        scene.insert(&scene.key(label)?, &claim()?).await?;
    }
    let watch = scene.watch();
    for label in 3..5 {
        let short = settled_for(&claim()?, completion("short"), scene.unit());
        scene.insert(&scene.key(label)?, &short).await?;
    }
    scene.elapse(scene.unit() * 2).await;
    let stats = scene.store().stats().await?;
    ensure(stats.records.is_none_or(|records| records == 5), "5 records, expired ones among them", stats)?;
    ensure(stats.expired.is_none_or(|expired| expired == 2), "2 expired records", stats)?;
    ensure(stats.bytes.is_none_or(|bytes| bytes > 0), "records that take bytes", stats)?;
    let (least, most) = (scene.unit() * 3 / 4, watch.at_most());
    ensure(
        stats.oldest_expired.is_none_or(|oldest| least <= oldest && oldest <= most),
        format_args!("the oldest expired between {least:?} and {most:?} ago"),
        stats,
    )
}
