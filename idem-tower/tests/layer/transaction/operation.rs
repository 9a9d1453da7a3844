//! Hooks, and what operators count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use idem_core::StoreErrorKind;

use super::{Bank, take, their_answer, used_under_a_claim};
use crate::database::{Database, Fault, Op};
use crate::observe::{Totals, outcomes};
use crate::support::{Broken, Order, charged, first_charge, payment, seen, status};

#[tokio::test]
async fn an_answer_that_was_quicker_is_asked_for_as_any_replay() {
    let database = Database::new();
    let bank = Bank::over(database.clone(), move |order: Order| {
        let database = database.clone();
        async move {
            super::charge(&order);
            used_under_a_claim(&database, Some(their_answer())).await;
            Ok(charged(order.run))
        }
    });
    let bank = bank.set(|layer| layer.check_replay(async |_| Err(StatusCode::FORBIDDEN)));
    assert_eq!(bank.pay().await, seen(403, &[], ""));
    assert_eq!(bank.database.ledger(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_quota_is_asked_before_a_transaction_is_opened_and_not_for_replays() {
    let (asked, bank) = (Arc::new(AtomicUsize::new(0)), Bank::charging());
    let counter = Arc::clone(&asked);
    let bank = bank.set(|layer| {
        layer.admit(move |_| {
            let many = counter.fetch_add(1, Ordering::SeqCst) > 0;
            async move { if many { Err(StatusCode::TOO_MANY_REQUESTS) } else { Ok(()) } }
        })
    });
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!(bank.pay().await, first_charge().replayed());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(bank.send(super::with_key("another-key")).await, seen(429, &[], ""));
    assert_eq!((bank.runs(), bank.database.open_now()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn every_ending_is_counted_once() {
    let totals = Totals::default();
    let _recording = metrics::set_default_local_recorder(&totals);
    let one = |outcome: &str| vec![(outcome.to_owned(), 1.0)];

    let bank = Bank::charging();
    bank.pay().await;
    assert_eq!(outcomes(&totals), one("completed"));
    bank.pay().await;
    assert_eq!(outcomes(&totals), one("replayed"));
    Bank::answering(|| status(422)).pay().await;
    assert_eq!(outcomes(&totals), one("completed"));
    Bank::answering(|| status(429)).pay().await;
    assert_eq!(outcomes(&totals), one("released"));
    Bank::answering(|| status(500)).pay().await;
    assert_eq!(outcomes(&totals), one("rolled-back"));
    assert!(Bank::new(async |_| Err(Broken)).try_send(payment()).await.is_err());
    assert_eq!(outcomes(&totals), one("rolled-back"));
    Bank::charging().set(|layer| layer.max_response(0)).pay().await;
    assert_eq!(outcomes(&totals), one("completed-not-kept"));
    Bank::new(async |_| Ok(status(200))).pay().await;
    assert_eq!(outcomes(&totals), one("not-committed"));
    let aborted = Bank::new(|order| {
        take(&order).fail_a_statement();
        std::future::ready(Ok(status(200)))
    });
    aborted.pay().await;
    assert_eq!(outcomes(&totals), one("not-committed"));
    let contended = Bank::charging();
    contended.database.next(Op::Commit, [Fault::NotWritten(StoreErrorKind::Contended)]);
    contended.pay().await;
    assert_eq!(outcomes(&totals), one("store-unavailable"));
    let panicking = Bank::new(async |_| panic!("a handler panics"));
    assert!(tokio::spawn(async move { panicking.pay().await }).await.is_err());
    assert_eq!(outcomes(&totals), one("panicked"));
    let superseded = Bank::answering(|| status(422));
    let database = superseded.database.clone();
    superseded.database.after_rollback(async move { used_under_a_claim(&database, Some(their_answer())).await });
    superseded.pay().await;
    assert_eq!(outcomes(&totals), one("replayed"));
}

#[tokio::test]
async fn store_calls_and_attempts_are_measured() {
    let totals = Totals::default();
    let _recording = metrics::set_default_local_recorder(&totals);
    let bank = Bank::new(|order: Order| {
        super::charge(&order);
        std::future::ready(Ok(if order.run == 1 { status(500) } else { charged(order.run) }))
    });
    bank.pay().await;
    bank.pay().await;
    let totals = totals.take();
    for (name, total) in [
        ("idempotency_store_seconds{operation=open}", 2.0),
        ("idempotency_store_seconds{operation=roll-back}", 1.0),
        ("idempotency_store_seconds{operation=commit}", 1.0),
        ("idempotency_in_flight{}", 0.0),
        ("idempotency_in_flight{} seen", 2.0),
    ] {
        assert_eq!(totals.get(name), Some(&total), "{name} in {totals:?}");
    }
}
