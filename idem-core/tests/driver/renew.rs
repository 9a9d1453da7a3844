//! Drive: the lease lives as long as the handler, and the handler hears of its end.

use std::time::Duration;

use idem_core::{Begin, Policy, Refusal, Running, Settled, Settlement};
use tokio::time::{Instant, sleep};

use crate::support::{Fault, Faulty, LEASE, Op, SECOND, Told, key, relaxed, request, strict, value};

/// When the handler heard that its lease is lost, if it did within `patience`.
async fn told_after(running: &Running, patience: Duration) -> Option<Duration> {
    let start = Instant::now();
    tokio::time::timeout(patience, running.lost()).await.ok().map(|()| start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_done_at_once_costs_no_renewal() {
    let store = Faulty::new();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    assert_eq!(attempt.drive(async { 7 }).await, 7);
    assert_eq!(store.calls(Op::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_while_the_handler_runs() {
    let store = Faulty::new();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let running = attempt.running().clone();
    attempt
        .drive(async {
            for _ in 0..20 {
                sleep(LEASE / 2).await;
                let refused = strict(&store).begin(&key(), &request()).await.unwrap();
                assert!(matches!(refused, Begin::Refuse(Refusal::InProgress { .. })), "{refused:?}");
            }
        })
        .await;
    assert!(!running.is_lost());
    assert_eq!(store.calls(Op::Renew), 29, "every 10 s of 300, the handler's end before the last");
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
}

#[tokio::test(start_paused = true)]
async fn renewals_end_at_the_ceiling_and_the_handler_hears_of_it_before_the_lease_is_over() {
    let store = Faulty::new();
    let told = Told::default();
    let policy = Policy::strict().customize().ceiling(100 * SECOND).build().unwrap();
    let idem = strict(&store).policy(policy).observe(told.clone());
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let running = attempt.running().clone();
    let heard = attempt.drive(async { told_after(&running, 1000 * SECOND).await }).await.unwrap();
    assert!(heard >= 100 * SECOND && heard < 100 * SECOND + LEASE, "{heard:?}");
    assert!(!store.there().await.unwrap().lease_left.is_zero(), "heard before the store's lease was over");
    assert_eq!(told.all(), ["lease silent"]);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done, "nobody has taken the key");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_cut_off_from_the_store_hears_of_it_before_its_successor_starts() {
    for fault in [Fault::NotWritten, Fault::LostRequest, Fault::HangsBefore] {
        let store = Faulty::new();
        let told = Told::default();
        let idem = strict(&store).observe(told.clone());
        let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
        store.always(Op::Renew, fault);
        let running = attempt.running().clone();
        let heard = attempt.drive(async { told_after(&running, 1000 * SECOND).await }).await.unwrap();
        assert_eq!(heard, LEASE - LEASE / 10, "{fault:?}: the last acknowledged write, the lease, less the margin");
        assert!(!store.there().await.unwrap().lease_left.is_zero(), "{fault:?}");
        assert_eq!(told.all(), ["lease silent"], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_when_the_renewal_was_sent_and_not_from_its_reply() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    // Sent at 10 s, acknowledged at 14 s; then silence. The deadline is 10 s + 27 s.
    store.next(Op::Renew, [Fault::Late(4 * SECOND)]);
    store.always(Op::Renew, Fault::HangsBefore);
    store.next(Op::Renew, [Fault::HangsBefore]);
    let running = attempt.running().clone();
    let heard = attempt.drive(async { told_after(&running, 1000 * SECOND).await }).await.unwrap();
    assert_eq!(heard, 37 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_sent_late_counts_from_when_it_was_sent() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::Late(3 * SECOND)]);
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.always(Op::Renew, Fault::NotWritten);
    let running = attempt.running().clone();
    let heard = attempt.drive(async { told_after(&running, 1000 * SECOND).await }).await.unwrap();
    assert_eq!(heard, LEASE - LEASE / 10 - 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_bridged_by_the_next_renewal() {
    let store = Faulty::new();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.next(Op::Renew, [Fault::NotWritten, Fault::LostReply, Fault::NotWritten]);
    let running = attempt.running().clone();
    attempt.drive(sleep(10 * LEASE)).await;
    assert!(!running.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_attempt_hears_of_it_at_its_next_renewal_and_changes_nothing() {
    let store = Faulty::new();
    let told = Told::default();
    let idem = relaxed(&store).observe(told.clone());
    let Begin::Run(old) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    // The old attempt sleeps through its lease without being driven; the new one takes over.
    sleep(LEASE).await;
    let Begin::Run(new) = idem.begin(&key(), &request()).await.unwrap() else { panic!("abandoned") };
    let running = old.running().clone();
    old.drive(running.lost()).await;
    assert!(old.running().is_lost());
    let lost = old.settle(Settlement::Released).await;
    assert!(matches!(lost, Settled::LeaseLost(_)));
    assert_eq!(told.all(), ["lease lost"], "said once, however often it is found");
    assert_eq!(new.settle(Settlement::Completed(value("new"))).await, Settled::Done);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_counts_from_when_it_was_first_sent() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::LateLostReply(3 * SECOND)]);
    let start = Instant::now();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("its own") };
    store.always(Op::Renew, Fault::NotWritten);
    let running = attempt.running().clone();
    attempt.drive(running.lost()).await;
    assert_eq!(start.elapsed(), LEASE - LEASE / 10);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_keep_the_next_one_back() {
    let store = Faulty::new();
    let idem = strict(&store).call_timeout(100 * LEASE);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.next(Op::Renew, [Fault::HangsBefore]);
    attempt.drive(sleep(10 * LEASE)).await;
    assert!(!attempt.running().is_lost());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_driven_step_by_step_under_one_lease_and_one_ceiling() {
    let store = Faulty::new();
    let policy = Policy::strict().customize().ceiling(100 * SECOND).build().unwrap();
    let idem = strict(&store).policy(policy);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    attempt.drive(sleep(40 * SECOND)).await;
    for _ in 0..10 {
        attempt.drive(sleep(5 * SECOND)).await;
    }
    assert!(!attempt.running().is_lost(), "renewed in both steps");
    attempt.drive(sleep(100 * SECOND)).await;
    let renewals = store.calls(Op::Renew);
    attempt.drive(sleep(100 * SECOND)).await;
    assert_eq!(store.calls(Op::Renew), renewals, "no renewal after the ceiling");
    assert!(attempt.running().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_claim_is_renewed_at_once_because_nobody_knows_how_old_it_is() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::LateLostReply(SECOND)]);
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("its own") };
    assert!(store.there().await.unwrap().lease_left < LEASE - SECOND);
    attempt.drive(sleep(SECOND / 100)).await;
    assert_eq!(store.calls(Op::Renew), 1);
    assert!(store.there().await.unwrap().lease_left > LEASE - SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_granted_at_the_second_try_counts_from_that() {
    for lost in [Fault::HangsBefore, Fault::HangsAfter] {
        let store = Faulty::new();
        // Shorter than the call timeout: the lease of the first try is over when the second one is made.
        let policy = Policy::strict().customize().lease(4 * SECOND).build().unwrap();
        let idem = strict(&store).policy(policy);
        store.next(Op::Claim, [lost]);
        store.always(Op::Renew, Fault::Late(SECOND / 10));
        let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("its own") };
        attempt.drive(sleep(SECOND / 2)).await;
        assert!(!attempt.running().is_lost(), "{lost:?}");
    }
}
