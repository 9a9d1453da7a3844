//! What a sweep removes, what it leaves, and what the store says of it.

use std::num::NonZeroU32;
use std::task::{Context, Waker};
use std::time::Duration;

use idem_core::{Change, Guard, KeyStore, StoreStats, Swept};

use crate::scene::{
    DAY, HOUR, LEASE, Scene, UNSETTLED, claim, claim_for, completed, key, owner, renewal, token, token_of,
};

#[tokio::test]
async fn a_sweep_removes_at_most_its_limit_and_says_whether_more_is_left() {
    let scene = Scene::new();
    for number in 0..300 {
        scene.inserted(&key(number), &completed(1, "paid")).await;
    }
    for number in 300..310 {
        scene.inserted(&key(number), &claim(1)).await;
    }
    scene.clock.advance(DAY);
    assert_eq!(scene.sweep(1).await, Swept { removed: 1, more: true });
    assert_eq!(scene.sweep(200).await, Swept { removed: 200, more: true });
    assert_eq!(scene.sweep(99).await, Swept { removed: 99, more: false });
    assert_eq!(scene.sweep(99).await, Swept { removed: 0, more: false });
    for number in 300..310 {
        assert!(scene.find(&key(number)).await.is_some());
    }
}

#[tokio::test]
async fn a_sweep_of_everything_leaves_a_count_of_nothing() {
    let scene = Scene::new();
    for number in 0..1000 {
        scene.inserted(&key(number), &claim(1)).await;
        scene.replaced(&key(number), owner(1), &Change::Record(completed(1, vec![0; number]))).await;
    }
    scene.clock.advance(DAY);
    assert_eq!(scene.sweep(u32::MAX).await, Swept { removed: 1000, more: false });
    let nothing = StoreStats { records: Some(0), expired: Some(0), bytes: Some(0), oldest_expired: None };
    assert_eq!(scene.store.stats().await.unwrap(), nothing);
}

#[tokio::test]
async fn a_renewed_record_is_not_swept_at_the_time_it_had_before() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim_for(1, LEASE, HOUR)).await;
    scene.clock.advance(HOUR - LEASE);
    scene.replaced(&key(1), owner(1), &Change::Renew { lease: LEASE, retention: HOUR }).await;
    scene.clock.advance(LEASE);
    assert_eq!(scene.sweep(10).await, Swept::default());
    assert_eq!(token_of(&scene.find(&key(1)).await.unwrap()), token(1));
    scene.clock.advance(HOUR - LEASE);
    assert_eq!(scene.sweep(10).await.removed, 1);
}

#[tokio::test]
async fn a_record_inserted_anew_is_not_swept_for_its_predecessor() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim_for(1, LEASE, HOUR)).await;
    scene.clock.advance(HOUR);
    scene.inserted(&key(1), &claim(2)).await;
    assert_eq!(scene.sweep(10).await, Swept::default());
    assert_eq!(token_of(&scene.find(&key(1)).await.unwrap()), token(2));
}

#[tokio::test]
async fn a_record_taken_over_is_not_swept_for_its_predecessor() {
    let scene = Scene::new();
    let seen = scene.inserted(&key(1), &claim_for(1, LEASE, HOUR)).await;
    scene.clock.advance(HOUR - LEASE);
    scene.replaced(&key(1), Guard::Unchanged(seen), &Change::Record(claim(2))).await;
    scene.clock.advance(LEASE);
    assert_eq!(scene.sweep(10).await, Swept::default());
}

#[tokio::test]
async fn an_answer_is_swept_at_its_own_time_and_not_at_that_of_its_claim() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;
    scene.clock.advance(DAY);
    assert_eq!(scene.sweep(10).await.removed, 1);
    assert_eq!(scene.usage().await, (0, 0));
}

#[tokio::test]
async fn renewals_leave_nothing_behind_for_a_sweep() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    for _ in 0..1000 {
        scene.clock.advance(Duration::from_secs(10));
        scene.replaced(&key(1), owner(1), &renewal()).await;
    }
    scene.clock.advance(2 * UNSETTLED);
    let stats = scene.store.stats().await.unwrap();
    assert_eq!((stats.records, stats.expired), (Some(1), Some(1)));
    assert_eq!(scene.sweep(10).await, Swept { removed: 1, more: false });
}

#[tokio::test]
async fn stats_count_what_is_expired_and_how_long_the_oldest_has_been() {
    let scene = Scene::new();
    for number in 0..100 {
        scene.inserted(&key(number), &claim_for(1, LEASE, HOUR)).await;
        scene.clock.advance(Duration::from_secs(1));
    }
    let stats = scene.store.stats().await.unwrap();
    assert_eq!((stats.records, stats.expired, stats.oldest_expired), (Some(100), Some(0), None));

    scene.clock.advance(HOUR - Duration::from_secs(60));
    let stats = scene.store.stats().await.unwrap();
    // Keys 0 to 40 have ended, the first of them 40 seconds ago.
    assert_eq!((stats.records, stats.expired), (Some(100), Some(41)));
    assert_eq!(stats.oldest_expired, Some(Duration::from_secs(40)));
}

#[tokio::test]
async fn a_long_sweep_lets_others_run() {
    let scene = Scene::new();
    for number in 0..2000 {
        scene.inserted(&key(number), &claim(1)).await;
    }
    scene.clock.advance(UNSETTLED);
    let mut context = Context::from_waker(Waker::noop());
    let mut sweep = scene.store.sweep(NonZeroU32::MAX);
    let (mut before, mut pauses) = (2000, 0);
    while sweep.as_mut().poll(&mut context).is_pending() {
        let after = scene.usage().await.0;
        assert!(before - after <= 64, "{} removed without a pause", before - after);
        (before, pauses) = (after, pauses + 1);
    }
    assert!(before <= 64 && pauses >= 2000 / 64, "{pauses} pauses, {before} after the last");
    assert_eq!(scene.usage().await, (0, 0));
}
