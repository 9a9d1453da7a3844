//! Whose key it is, and for what.

use http::Method;
use idem_tests::{ORDER, payments};

#[tokio::test]
async fn the_same_key_of_another_caller_is_another_key() {
    let server = payments!().await;
    let (alice, bob) = (server.caller("alice"), server.caller("bob"));
    let key = "one-key-for-two-callers";

    let of_alice = alice.pay(key).send().await;
    let of_bob = bob.pay(key).send().await;
    let ids = [&of_alice, &of_bob].map(|answer| answer.assert_charged("/payments", "100.00", "RUB"));
    alice.pay(key).send().await.assert_replay_of(&of_alice);
    bob.pay(key).send().await.assert_replay_of(&of_bob);

    let ledger = server.ledger().await;
    assert_eq!(ledger.iter().map(|charge| &*charge.id).collect::<Vec<_>>(), ids);
    assert_eq!(ledger.iter().map(|charge| &*charge.principal).collect::<Vec<_>>(), ["alice", "bob"]);
    assert_ne!(ledger[0].bank_key, ledger[1].bank_key, "the bank would take bob's payment for a retry of alice's");
}

#[tokio::test]
async fn the_same_key_on_another_route_is_another_key() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let key = "one-key-for-two-routes";
    let refund = alice.post("/refunds").key(key).json(ORDER);

    let paid = alice.pay(key).send().await;
    paid.assert_charged("/payments", "100.00", "RUB");
    let refunded = refund.send().await;
    refunded.assert_charged("/refunds", "100.00", "RUB");
    alice.pay(key).send().await.assert_replay_of(&paid);
    refund.send().await.assert_replay_of(&refunded);

    let ledger = server.ledger().await;
    assert_eq!(ledger.iter().map(|charge| &*charge.kind).collect::<Vec<_>>(), ["payment", "refund"]);
    assert_ne!(ledger[0].bank_key, ledger[1].bank_key);
}

#[tokio::test]
async fn what_a_path_parameter_says_is_part_of_the_request() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let like = |post: &str| alice.post(&format!("/likes/{post}")).key("one-key-for-two-posts");

    let first = like("1").send().await;
    assert_eq!((first.status, first.is_replayed(), &first.json()["post"]), (201, false, &"1".into()));
    like("2").send().await.assert_problem(422, "key-reused");
    like("1").send().await.assert_replay_of(&first);
    assert_eq!(server.ledger().await.len(), 1);
}

#[tokio::test]
async fn whoever_is_not_known_gets_nothing_of_what_a_key_holds() {
    let server = payments!().await;
    server.caller("alice").pay("a-key-of-alice").send().await.assert_charged("/payments", "100.00", "RUB");

    let stranger = || server.call(Method::POST, "/payments").key("a-key-of-alice").json(ORDER);
    for (why, call) in [
        ("nothing", stranger()),
        ("another scheme", stranger().header("authorization", "Basic YWxpY2U6")),
        ("no name", stranger().header("authorization", "Bearer ")),
        ("a name that is too long", stranger().header("authorization", format!("Bearer {}", "a".repeat(256)))),
        ("two names", stranger().header("authorization", "Bearer alice").header("authorization", "Bearer bob")),
    ] {
        let answer = call.send().await;
        answer.assert_problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"payments\""), "{why}");
    }
    let receipt = server.call(Method::GET, "/payments/pay_0000000000000000").send().await;
    receipt.assert_problem(401, "unauthenticated");
    assert_eq!(server.ledger().await.len(), 1);
}

#[tokio::test]
async fn a_receipt_is_its_callers_own() {
    let server = payments!().await;
    let paid = server.caller("alice").pay("a-key-of-alice").send().await;
    let location = paid.header("location").unwrap();
    assert_eq!(server.caller("alice").get(location).send().await.body, paid.body);
    server.caller("bob").get(location).send().await.assert_problem(404, "not-found");
}

#[tokio::test]
async fn a_like_without_a_key_counts_as_often_as_it_comes_and_with_one_once() {
    let server = payments!().await;
    let like = server.caller("alice").post("/likes/42");
    for _ in 0..2 {
        let answer = like.send().await;
        assert_eq!((answer.status, answer.is_replayed()), (201, false), "{answer:?}");
    }
    let with_key = like.key("a-like-that-counts-once");
    let first = with_key.send().await;
    assert_eq!((first.status, first.is_replayed()), (201, false), "{first:?}");
    with_key.send().await.assert_replay_of(&first);

    let ledger = server.ledger().await;
    let epochs: Vec<_> = ledger.iter().map(|charge| (&*charge.kind, charge.epoch, charge.bank_key.is_some())).collect();
    assert_eq!(epochs, [("like", None, false), ("like", None, false), ("like", Some(1), true)]);
}

#[tokio::test]
async fn a_request_that_changes_nothing_needs_no_key_and_heeds_none() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let location = alice.pay("a-key-of-alice").send().await.header("location").unwrap().to_owned();
    for _ in 0..2 {
        let answer = alice.get(&location).key("a-key-of-alice").send().await;
        assert_eq!((answer.status, answer.is_replayed()), (200, false), "{answer:?}");
    }
    assert_eq!(alice.get("/payments").key("a-key-of-alice").send().await.status, 405);
}
