//! What the bank may do, what the ledger has then, and what a retry gets.

use idem_tests::{Answer, ORDER};

use crate::support::{Mode, Shop, booked, remembered};

const BOTH: [Mode; 2] = Mode::BOTH;

#[tokio::test]
async fn a_retry_gets_the_first_answer_and_the_ledger_of_the_database_has_one_row() {
    for mode in BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        for (collection, kind) in [("/payments", "payment"), ("/refunds", "refund")] {
            let call = alice.post(collection).key("8e03978e-40d5-43dd-bc93-6894a57f9324").json(ORDER);
            let first = call.send().await;
            let id = first.assert_charged(collection, "100.00", "RUB");
            for _ in 0..3 {
                call.send().await.assert_replay_of(&first);
            }
            let receipt = alice.get(&format!("{collection}/{id}")).send().await;
            assert_eq!((receipt.status, receipt.body), (200, first.body), "{mode:?}");
            let of_bob = server.caller("bob").get(&format!("{collection}/{id}")).send().await;
            of_bob.assert_problem(404, "not-found");

            let ledger = server.ledger().await;
            let charge = ledger.last().expect("a charge");
            assert_eq!((&*charge.id, &*charge.kind, &*charge.principal), (&*id, kind, "alice"), "{mode:?}");
            assert_eq!((charge.amount.as_deref(), charge.currency.as_deref()), (Some("100.00"), Some("RUB")));
            assert_eq!(charge.epoch, Some(1), "{mode:?}");
            assert!(charge.bank_key.is_some(), "{mode:?}");
        }
        assert_eq!(server.charged_ids().await, booked(database.url()).await, "{mode:?}");
        assert_eq!((booked(database.url()).await.len(), remembered(database.url()).await), (2, 2), "{mode:?}");
    }
}

