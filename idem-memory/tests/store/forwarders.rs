//! A store behind a pointer is the same store.

use std::num::NonZeroU32;
use std::sync::Arc;

use idem_core::{Change, Inserted, KeyStore, Replaced, ScopedKey};

use crate::scene::{Scene, UNSETTLED, claim, completed, key, owner};

#[tokio::test]
async fn a_store_behind_a_pointer_does_all_that_the_store_does() {
    let scene = Scene::new();
    use_whole(&scene, &scene.store, &key(1)).await;
    use_whole(&scene, Arc::new(scene.store.clone()), &key(2)).await;
    use_whole(&scene, Box::new(scene.store.clone()), &key(3)).await;
    let shared: Arc<dyn KeyStore> = Arc::new(scene.store.clone());
    use_whole(&scene, &shared, &key(4)).await;
    let boxed: Box<dyn KeyStore> = Box::new(shared);
    use_whole(&scene, boxed, &key(5)).await;
}

async fn use_whole(scene: &Scene, store: impl KeyStore, key: &ScopedKey) {
    let Ok(Inserted::Done(claimed)) = store.insert(key, &claim(1)).await else { panic!() };
    assert_eq!(scene.find(key).await.unwrap().revision, claimed);
    let settle = Change::Record(completed(1, "paid"));
    let Ok(Replaced::Done(settled)) = store.replace(key, owner(1), &settle).await else { panic!() };
    assert_eq!(store.find(key).await.unwrap().unwrap().revision, settled);
    scene.clock.advance(UNSETTLED);
    assert_eq!(store.stats().await.unwrap().expired, Some(1));
    assert_eq!(store.sweep(NonZeroU32::MIN).await.unwrap().removed, 1);
    assert_eq!(scene.usage().await, (0, 0));
}
