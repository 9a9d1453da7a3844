//! The joined form: a claim made before, settled in the caller's transaction.

use std::time::Duration;

use idem_core::{
    Answer, Attempt, Begin, Fingerprint, Idempotency, InPlaceOfMine, Policy, Replaced, Settled, Settlement, Timer,
};

use crate::scene::{Scene, enter, key};

fn request() -> Fingerprint {
    Fingerprint::json("pay", br#"{"amount":"100.00"}"#)
}

fn answer(text: &'static str) -> Answer {
    Answer::Value(text.into())
}

async fn begin<T: Timer>(idem: &Idempotency<T>, name: &str) -> Attempt<T> {
    match idem.begin(&key(name), &request()).await.unwrap() {
        Begin::Run(attempt) => attempt,
        other => panic!("the key is free: {other:?}"),
    }
}

/// Books, and settles in the same transaction; commits where the claim is still the attempt's.
async fn book<T: Timer>(scene: &Scene, attempt: &Attempt<T>, text: &'static str) -> Replaced {
    let joined = attempt.joined(Settlement::Completed(answer(text))).await.expect("a record protects it");
    let mut tx = scene.pool.begin().await.unwrap();
    enter(&mut tx, text).await;
    let written = scene.store.settle_in(&mut tx, &joined).await.unwrap();
    match &written {
        Replaced::Done(_) => tx.commit().await.unwrap(),
        Replaced::Lost(_) => tx.rollback().await.unwrap(),
    }
    written
}

#[tokio::test]
async fn a_joined_completion_commits_with_its_business_writes_and_replays() {
    let scene = Scene::new().await;
    let idem = Idempotency::new(scene.store.clone(), tokio::time::sleep);
    let attempt = begin(&idem, "key-00000001").await;
    assert_eq!(scene.state("key-00000001").await, Some("in progress"));
    assert!(matches!(book(&scene, &attempt, "paid").await, Replaced::Done(_)));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["paid".into()], Some("completed")));
    let again = idem.begin(&key("key-00000001"), &request()).await.unwrap();
    assert!(matches!(again, Begin::Replay(stored) if stored == answer("paid")));
}

#[tokio::test]
async fn a_joined_completion_that_is_rolled_back_leaves_the_claim_and_may_be_settled_otherwise() {
    let scene = Scene::new().await;
    let idem = Idempotency::new(scene.store.clone(), tokio::time::sleep);
    let attempt = begin(&idem, "key-00000001").await;
    let joined = attempt.joined(Settlement::Completed(answer("paid"))).await.unwrap();
    let mut tx = scene.pool.begin().await.unwrap();
    enter(&mut tx, "paid").await;
    assert!(matches!(scene.store.settle_in(&mut tx, &joined).await.unwrap(), Replaced::Done(_)));
    tx.rollback().await.unwrap();
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec![], Some("in progress")));
    assert_eq!(attempt.settle(Settlement::Released).await, Settled::Done);
    assert!(matches!(idem.begin(&key("key-00000001"), &request()).await.unwrap(), Begin::Run(_)));
}

#[tokio::test]
async fn while_a_joined_completion_is_not_committed_others_see_the_claim_in_progress() {
    let scene = Scene::new().await;
    let idem = Idempotency::new(scene.store.clone(), tokio::time::sleep);
    let attempt = begin(&idem, "key-00000001").await;
    let joined = attempt.joined(Settlement::Completed(answer("paid"))).await.unwrap();
    let mut tx = scene.pool.begin().await.unwrap();
    scene.store.settle_in(&mut tx, &joined).await.unwrap();
    assert!(matches!(idem.begin(&key("key-00000001"), &request()).await.unwrap(), Begin::Refuse(_)));
    tx.commit().await.unwrap();
    assert!(matches!(idem.begin(&key("key-00000001"), &request()).await.unwrap(), Begin::Replay(_)));
}

#[tokio::test]
async fn an_attempt_that_lost_its_lease_rolls_back_and_its_client_gets_the_other_answer() {
    let scene = Scene::new().await;
    let policy = Policy::relaxed().customize().lease(Duration::from_millis(200)).build().unwrap();
    let idem = Idempotency::new(scene.store.clone(), tokio::time::sleep).policy(policy);
    let late = begin(&idem, "key-00000001").await;
    // Nobody drives it, so that nobody renews its lease.
    let successor = loop {
        match idem.begin(&key("key-00000001"), &request()).await.unwrap() {
            Begin::Run(attempt) => break attempt,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(matches!(book(&scene, &successor, "second").await, Replaced::Done(_)));
    assert!(matches!(book(&scene, &late, "first").await, Replaced::Lost(Some(_))));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["second".into()], Some("completed")));
    let settled = late.settle(Settlement::Completed(answer("first"))).await;
    assert_eq!(settled, Settled::LeaseLost(InPlaceOfMine::Answer(answer("second"))));
    assert_eq!(scene.ledger().await, ["second"]);
}

#[tokio::test]
async fn a_second_completion_of_one_attempt_rolls_back_and_settling_again_is_done() {
    let scene = Scene::new().await;
    let idem = Idempotency::new(scene.store.clone(), tokio::time::sleep);
    let attempt = begin(&idem, "key-00000001").await;
    assert!(matches!(book(&scene, &attempt, "paid").await, Replaced::Done(_)));
    assert!(matches!(book(&scene, &attempt, "paid").await, Replaced::Lost(Some(_))));
    assert_eq!(attempt.settle(Settlement::Completed(answer("paid"))).await, Settled::Done);
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["paid".into()], Some("completed")));
}