#[tokio::test]
async fn every_amount_comes_back_from_the_ledger_of_the_database_as_it_was_paid() {
    let Shop { database: _database, server, alice } = Shop::open(Mode::Transaction, &[]).await;
    for (key, amount, shown) in [
        ("the-smallest", "0.01", "0.01"),
        ("without-a-point", "7", "7.00"),
        ("the-largest", "999999999999.99", "999999999999.99"),
    ] {
        let order = format!(r#"{{"amount":"{amount}","currency":"USD"}}"#);
        let id = alice.post("/payments").key(key).json(order).send().await.assert_charged("/payments", shown, "USD");
        let receipt = alice.get(&format!("/payments/{id}")).send().await;
        assert_eq!(receipt.json()["amount"], shown);
        assert_eq!(server.ledger().await.last().and_then(|charge| charge.amount.clone()).as_deref(), Some(shown));
    }
}

#[tokio::test]
async fn a_decline_and_a_malformed_order_are_remembered_and_nothing_is_booked() {
    for mode in BOTH {
        let Shop { database, alice, server: _server } = Shop::open(mode, &[]).await;
        let declined = alice.pay("declined-once").bank("declined").send().await;
        declined.assert_problem(422, "declined");
        // The card works again, but this key stands for the payment that was declined.
        alice.pay("declined-once").send().await.assert_replay_of(&declined);

        let nonsense = alice.post("/payments").key("not-an-order").json(r#"{"amount":"a lot","currency":"RUB"}"#);
        let refused = nonsense.send().await;
        refused.assert_problem(422, "invalid-payment");
        nonsense.send().await.assert_replay_of(&refused);
        alice.pay("not-an-order").send().await.assert_problem(422, "key-reused");

        assert_eq!(booked(database.url()).await.len(), 0, "{mode:?}");
        assert_eq!(remembered(database.url()).await, 2, "{mode:?}");
    }
}

#[tokio::test]
async fn a_busy_bank_books_nothing_and_the_retry_charges_once() {
    for mode in BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        for _ in 0..2 {
            let busy = alice.pay("busy-twice-then-fine").bank("busy").send().await;
            busy.assert_problem(429, "bank-busy");
            assert_eq!(busy.header("retry-after"), Some("1"));
        }
        assert_eq!(booked(database.url()).await.len(), 0, "{mode:?}");
        let first = alice.pay("busy-twice-then-fine").send().await;
        let id = first.assert_charged("/payments", "100.00", "RUB");
        alice.pay("busy-twice-then-fine").send().await.assert_replay_of(&first);
        assert_eq!(server.charged_ids().await, [id], "{mode:?}");
        // A claim that was given up is remembered; a transaction that was rolled back was never there.
        let epoch = server.ledger().await[0].epoch;
        assert_eq!(epoch, Some(if mode == Mode::Claim { 3 } else { 1 }), "{mode:?}");
    }
}

/// The status and the problem that the directive leads to, and how many charges it leaves under a claim.
const FAILURES: [(&str, u16, &str, usize); 7] = [
    ("no-effect", 502, "bank-not-reached", 0),
    ("down", 502, "bank-gave-no-answer", 0),
    ("charged-then-502", 502, "bank-gave-no-answer", 1),
    ("panic", 500, "internal", 1),
    ("slow=20, down", 502, "bank-gave-no-answer", 0),
    ("slow=20, charged-then-502", 502, "bank-gave-no-answer", 1),
    ("slow=20, panic", 500, "internal", 1),
];

#[tokio::test]
async fn in_one_transaction_whatever_fails_is_undone_and_the_retry_charges_once() {
    let Shop { database, server, alice } = Shop::open(Mode::Transaction, &[]).await;
    for (number, (directive, status, slug, _)) in FAILURES.into_iter().enumerate() {
        let key = format!("failed-twice-{number}");
        for _ in 0..2 {
            let failed = alice.pay(&key).bank(directive).send().await;
            let problem = failed.assert_problem(status, slug);
            if slug == "bank-gave-no-answer" {
                assert!(
                    problem["detail"].as_str().is_some_and(|text| text.contains("Nothing was charged")),
                    "{problem}"
                );
            }
        }
        assert_eq!(booked(database.url()).await.len(), number, "{directive}: a charge of a failed request was kept");
        assert_eq!(remembered(database.url()).await, number as i64, "{directive}");

        // Nothing has happened under this key: it may even stand for another order now.
        let call = alice.post("/payments").key(&key).json(r#"{"amount":"5","currency":"USD"}"#);
        let first = call.send().await;
        let id = first.assert_charged("/payments", "5.00", "USD");
        call.send().await.assert_replay_of(&first);
        alice.pay(&key).send().await.assert_problem(422, "key-reused");
        let ledger = server.ledger().await;
        assert_eq!(ledger.len(), number + 1, "{directive}");
        assert_eq!((&*ledger[number].id, ledger[number].epoch), (&*id, Some(1)), "{directive}");
        server.assert_healthy().await;
    }
}

#[tokio::test]
async fn under_a_claim_a_failure_that_may_have_charged_is_never_run_again() {
    let Shop { database, server, alice } = Shop::open(Mode::Claim, &[]).await;
    let mut charges = 0;
    for (number, (directive, status, slug, charged)) in FAILURES.into_iter().enumerate() {
        let key = format!("failed-once-{number}");
        let pay = alice.pay(&key);
        pay.clone().bank(directive).send().await.assert_problem(status, slug);
        charges += charged;
        let is_safe = directive == "no-effect";
        for _ in 0..2 {
            let problem = pay.send().await.assert_problem(500, "previous-attempt-failed");
            assert_eq!(problem["safe_to_use_new_key"], is_safe, "{directive}");
        }
        let reused = alice.post("/payments").key(&key).json(r#"{"amount":"5","currency":"USD"}"#);
        reused.send().await.assert_problem(422, "key-reused");
        assert_eq!(booked(database.url()).await.len(), charges, "{directive}");
        server.assert_healthy().await;
    }
    assert_eq!(remembered(database.url()).await, FAILURES.len() as i64);
}

#[tokio::test]
async fn a_slow_charge_refuses_its_retries_at_once_and_then_gives_them_its_answer() {
    for mode in BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let pay = alice.pay("a-double-click").bank("slow=1500");
        let other = alice.post("/payments").key("a-double-click").json(r#"{"amount":"5","currency":"USD"}"#);
        let (first, ()) = tokio::join!(pay.send(), async {
            server.until_in_flight(1).await;
            pay.send().await.assert_in_progress();
            let refused = other.send().await;
            match mode {
                // What a transaction holds cannot be compared before it is committed.
                Mode::Transaction => drop(refused.assert_in_progress()),
                Mode::Claim => drop(refused.assert_problem(422, "key-reused")),
            }
            assert_eq!(booked(database.url()).await.len(), 0, "{mode:?}: they were refused only after the charge");
        });
        let id = first.assert_charged("/payments", "100.00", "RUB");
        pay.send().await.assert_replay_of(&first);
        other.send().await.assert_problem(422, "key-reused");
        assert_eq!(server.charged_ids().await, [id], "{mode:?}");
    }
}

#[tokio::test]
async fn a_large_answer_is_replayed_up_to_the_limit_and_never_cut() {
    for mode in BOTH {
        let Shop { database, alice, server: _server } = Shop::open(mode, &["--max-response", "10000"]).await;
        let fits = alice.pay("as-large-as-may-be").bank("big=10000").send().await;
        assert_whole(&fits, 10_000);
        alice.pay("as-large-as-may-be").send().await.assert_replay_of(&fits);
        for (key, size) in [("a-byte-too-large", 10_001), ("much-too-large", 3_000_000)] {
            assert_whole(&alice.pay(key).bank(format!("big={size}")).send().await, size);
            alice.pay(key).send().await.assert_problem(409, "response-not-kept");
        }
        assert_eq!(booked(database.url()).await.len(), 3, "{mode:?}");
    }
}

#[tokio::test]
async fn a_stream_goes_out_whole_and_is_not_run_again() {
    for mode in BOTH {
        let Shop { database, alice, server: _server } = Shop::open(mode, &[]).await;
        let first = alice.pay("a-stream-of-data").bank("stream, big=100000").send().await;
        assert_whole(&first, 100_000);
        assert_eq!(first.header("content-length"), None);
        alice.pay("a-stream-of-data").send().await.assert_problem(409, "response-not-kept");
        assert_eq!(booked(database.url()).await, [first.id()], "{mode:?}");
    }
}

#[tokio::test]
async fn a_misspelt_directive_is_refused_and_nothing_is_remembered() {
    for mode in BOTH {
        let Shop { database, alice, server: _server } = Shop::open(mode, &[]).await;
        alice.pay("an-experiment").bank("charged").send().await.assert_problem(400, "unknown-directive");
        assert_eq!(remembered(database.url()).await, 0, "{mode:?}");
        alice.pay("an-experiment").send().await.assert_charged("/payments", "100.00", "RUB");
        assert_eq!(booked(database.url()).await.len(), 1, "{mode:?}");
    }
}

fn assert_whole(answer: &Answer, size: usize) {
    answer.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(answer.body.len(), size);
}
