//! Promise 10: records carry a format version.

use idem_core::{Content, Unreadable};

use crate::Damage;
use crate::expect::ensure;
use crate::scene::{Occupied, Scene, Verdict, claim, completed, owner};

cases! { 10:
    an_unknown_version_is_named = "A record of a version that this release does not know is unreadable, and says which version it has.";
    an_unknown_version_keeps_its_key = "A record of an unknown version is not vacant: an insert is Occupied.";
}

/// A version far from any that is in use.
const UNKNOWN: u8 = 219;

async fn an_unknown_version_is_named(scene: &Scene) -> Verdict {
    let (claimed, done, first) = (scene.key("claimed")?, scene.key("settled")?, claim()?);
    scene.insert(&claimed, &first).await?;
    scene.insert(&done, &first).await?;
    scene.write(&done, owner(&first), &completed(&first)).await?;
    for key in [claimed, done] {
        scene.harness().damage(&key, Damage::Version(UNKNOWN)).await?;
        let found = scene.find(&key).await?;
        let named = Content::Unreadable(Unreadable::UnknownVersion { version: UNKNOWN });
        ensure(found.content == named, format_args!("{named:?}"), found)?;
    }
    Ok(())
}

async fn an_unknown_version_keeps_its_key(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    scene.harness().damage(&key, Damage::Version(UNKNOWN)).await?;
    let met = scene.store().insert(&key, &claim()?).await?.occupied()?;
    ensure(matches!(met.content, Content::Unreadable(_)), "the record is there, unreadable", met)?;
    let found = scene.find(&key).await?;
    ensure(matches!(found.content, Content::Unreadable(_)), "the record is there, unreadable", found)
}
