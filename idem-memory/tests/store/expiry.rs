//! When a record is there, and when it is not.

use std::time::Duration;

use idem_core::{Change, Content, Found, Guard, Inserted, Replaced};

use crate::scene::{
    DAY, HOUR, LEASE, Scene, TICK, UNSETTLED, answered, claim, claim_for, completed, completed_for, key, owner,
    renewal, state_of, token_of,
};

#[tokio::test]
async fn a_record_is_absent_to_every_call_from_the_moment_its_retention_is_over() {
    let scene = Scene::new();
    let revision = scene.inserted(&key(1), &claim(1)).await;

    scene.clock.advance(UNSETTLED - TICK);
    assert!(matches!(scene.insert(&key(1), &claim(2)).await, Ok(Inserted::Occupied(_))));
    assert!(scene.find(&key(1)).await.is_some());

    scene.clock.advance(TICK);
    assert_eq!(scene.find(&key(1)).await, None);
    let settle = Change::Record(completed(1, "late"));
    assert_eq!(scene.replace(&key(1), owner(1), &settle).await, Replaced::Lost(None));
    assert_eq!(scene.replace(&key(1), Guard::Unchanged(revision), &settle).await, Replaced::Lost(None));
    assert_eq!(scene.replace(&key(1), owner(1), &renewal()).await, Replaced::Lost(None));
    assert!(matches!(scene.insert(&key(1), &claim(2)).await, Ok(Inserted::Done(_))));
}

#[tokio::test]
async fn a_live_lease_protects_a_record_whose_retention_is_over() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim_for(1, 6 * LEASE, LEASE)).await;

    scene.clock.advance(6 * LEASE - TICK);
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.lease_left, found.retention_left), (TICK, Duration::ZERO));
    assert!(matches!(scene.insert(&key(1), &claim(2)).await, Ok(Inserted::Occupied(_))));
    assert_eq!(scene.sweep(10).await.removed, 0);

    scene.clock.advance(TICK);
    assert_eq!(scene.find(&key(1)).await, None);
}

#[tokio::test]
async fn a_renewed_lease_protects_a_record_whose_retention_is_over() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim_for(1, LEASE, LEASE)).await;
    let renewal = Change::Renew { lease: HOUR, retention: LEASE };
    scene.replaced(&key(1), owner(1), &renewal).await;

    scene.clock.advance(HOUR - TICK);
    assert!(scene.find(&key(1)).await.is_some());
    scene.clock.advance(TICK);
    assert_eq!(scene.find(&key(1)).await, None);
}

#[tokio::test]
async fn a_claim_that_nobody_settles_outlives_an_answer() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.inserted(&key(2), &claim(2)).await;
    scene.replaced(&key(2), owner(2), &Change::Record(completed(2, "paid"))).await;

    scene.clock.advance(DAY);
    assert_eq!(scene.find(&key(2)).await, None);
    let abandoned = scene.find(&key(1)).await.unwrap();
    assert_eq!((abandoned.age, abandoned.lease_left), (DAY, Duration::ZERO));
    assert_eq!(abandoned.retention_left, UNSETTLED - DAY);
}

#[tokio::test]
async fn times_of_a_claim_count_from_its_insert() {
    let scene = Scene::new();
    let revision = scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(Duration::from_secs(10));
    let found = Found {
        revision,
        age: Duration::from_secs(10),
        lease_left: Duration::from_secs(20),
        retention_left: UNSETTLED - Duration::from_secs(10),
        content: Content::Readable(claim(1).record().clone()),
    };
    assert_eq!(scene.find(&key(1)).await, Some(found.clone()));
    assert_eq!(scene.insert(&key(1), &claim(2)).await.unwrap(), Inserted::Occupied(found));
}

