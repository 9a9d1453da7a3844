//! Both forms on one key: not meant to be, and no double effect all the same.

use crate::scene::{Scene, paid};

#[tokio::test]
async fn a_key_completed_in_one_form_replays_in_the_other() {
    let scene = Scene::new().await;
    let (leases, service) = (scene.service_with_leases(), scene.plain_service().await);
    assert_eq!(leases.pay("key-00000001", "pays").await, paid("leased"));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("leased").replayed());
    assert_eq!(service.pay("key-00000002", "pays").await, paid("payment"));
    assert_eq!(leases.pay("key-00000002", "pays").await, paid("payment").replayed());
    assert_eq!(scene.ledger().await, ["leased", "payment"]);
}

#[tokio::test]
async fn a_claim_with_a_lease_is_in_progress_to_a_transaction() {
    let scene = Scene::new().await;
    let (leases, service) = (scene.service_with_leases(), scene.plain_service().await);
    let claimed = leases.paying("key-00000001", "waits");
    leases.gates.is_inside.notified().await;
    assert_eq!(service.pay("key-00000001", "pays").await.problem(), (409, "in-progress"));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec![], Some("in progress")));
    leases.gates.may_go_on.notify_one();
    assert_eq!(claimed.await.unwrap(), paid("leased"));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("leased").replayed());
    assert_eq!(scene.ledger().await, ["leased"]);
}

#[tokio::test]
async fn a_transaction_whose_key_was_claimed_and_completed_meanwhile_rolls_back_and_gives_that_answer() {
    let scene = Scene::new().await;
    let (leases, service) = (scene.service_with_leases(), scene.plain_service().await);
    let open = service.paying("key-00000001", "waits");
    service.gates.is_inside.notified().await;
    assert_eq!(leases.pay("key-00000001", "pays").await, paid("leased"));
    service.gates.may_go_on.notify_one();
    assert_eq!(open.await.unwrap(), paid("leased").replayed());
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["leased".into()], Some("completed")));
}

#[tokio::test]
async fn a_transaction_whose_key_was_claimed_meanwhile_rolls_back_and_is_in_progress() {
    let scene = Scene::new().await;
    let (leases, service) = (scene.service_with_leases(), scene.plain_service().await);
    let open = service.paying("key-00000001", "waits");
    service.gates.is_inside.notified().await;
    let claimed = leases.paying("key-00000001", "waits");
    leases.gates.is_inside.notified().await;
    service.gates.may_go_on.notify_one();
    assert_eq!(open.await.unwrap().problem(), (409, "in-progress"));
    assert!(scene.ledger().await.is_empty());
    leases.gates.may_go_on.notify_one();
    assert_eq!(claimed.await.unwrap(), paid("leased"));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("leased").replayed());
    assert_eq!(scene.ledger().await, ["leased"]);
}
