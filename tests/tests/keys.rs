//! The header that holds the key.

use idem_tests::{ORDER, payments};

#[tokio::test]
async fn a_payment_without_a_key_is_refused_and_not_charged() {
    let server = payments!().await;
    let answer = server.caller("alice").post("/payments").json(ORDER).send().await;
    let problem = answer.assert_problem(400, "missing-key");
    assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{problem}");
    assert!(server.ledger().await.is_empty());
}

#[tokio::test]
async fn a_malformed_key_is_refused_by_the_rule_it_breaks_and_nothing_is_charged() {
    let server = payments!().await;
    let long = "k".repeat(129);
    let huge = "k".repeat(8000);
    let cases: [(&[u8], &str); 16] = [
        (b"", "empty"),
        (b"   ", "empty"),
        (b"\"\"", "empty"),
        (b"seven-7", "7 characters; it needs at least 8"),
        (long.as_bytes(), "129 characters; at most 128"),
        (huge.as_bytes(), "8000 characters; at most 128"),
        (b"first-key,second-key", "more than once"),
        (b"\"first-key\", \"second-key\"", "more than once"),
        (b"some-key-1;version=2", "parameters"),
        (b"\"some-key-1\";version=2", "parameters"),
        ("clé-numéro-1".as_bytes(), "outside ASCII at position 2"),
        (b"some-key-\xff", "outside ASCII at position 9"),
        (b"some key 1", "forbidden character ' ' at position 4"),
        (b"some\\key-1", "forbidden character '\\\\' at position 4"),
        (b"\"some-key-1", "never closed"),
        (b"\"some-key-1\"x", "follows the closing quote"),
    ];
    for (key, rule) in cases {
        let answer = server.caller("alice").post("/payments").key(key).json(ORDER).send().await;
        let problem = answer.assert_problem(400, "invalid-key");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(rule), "{:?}: {detail}", String::from_utf8_lossy(key));
    }
    assert!(server.ledger().await.is_empty());
}

#[tokio::test]
async fn two_keys_in_two_header_lines_are_refused_even_if_they_are_equal() {
    let server = payments!().await;
    for second in ["the-first-key", "the-second-key"] {
        let call = server.caller("alice").pay("the-first-key").key(second);
        let problem = call.send().await.assert_problem(400, "invalid-key");
        assert!(problem["detail"].as_str().unwrap().contains("more than once"), "{problem}");
    }
    assert!(server.ledger().await.is_empty());
    server.caller("alice").pay("the-first-key").send().await.assert_charged("/payments", "100.00", "RUB");
}

#[tokio::test]
async fn a_like_may_leave_the_key_out_and_may_not_get_it_wrong() {
    let server = payments!().await;
    let answer = server.caller("alice").post("/likes/42").key("short").send().await;
    answer.assert_problem(400, "invalid-key");
    assert!(server.ledger().await.is_empty());
}

#[tokio::test]
async fn a_key_in_quotes_is_the_same_key() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let first = alice.pay("\"8e03978e-40d5-43dd\"").send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    for spelling in ["8e03978e-40d5-43dd", "\"8e03978e-40d5-43dd\"", " 8e03978e-40d5-43dd\t"] {
        alice.pay(spelling).send().await.assert_replay_of(&first);
    }
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn keys_of_every_accepted_length_and_character_work_and_case_counts() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let longest = "k".repeat(128);
    let keys = ["12345678", &longest, "!#$%&'()*+-./:<=>?@[]^_`{|}~", "a-key-in-lower-case", "A-KEY-IN-LOWER-CASE"];
    for key in keys {
        let first = alice.pay(key).send().await;
        first.assert_charged("/payments", "100.00", "RUB");
        alice.pay(key).send().await.assert_replay_of(&first);
    }
    assert_eq!(server.ledger().await.len(), keys.len());
}
