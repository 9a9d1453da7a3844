//! Bodies that are too large, broken, or meant to hurt.

use core::fmt::Write;

use idem_tests::{ORDER, payments};

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_claims_nothing() {
    let server = payments!("--max-body", "1000").await;
    let alice = server.caller("alice");
    let padded = |size: usize| format!("{ORDER}{}", " ".repeat(size - ORDER.len()));

    for size in [1001, 50_000] {
        let too_large = alice.post("/payments").key("a-heavy-payment").json(padded(size));
        for call in [too_large.clone(), too_large.without_length()] {
            let problem = call.send().await.assert_problem(413, "body-too-large");
            assert!(problem["detail"].as_str().unwrap().contains("1000 bytes"), "{problem}");
        }
    }
    assert!(server.ledger().await.is_empty());
    // The same key, and a body that fits: nothing of the others is remembered.
    let fits = alice.post("/payments").key("a-heavy-payment").json(padded(1000));
    let first = fits.send().await;
    first.assert_charged("/payments", "100.00", "RUB");
    fits.without_length().send().await.assert_replay_of(&first);
    assert_eq!(server.ledger().await.len(), 1);
}

#[tokio::test]
async fn a_request_that_no_key_protects_has_the_same_limit() {
    let server = payments!("--max-body", "1000").await;
    let like = server.caller("alice").post("/likes/42");
    for call in [like.clone().json(vec![b' '; 1001]), like.clone().json(vec![b' '; 1001]).without_length()] {
        call.send().await.assert_problem(413, "body-too-large");
    }
    assert!(server.ledger().await.is_empty());
    assert_eq!(like.json(vec![b' '; 1000]).send().await.status, 201);
}

#[tokio::test]
async fn an_order_that_is_wrong_charges_nothing_and_is_refused_the_same_way_again() {
    let server = payments!().await;
    let alice = server.caller("alice");
    for (number, (body, status, slug)) in [
        (r#"{"amount":"0.00","currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":"-1.00","currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1.005","currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1e2","currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1000000000000.00","currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":100.00,"currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":null,"currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1.00","currency":"rub"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1.00","currency":"RUBLE"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1.00"}"#, 422, "invalid-payment"),
        (r#"{"currency":"RUB"}"#, 422, "invalid-payment"),
        (r#"{"amount":"1.00","amount":"2.00","currency":"RUB"}"#, 422, "invalid-payment"),
        ("null", 422, "invalid-payment"),
        ("[]", 422, "invalid-payment"),
        (r#"{"amount":"1.00","currency":"RUB""#, 400, "malformed-body"),
        (r#"{"amount":"1.00","currency":"RUB"}}"#, 400, "malformed-body"),
        ("amount=1.00", 400, "malformed-body"),
        ("", 400, "malformed-body"),
    ]
    .into_iter()
    .enumerate()
    {
        let call = alice.post("/payments").key(format!("a-wrong-order-{number}")).json(body);
        let first = call.send().await;
        first.assert_problem(status, slug);
        call.send().await.assert_replay_of(&first);
    }
    let form = alice.post("/payments").key("no-json-at-all").body("application/x-www-form-urlencoded", "amount=1");
    let first = form.send().await;
    first.assert_problem(415, "json-expected");
    form.send().await.assert_replay_of(&first);
    assert!(server.ledger().await.is_empty());
}

#[tokio::test]
async fn a_hostile_body_matches_its_own_retry_and_no_other_body() {
    let server = payments!("--max-body", "4MiB").await;
    let alice = server.caller("alice");
    for (number, body) in hostile_bodies().into_iter().enumerate() {
        let start = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let call = alice.post("/payments").key(format!("a-hostile-body-{number}")).json(body.clone());
        let first = call.send().await;
        assert!([400, 422].contains(&first.status), "{start}: {first:?}");
        call.send().await.assert_replay_of(&first);

        let mut other = body;
        other.push(b'x');
        let other = alice.post("/payments").key(format!("a-hostile-body-{number}")).json(other);
        other.send().await.assert_problem(422, "key-reused");
        server.assert_healthy().await;
    }
    assert!(server.ledger().await.is_empty());
    alice.pay("an-honest-payment").send().await.assert_charged("/payments", "100.00", "RUB");
}

#[tokio::test]
async fn a_payment_with_hostile_extras_is_charged_once() {
    let server = payments!("--max-body", "4MiB").await;
    let alice = server.caller("alice");
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let mut wide = String::from("{");
    for member in 0..20_000 {
        write!(wide, "\"m{member}\":{member},").unwrap();
    }
    wide.push_str("\"last\":0}");
    let extras = ["1e999999999", "-1e-999999999", &"9".repeat(100_000), &deep, &wide, r#""\u0000\ud83d\ude00""#];
    for (number, extra) in extras.into_iter().enumerate() {
        let body = format!(r#"{{"amount":"1.00","currency":"RUB","extra":{extra}}}"#);
        let call = alice.post("/payments").key(format!("with-extras-{number}")).json(body);
        let first = call.send().await;
        // Whether a JSON parser takes such a number is its own affair; that both tries fare alike is ours.
        assert!([201, 400, 422].contains(&first.status), "{extra:.60}: {first:?}");
        assert!(!first.is_replayed());
        call.send().await.assert_replay_of(&first);
    }
    let ids = server.charged_ids().await;
    assert!(ids.len() >= 3, "{ids:?}");
    server.assert_healthy().await;
}

fn hostile_bodies() -> Vec<Vec<u8>> {
    let order = |amount: &[u8]| [br#"{"currency":"RUB","amount":"#, amount, b"}"].concat();
    vec![
        "[".repeat(100_000).into_bytes(),
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes(),
        "{\"a\":".repeat(100_000).into_bytes(),
        order(&[&b"[".repeat(100_000)[..], &b"]".repeat(100_000)[..]].concat()),
        order(b"1e999999999"),
        order(b"-1e-999999999"),
        order(b"1e99999999999999999999999999999999"),
        order(&b"9".repeat(1_000_000)),
        order(&[b"0.", &b"1".repeat(1_000_000)[..]].concat()),
        order(b"\"\xff\xfe\""),
        order(b"\"\xed\xa0\x80\""),
        order(br#""\ud800""#),
        order(b"NaN"),
        order(b"Infinity"),
        order(b"01"),
        order(&b"\"".repeat(3)),
        b"\x00".repeat(1000),
        b"\xff".repeat(1000),
        b"\xef\xbb\xbf{}".to_vec(),
        b"\x1f\x8b\x08\x00".to_vec(),
        br#"{"amount":"1.00","amount":"2.00","currency":"RUB"}"#.to_vec(),
    ]
}
