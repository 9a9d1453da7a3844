//! One client, one key: what a retry gets.

use idem_tests::{ORDER, payments};

#[tokio::test]
async fn a_retry_gets_the_first_answer_and_charges_nothing() {
    let server = payments!().await;
    let pay = server.caller("alice").pay("8e03978e-40d5-43dd-bc93-6894a57f9324");

    let first = pay.send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    for _ in 0..3 {
        pay.send().await.assert_replay_of(&first);
    }

    let ledger = server.ledger().await;
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    let charge = &ledger[0];
    assert_eq!((&*charge.id, &*charge.kind, &*charge.principal), (&*id, "payment", "alice"));
    assert_eq!((charge.amount.as_deref(), charge.currency.as_deref()), (Some("100.00"), Some("RUB")));
    assert_eq!(charge.epoch, Some(1));
    assert_ne!(charge.bank_key.as_deref(), Some("8e03978e-40d5-43dd-bc93-6894a57f9324"));

    let receipt = server.caller("alice").get(&format!("/payments/{id}")).send().await;
    assert_eq!((receipt.status, receipt.body), (200, first.body));
}

#[tokio::test]
async fn another_key_is_another_payment() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let first = alice.pay("the-first-key").send().await.assert_charged("/payments", "100.00", "RUB");
    let second = alice.pay("the-second-key").send().await.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(server.charged_ids().await, [first, second]);
}

#[tokio::test]
async fn another_request_under_a_used_key_is_refused_and_not_charged() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let key = "a-key-that-is-used-again";
    let first = alice.pay(key).send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");

    for body in [
        r#"{"amount":"900.00","currency":"RUB"}"#,
        r#"{"amount":"100.0","currency":"RUB"}"#,
        r#"{"amount":"100.00","currency":"USD"}"#,
        r#"{"amount":"100.00","currency":"RUB","to":"bob"}"#,
        r#"{"amount":"100.00","currency":"RUB","meta":{}}"#,
        r#"["amount","100.00","currency","RUB"]"#,
        "",
    ] {
        let answer = alice.post("/payments").key(key).json(body).send().await;
        answer.assert_problem(422, "key-reused");
    }
    let dry_run = alice.post("/payments?dry_run=true").key(key).json(ORDER).send().await;
    dry_run.assert_problem(422, "key-reused");

    alice.pay(key).send().await.assert_replay_of(&first);
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn numbers_that_only_a_float_would_take_for_one_are_two_requests() {
    let server = payments!().await;
    let alice = server.caller("alice");
    for (key, one, other) in [
        ("beyond-53-bits", "9007199254740993", "9007199254740992"),
        ("beyond-64-bits", "12345678901234567890123", "12345678901234567890124"),
        ("long-fractions", "0.1", "0.1000000000000000055"),
    ] {
        let pay = |number| {
            let body = format!(r#"{{"amount":"1.00","currency":"RUB","order":{number}}}"#);
            alice.post("/payments").key(key).json(body)
        };
        pay(one).send().await.assert_charged("/payments", "1.00", "RUB");
        pay(other).send().await.assert_problem(422, "key-reused");
    }
    assert_eq!(server.ledger().await.len(), 3);
}

#[tokio::test]
async fn a_body_that_was_serialised_anew_is_the_same_request() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let pay = |body: &'static str| alice.post("/payments").key("a-mobile-client").json(body);

    let first = pay(r#"{"amount":"100.00","currency":"RUB","order":1,"meta":{"trace_id":"a"}}"#).send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    for again in [
        r#"{"meta":{"trace_id":"a"},"order":1,"currency":"RUB","amount":"100.00"}"#,
        "{\n  \"amount\": \"100.00\",\n\t\"currency\": \"RUB\",\r\n  \"order\": 1, \"meta\": { \"trace_id\": \"a\" }\n}\n",
        r#"{"\u0061mount":"100\u002e00","currency":"\u0052UB","order":1.0,"meta":{"trace_id":"a"}}"#,
        r#"{"amount":"100.00","currency":"RUB","order":10e-1,"meta":{"trace_id":"b"}}"#,
        r#"{"amount":"100.00","currency":"RUB","order":1,"meta":{}}"#,
        r#"{"amount":"100.00","currency":"RUB","order":1,"client_timestamp":1764600000,"meta":{"trace_id":"c"}}"#,
        r#"{"client_timestamp":"later","amount":"100.00","currency":"RUB","order":1,"meta":{"trace_id":null}}"#,
    ] {
        pay(again).send().await.assert_replay_of(&first);
    }
    let with_parameters = alice.post("/payments").key("a-mobile-client").body(
        "application/json; charset=utf-8",
        r#"{"amount":"100.00","currency":"RUB","order":1,"meta":{"trace_id":"a"}}"#,
    );
    with_parameters.send().await.assert_replay_of(&first);
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn an_answer_outlives_its_lease_and_not_its_retention() {
    let server = payments!("--lease", "100ms", "--retention", "1500ms").await;
    let pay = server.caller("alice").pay("a-key-of-a-second");
    let first = pay.send().await;
    first.assert_charged("/payments", "100.00", "RUB");

    let mut replays = 0;
    let second = loop {
        let answer = pay.send().await;
        if !answer.is_replayed() {
            break answer;
        }
        answer.assert_replay_of(&first);
        replays += 1;
        tokio::time::sleep(core::time::Duration::from_millis(50)).await;
    };
    assert!(replays > 2, "{replays} replays within a retention of fifteen leases");
    second.assert_charged("/payments", "100.00", "RUB");
    let epochs: Vec<_> = server.ledger().await.into_iter().map(|charge| charge.epoch).collect();
    assert_eq!(epochs, [Some(1), Some(1)], "a key that comes back after its retention is a new one");
}
