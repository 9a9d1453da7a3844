//! Joined: a claim that is settled inside a transaction of the caller.

use std::time::Duration;

use idem_core::{Begin, Change, Guard, InPlaceOfMine, Joined, KeyStore, Replaced, Settled, Settlement, State, Timer};
use tokio::time::{Instant, sleep};

use crate::support::{Fault, Faulty, LEASE, Op, SECOND, key, relaxed, request, strict, value};

fn paid() -> Settlement {
    Settlement::Completed(value("paid"))
}

async fn claimed<T: Timer>(idem: &idem_core::Idempotency<T>) -> idem_core::Attempt<T> {
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("the key is free") };
    attempt
}

/// What the caller's backend does inside the caller's transaction.
async fn write(store: &Faulty, joined: &Joined) -> Replaced {
    store.behind().replace(joined.key(), joined.guard(), joined.change()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_joined_completion_is_replayed_and_settling_it_again_is_done() {
    let store = Faulty::new();
    let attempt = claimed(&strict(&store)).await;
    let joined = attempt.joined(paid()).await.unwrap();
    assert_eq!(joined.key(), &key());
    assert!(matches!((joined.guard(), joined.change()), (Guard::Owner(_), Change::Record(_))), "{joined:?}");
    assert_eq!(store.state().await, Some(State::InProgress), "nothing is settled before the caller writes");
    assert!(matches!(write(&store, &joined).await, Replaced::Done(_)));
    assert_eq!(store.calls(Op::Settle), 0);
    assert_eq!(attempt.settle(paid()).await, Settled::Done);
    let retry = strict(&store).begin(&key(), &request()).await.unwrap();
    assert!(matches!(retry, Begin::Replay(answer) if answer == value("paid")));
}

#[tokio::test(start_paused = true)]
async fn a_joined_attempt_renews_no_more() {
    let store = Faulty::new();
    let attempt = claimed(&strict(&store)).await;
    attempt
        .drive(async {
            sleep(LEASE).await;
            let renewals = store.calls(Op::Renew);
            assert_eq!(renewals, 2, "it has renewed until then");
            let joined = attempt.joined(paid()).await.unwrap();
            sleep(LEASE / 2).await;
            assert_eq!(store.calls(Op::Renew), renewals);
            assert!(matches!(write(&store, &joined).await, Replaced::Done(_)));
            sleep(LEASE).await;
            assert_eq!(store.calls(Op::Renew), renewals);
        })
        .await;
    attempt.drive(sleep(LEASE)).await;
    assert_eq!(store.calls(Op::Renew), 2, "nor when it is driven again");
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_under_way_is_answered_before_the_caller_locks_the_record() {
    let store = Faulty::new();
    store.next(Op::Renew, [Fault::Late(2 * SECOND)]);
    let attempt = claimed(&strict(&store)).await;
    attempt
        .drive(async {
            sleep(LEASE / 3 + SECOND).await;
            assert_eq!(store.calls(Op::Renew), 1);
            let before = store.there().await.unwrap().revision;
            let joined = attempt.joined(paid()).await.unwrap();
            let after = store.there().await.unwrap();
            assert_ne!(after.revision, before, "the renewal has landed");
            assert!(matches!(write(&store, &joined).await, Replaced::Done(_)), "and fences nothing");
        })
        .await;
    assert!(!attempt.running().is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_waited_for_no_longer_than_a_call() {
    let store = Faulty::new();
    store.next(Op::Renew, [Fault::HangsBefore]);
    let attempt = claimed(&strict(&store)).await;
    attempt
        .drive(async {
            sleep(LEASE / 3 + SECOND).await;
            let start = Instant::now();
            let _joined = attempt.joined(paid()).await.unwrap();
            assert!(start.elapsed() <= 5 * SECOND, "{:?}", start.elapsed());
        })
        .await;

    // Nobody polls the renewal any more: it cannot be waited for.
    let store = Faulty::new();
    store.next(Op::Renew, [Fault::HangsBefore]);
    let attempt = claimed(&strict(&store)).await;
    let mut stalled = Box::pin(attempt.drive(std::future::pending::<()>()));
    assert!(tokio::time::timeout(LEASE / 3 + SECOND, &mut stalled).await.is_err());
    let start = Instant::now();
    let _joined = attempt.joined(paid()).await.unwrap();
    assert!(start.elapsed() <= 5 * SECOND, "{:?}", start.elapsed());
    drop(stalled);
    let start = Instant::now();
    let _joined = attempt.joined(paid()).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "a drive that was dropped renews nothing");
}

#[tokio::test(start_paused = true)]
async fn after_the_callers_rollback_the_claim_is_there_and_can_be_settled_otherwise() {
    let store = Faulty::new();
    let attempt = claimed(&strict(&store)).await;
    let _rolled_back = attempt.joined(paid()).await.unwrap();
    assert_eq!(store.state().await, Some(State::InProgress));
    assert_eq!(attempt.settle(Settlement::Released).await, Settled::Done);
    assert_eq!(claimed(&strict(&store)).await.running().epoch().number(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_loser_is_told_to_roll_back_and_begins_again_for_the_answer() {
    let store = Faulty::new();
    let late = claimed(&strict(&store)).await;
    sleep(LEASE + SECOND).await;
    let successor = claimed(&relaxed(&store)).await;
    successor.settle(Settlement::Completed(value("theirs"))).await;

    let joined = late.joined(paid()).await.unwrap();
    assert!(matches!(write(&store, &joined).await, Replaced::Lost(Some(_))));
    let instead = strict(&store).begin(&key(), &request()).await.unwrap();
    assert!(matches!(instead, Begin::Replay(answer) if answer == value("theirs")));
    let settled = late.settle(Settlement::Released).await;
    assert_eq!(settled, Settled::LeaseLost(InPlaceOfMine::OwnAnswer));
    assert_eq!(store.state().await, Some(State::Completed(value("theirs"))));
}

#[tokio::test(start_paused = true)]
async fn a_joined_failure_says_nothing_of_an_abandoned_attempt_before_it() {
    let store = Faulty::new();
    drop(claimed(&strict(&store)).await);
    sleep(LEASE + SECOND).await;
    let attempt = claimed(&relaxed(&store)).await;
    let joined = attempt.joined(Settlement::Failed { no_effect: true }).await.unwrap();
    assert!(matches!(write(&store, &joined).await, Replaced::Done(_)));
    assert_eq!(store.state().await, Some(State::Failed { no_effect: false }));
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_attempt_has_nothing_to_be_joined() {
    let store = Faulty::new();
    store.always(Op::Claim, Fault::NotWritten);
    let attempt = claimed(&relaxed(&store)).await;
    assert!(!attempt.is_protected());
    assert!(attempt.joined(paid()).await.is_none());
}
