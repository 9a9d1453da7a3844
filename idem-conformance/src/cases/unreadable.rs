//! Promise 7: a record that cannot be decoded is an answer of its own.

use core::num::NonZeroU32;

use idem_core::{Change, Content, Found, Guard, NewRecord, ScopedKey};

use crate::expect::{ensure, is_written};
use crate::scene::{
    LEASE, Occupied, Scene, Verdict, claim, completed, completion, owner, renewal, settled_for, takeover,
};
use crate::{Damage, Halt};

cases! { 7:
    a_corrupt_record_is_found_unreadable = "Find gives a corrupt record as unreadable: not vacant, no default, no error.";
    a_corrupt_record_keeps_its_key = "An insert over a corrupt record is Occupied, and writes nothing.";
    a_corrupt_record_has_no_owner = "The token of a claim that became corrupt guards nothing any more.";
    a_corrupt_record_is_not_swept = "A corrupt record within its retention survives a sweep.";
    a_corrupt_record_expires (slow) = "A corrupt record goes with its retention, as any other.";
}

fn is_unreadable(found: &Found) -> Verdict {
    ensure(matches!(found.content, Content::Unreadable(_)), "the record is there, unreadable", found)
}

/// A corrupt claim, and a corrupt completed record.
async fn damaged(scene: &Scene) -> Result<[(ScopedKey, NewRecord); 2], Halt> {
    let (claimed, done, first) = (scene.key("claimed")?, scene.key("settled")?, claim()?);
    scene.insert(&claimed, &first).await?;
    scene.insert(&done, &first).await?;
    scene.write(&done, owner(&first), &completed(&first)).await?;
    scene.harness().damage(&claimed, Damage::Corrupt).await?;
    scene.harness().damage(&done, Damage::Corrupt).await?;
    Ok([(claimed, first.clone()), (done, first)])
}

async fn a_corrupt_record_is_found_unreadable(scene: &Scene) -> Verdict {
    for (key, _) in damaged(scene).await? {
        is_unreadable(&scene.find(&key).await?)?;
    }
    Ok(())
}

async fn a_corrupt_record_keeps_its_key(scene: &Scene) -> Verdict {
    for (key, _) in damaged(scene).await? {
        let seen = scene.find(&key).await?.revision;
        let met = scene.store().insert(&key, &claim()?).await?.occupied()?;
        is_unreadable(&met)?;
        let found = scene.find(&key).await?;
        is_unreadable(&found)?;
        ensure(found.revision == seen, "the revision stays, as long as nothing is written", found)?;
    }
    Ok(())
}

async fn a_corrupt_record_has_no_owner(scene: &Scene) -> Verdict {
    for (key, first) in damaged(scene).await? {
        for change in [renewal(LEASE), Change::Record(completed(&first)), Change::Record(takeover(&first)?)] {
            is_unreadable(&scene.lose(&key, owner(&first), &change).await?)?;
            is_unreadable(&scene.find(&key).await?)?;
        }
    }
    Ok(())
}

async fn a_corrupt_record_is_not_swept(scene: &Scene) -> Verdict {
    let records = damaged(scene).await?;
    scene.store().sweep(NonZeroU32::MIN.saturating_add(9_999)).await?;
    for (key, _) in records {
        is_unreadable(&scene.find(&key).await?)?;
    }
    Ok(())
}

async fn a_corrupt_record_expires(scene: &Scene) -> Verdict {
    let key = scene.key("a")?;
    for unit in scene.units() {
        let watch = scene.watch();
        let revision = scene.insert(&key, &settled_for(&claim()?, completion("paid"), unit)).await?;
        let damage = scene.harness().damage(&key, Damage::Corrupt).await;
        let found = scene.store().find(&key).await?;
        let in_time = watch.at_most() < unit / 2;
        scene.outlast(unit).await;
        if in_time {
            damage?;
            let found = found.ok_or_else(|| Halt::broken("the damaged record", "vacant"))?;
            is_unreadable(&found)?;
            let next = claim()?;
            scene.insert(&key, &next).await?;
            let late = Change::Record(takeover(&next)?);
            is_written(&scene.lose(&key, Guard::Unchanged(revision), &late).await?, &next)?;
            return is_written(&scene.find(&key).await?, &next);
        }
        if let Err(skipped @ Halt::Skipped(_)) = damage {
            return Err(skipped);
        }
    }
    scene.cannot_tell()
}
