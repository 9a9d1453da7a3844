//! What the bank may do, and what a retry gets after it.

use idem_tests::{ORDER, Server, payments};

#[tokio::test]
async fn a_decline_is_an_answer_and_is_replayed() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let first = alice.pay("declined-once").bank("declined").send().await;
    first.assert_problem(422, "declined");
    // The card works again, but this key stands for the payment that was declined.
    alice.pay("declined-once").send().await.assert_replay_of(&first);
    assert!(server.ledger().await.is_empty());
}

#[tokio::test]
async fn a_busy_bank_releases_the_key_and_the_retry_runs() {
    let server = payments!().await;
    let alice = server.caller("alice");
    for _ in 0..2 {
        let answer = alice.pay("busy-twice-then-fine").bank("busy").send().await;
        answer.assert_problem(429, "bank-busy");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    // Released: the key has forgotten the request, but not how often it was claimed.
    let other = alice.post("/payments").key("busy-twice-then-fine").json(r#"{"amount":"5","currency":"USD"}"#);
    let first = other.send().await;
    first.assert_charged("/payments", "5.00", "USD");
    other.send().await.assert_replay_of(&first);
    alice.pay("busy-twice-then-fine").send().await.assert_problem(422, "key-reused");
    assert_eq!(epochs(&server).await, [Some(3)]);
}

#[tokio::test]
async fn a_failure_that_may_have_charged_is_never_run_again() {
    for (directive, status, slug, charges) in [
        ("down", 502, "bank-gave-no-answer", 0),
        ("charged-then-502", 502, "bank-gave-no-answer", 1),
        ("panic", 500, "internal", 1),
        ("slow=20, down", 502, "bank-gave-no-answer", 0),
        ("slow=20, charged-then-502", 502, "bank-gave-no-answer", 1),
        ("slow=20, panic", 500, "internal", 1),
    ] {
        let server = payments!().await;
        let alice = server.caller("alice");
        alice.pay("failed-once").bank(directive).send().await.assert_problem(status, slug);
        for _ in 0..2 {
            let refused = alice.pay("failed-once").send().await;
            let problem = refused.assert_problem(500, "previous-attempt-failed");
            assert_eq!(problem["safe_to_use_new_key"], false, "{directive}");
            assert!(problem["detail"].as_str().unwrap().contains("may have taken effect"), "{directive}: {problem}");
        }
        let reused = alice.post("/payments").key("failed-once").json(r#"{"amount":"5","currency":"USD"}"#);
        reused.send().await.assert_problem(422, "key-reused");
        assert_eq!(server.ledger().await.len(), charges, "{directive}");
        server.assert_healthy().await;
    }
}

#[tokio::test]
async fn a_failure_without_effect_says_that_a_new_key_is_safe() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let first = alice.pay("never-reached").bank("no-effect").send().await;
    first.assert_problem(502, "bank-not-reached");
    let problem = alice.pay("never-reached").send().await.assert_problem(500, "previous-attempt-failed");
    assert_eq!(problem["safe_to_use_new_key"], true);
    assert!(problem["detail"].as_str().unwrap().contains("had no effect"), "{problem}");
    alice.pay("another-key").send().await.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(epochs(&server).await, [Some(1)]);
}

#[tokio::test]
async fn a_like_that_failed_runs_again() {
    let server = payments!().await;
    let like = server.caller("alice").post("/likes/42").key("a-stubborn-like");
    like.clone().bank("down").send().await.assert_problem(502, "bank-gave-no-answer");
    like.clone().bank("no-effect").send().await.assert_problem(502, "bank-not-reached");
    like.clone().bank("charged-then-502").send().await.assert_problem(502, "bank-gave-no-answer");
    let first = like.clone().bank("panic").send().await;
    first.assert_problem(500, "internal");
    let fine = like.send().await;
    assert_eq!((fine.status, fine.is_replayed()), (201, false), "{fine:?}");
    like.send().await.assert_replay_of(&fine);

    // Counted three times, as it may be; the bank would have known them by their key.
    assert_eq!(epochs(&server).await, [Some(3), Some(4), Some(5)]);
    let ledger = server.ledger().await;
    assert!(ledger[0].bank_key.is_some());
    assert!(ledger.iter().all(|charge| charge.bank_key == ledger[0].bank_key), "{ledger:?}");
}

#[tokio::test]
async fn a_large_answer_is_replayed_up_to_the_limit_and_never_cut() {
    let server = payments!("--max-response", "10000").await;
    let alice = server.caller("alice");

    let fits = alice.pay("as-large-as-may-be").bank("big=10000").send().await;
    fits.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(fits.body.len(), 10_000);
    alice.pay("as-large-as-may-be").send().await.assert_replay_of(&fits);

    for (key, size) in [("a-byte-too-large", 10_001), ("much-too-large", 3_000_000)] {
        let whole = alice.pay(key).bank(format!("big={size}")).send().await;
        whole.assert_charged("/payments", "100.00", "RUB");
        assert_eq!(whole.body.len(), size);
        alice.pay(key).send().await.assert_problem(409, "response-not-kept");
    }
    assert_eq!(epochs(&server).await, [Some(1); 3]);
}

#[tokio::test]
async fn a_stream_goes_out_whole_and_is_not_run_again() {
    let server = payments!().await;
    let alice = server.caller("alice");
    let first = alice.pay("a-stream-of-data").bank("stream, big=100000").send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(first.body.len(), 100_000);
    assert_eq!(first.header("content-length"), None);
    alice.pay("a-stream-of-data").send().await.assert_problem(409, "response-not-kept");
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn a_misspelt_directive_is_refused_and_not_stored() {
    let server = payments!().await;
    let alice = server.caller("alice");
    for directives in [
        "charged",
        "slow",
        "slow=",
        "slow=-1",
        "slow=soon",
        "slow=600001",
        "big=1e3",
        "big=999999999",
        "stream=1",
        "declined, busy",
        "declined, big=10",
        "down,,",
        "",
    ] {
        let answer = alice.pay("an-experiment").bank(directives).send().await;
        answer.assert_problem(400, "unknown-directive");
    }
    alice.pay("an-experiment").send().await.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(epochs(&server).await, [Some(1)]);
}

#[tokio::test]
async fn a_charge_that_outlives_its_lease_keeps_its_key() {
    let server = payments!("--lease", "1s").await;
    let alice = server.caller("alice");
    let outlive = async |path: &str, attempts| {
        let call = alice.post(path).key("longer-than-a-lease").json(ORDER).bank("slow=3000");
        let (first, (refused, second)) = tokio::join!(call.send(), async {
            server.until_in_flight(attempts).await;
            let mut refused = 0;
            loop {
                let answer = call.send().await;
                if answer.status != 409 {
                    break (refused, answer);
                }
                let retry_after = answer.assert_in_progress();
                assert!(retry_after.as_millis() <= 1000, "later than the lease ends: {retry_after:?}");
                refused += 1;
                tokio::time::sleep(retry_after).await;
            }
        });
        assert_eq!((first.status, first.is_replayed()), (201, false), "{first:?}");
        second.assert_replay_of(&first);
        assert!(refused >= 3, "{path}: {refused}");
    };
    // Three leases, and no request that came meanwhile took over, also where the policy would let it.
    tokio::join!(outlive("/payments", 2), outlive("/likes/42", 2));
    assert_eq!(epochs(&server).await, [Some(1); 2]);
    assert_eq!(server.metric("idempotency_lease_lost_total").await, 0.0);
}

async fn epochs(server: &Server) -> Vec<Option<u64>> {
    server.ledger().await.into_iter().map(|charge| charge.epoch).collect()
}