#[tokio::test]
async fn a_renewal_restores_the_retention_when_less_than_half_is_left() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(UNSETTLED / 2 + TICK);
    scene.replaced(&key(1), owner(1), &renewal()).await;
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.lease_left, found.retention_left), (LEASE, UNSETTLED));
    assert_eq!(found.age, UNSETTLED / 2 + TICK, "a renewal is no new claim");

    scene.clock.advance(UNSETTLED - TICK);
    assert!(scene.find(&key(1)).await.is_some());
    scene.clock.advance(TICK);
    assert_eq!(scene.find(&key(1)).await, None);
}

#[tokio::test]
async fn a_renewal_leaves_the_retention_when_half_is_left() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(UNSETTLED / 2);
    scene.replaced(&key(1), owner(1), &renewal()).await;
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.lease_left, found.retention_left), (LEASE, UNSETTLED / 2));
}

#[tokio::test]
async fn an_answer_is_kept_for_its_retention_from_the_claim() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(HOUR);
    scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;

    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.age, found.lease_left, found.retention_left), (HOUR, Duration::ZERO, DAY - HOUR));
    scene.clock.advance(DAY - HOUR - TICK);
    assert_eq!(state_of(&scene.find(&key(1)).await.unwrap()), &answered(b"paid"));
    scene.clock.advance(TICK);
    assert_eq!(scene.find(&key(1)).await, None);
}

#[tokio::test]
async fn an_answer_that_comes_late_is_kept_for_half_its_retention_at_least() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(3 * DAY);
    scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;

    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.age, found.retention_left), (3 * DAY, DAY / 2));
    scene.clock.advance(DAY / 2);
    assert_eq!(scene.find(&key(1)).await, None);
}

#[tokio::test]
async fn an_answer_inserted_into_a_vacant_key_is_kept_from_now() {
    let scene = Scene::new();
    scene.inserted(&key(1), &completed(1, "paid")).await;
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.age, found.lease_left, found.retention_left), (Duration::ZERO, Duration::ZERO, DAY));
}

#[tokio::test]
async fn an_answer_inserted_over_an_expired_record_is_kept_from_now() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(UNSETTLED);
    scene.inserted(&key(1), &completed(1, "paid")).await;
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.age, found.retention_left), (Duration::ZERO, DAY));
}

#[tokio::test]
async fn a_takeover_starts_every_time_anew() {
    let scene = Scene::new();
    let revision = scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(HOUR);
    scene.replaced(&key(1), Guard::Unchanged(revision), &Change::Record(claim(2))).await;
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.age, found.lease_left, found.retention_left), (Duration::ZERO, LEASE, UNSETTLED));
}

#[tokio::test]
async fn a_settling_after_the_lease_is_written_while_nobody_took_the_key() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(DAY);
    scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;
    assert_eq!(state_of(&scene.find(&key(1)).await.unwrap()), &answered(b"paid"));
}

#[tokio::test]
async fn the_longest_durations_neither_overflow_nor_end_early() {
    let scene = Scene::new();
    scene.clock.advance(HOUR);
    scene.inserted(&key(1), &claim_for(1, Duration::MAX, Duration::MAX)).await;
    scene.inserted(&key(2), &claim(2)).await;
    scene.replaced(&key(1), owner(1), &Change::Renew { lease: Duration::MAX, retention: Duration::MAX }).await;
    scene.replaced(&key(2), owner(2), &Change::Record(completed_for(2, "paid", Duration::MAX))).await;

    scene.clock.advance(Duration::from_secs(u64::MAX / 2));
    assert_eq!(token_of(&scene.find(&key(1)).await.unwrap()), crate::scene::token(1));
    assert!(scene.find(&key(2)).await.is_some());

    // At the last moment of the clock even the longest retention is over, and nothing blocks the key for ever.
    scene.clock.advance(Duration::MAX);
    assert_eq!(scene.find(&key(1)).await, None);
    assert_eq!(scene.sweep(10).await.removed, 2);
    assert!(matches!(scene.insert(&key(1), &claim(3)).await, Ok(Inserted::Done(_))));
}
