//! Begin: who may run, and what becomes of a claim whose answer is lost.

use idem_core::{
    Begin, Certainty, Change, Content, Epoch, Found, Guard, Idempotency, Inserted, KeyStore, NewRecord, Record,
    Refusal, Replaced, Revision, ScopedKey, Settled, Settlement, State, StoreError, StoreErrorKind, StoreStats, Swept,
    Timer,
};
use tokio::time::{Instant, sleep};

use crate::support::{
    Fault, Faulty, LEASE, Op, SECOND, Told, key, other_request, relaxed, request, spawning, strict, value,
};

#[tokio::test(start_paused = true)]
async fn a_fresh_key_runs_with_one_store_call_and_its_retry_replays_with_one() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    assert_eq!(attempt.running().epoch(), Epoch::FIRST);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
    assert_eq!((store.calls(Op::Claim), store.calls(Op::Settle), store.calls(Op::Find)), (1, 1, 0));

    let Begin::Replay(answer) = idem.begin(&key(), &request()).await.unwrap() else { panic!("completed") };
    assert_eq!(answer, value("paid"));
    assert_eq!((store.calls(Op::Claim), store.calls(Op::Find)), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn another_request_under_the_key_is_refused_in_flight_and_afterwards() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let refused = idem.begin(&key(), &other_request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::KeyReused)), "{refused:?}");
    attempt.settle(Settlement::Completed(value("paid"))).await;
    let refused = idem.begin(&key(), &other_request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::KeyReused)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_was_lost_finds_its_own_token_and_runs() {
    for lost in [Fault::LostReply, Fault::LostRequest] {
        let store = Faulty::new();
        store.next(Op::Claim, [lost]);
        let idem = spawning(strict(&store));
        let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("{lost:?}: its own") };
        assert_eq!(attempt.running().epoch(), Epoch::FIRST);
        assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
        assert_eq!(idem.owed_writes(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_takeover_whose_reply_was_lost_finds_its_own_token_and_runs() {
    let store = Faulty::new();
    let idem = spawning(relaxed(&store));
    drop(idem.begin(&key(), &request()).await.unwrap());
    sleep(LEASE).await;
    store.next(Op::Claim, [Fault::Late(SECOND / 100), Fault::LostReply]);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("abandoned") };
    assert_eq!(attempt.running().epoch(), Epoch::from_number(2));
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_given_up_is_released_in_the_background_and_its_key_runs() {
    let store = Faulty::new();
    store.always(Op::Claim, Fault::HangsAfter);
    let idem = spawning(strict(&store));
    let error = idem.begin(&key(), &request()).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Unavailable, Certainty::Unknown));
    assert_eq!(store.state().await, Some(State::InProgress), "the claim stands although nobody runs it");
    store.heal();
    sleep(SECOND).await;
    assert_eq!(store.state().await, Some(State::Released));
    assert_eq!(idem.owed_writes(), 0);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("released") };
    assert_eq!(attempt.running().epoch(), Epoch::from_number(2), "released is vacant that remembers the epoch");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lands_after_it_was_given_up_is_released_all_the_same() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::LandsAfter(3 * SECOND)]);
    store.always(Op::Claim, Fault::NotWritten);
    let idem = spawning(strict(&store)).call_timeout(SECOND);
    idem.begin(&key(), &request()).await.unwrap_err();
    store.heal();
    assert_eq!(store.state().await, None, "it is still under way");
    sleep(10 * SECOND).await;
    assert_eq!(store.state().await, Some(State::Released));
    assert_eq!(idem.owed_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_sees_the_winner() {
    let store = Faulty::new();
    let idem = relaxed(&store);
    drop(idem.begin(&key(), &request()).await.unwrap());
    sleep(LEASE).await;
    // The loser has seen the abandoned claim; before its takeover arrives, the winner has taken over and completed.
    store.next(Op::Claim, [Fault::Late(SECOND / 100), Fault::Late(2 * SECOND)]);
    let loser = tokio::spawn({
        let idem = relaxed(&store);
        async move { idem.begin(&key(), &request()).await.unwrap() }
    });
    sleep(SECOND).await;
    let Begin::Run(winner) = idem.begin(&key(), &request()).await.unwrap() else { panic!("abandoned") };
    winner.settle(Settlement::Completed(value("paid"))).await;
    let Begin::Replay(answer) = loser.await.unwrap() else { panic!("the winner has completed") };
    assert_eq!(answer, value("paid"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_certainly_down_refuses_under_strict_and_runs_unprotected_under_relaxed() {
    let store = Faulty::new();
    let told = Told::default();
    store.always(Op::Claim, Fault::NotWritten);
    let error = strict(&store).observe(told.clone()).begin(&key(), &request()).await.unwrap_err();
    assert_eq!(error.certainty(), Certainty::NotWritten);
    assert_eq!(told.all(), [""; 0]);

    let idem = relaxed(&store).observe(told.clone());
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("relaxed") };
    assert!(!attempt.is_protected());
    assert_eq!(attempt.running().epoch(), Epoch::UNPROTECTED);
    assert_eq!(attempt.settle(Settlement::Completed(value("liked"))).await, Settled::Unprotected);
    assert_eq!(told.all(), ["ran unprotected"]);
    assert_eq!(store.state().await, None);
}

#[tokio::test(start_paused = true)]
async fn relaxed_does_not_run_while_its_own_claim_may_stand() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::LostReply]);
    store.always(Op::Claim, Fault::NotWritten);
    let idem = spawning(relaxed(&store));
    let error = idem.begin(&key(), &request()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    store.heal();
    sleep(SECOND).await;
    assert_eq!(store.state().await, Some(State::Released));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_an_error_within_the_call_timeout() {
    let store = Faulty::new();
    store.always(Op::Claim, Fault::HangsBefore);
    let idem = spawning(strict(&store)).call_timeout(2 * SECOND);
    let start = Instant::now();
    let error = idem.begin(&key(), &request()).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Unavailable, Certainty::Unknown));
    assert!(start.elapsed() <= 7 * SECOND, "three calls of 2 s and two short waits: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_is_refused_under_strict_and_taken_over_under_relaxed() {
    let store = Faulty::new();
    drop(strict(&store).begin(&key(), &request()).await.unwrap());
    sleep(LEASE - SECOND).await;
    let refused = strict(&store).begin(&key(), &request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::InProgress { retry_after }) if retry_after == SECOND));
    sleep(SECOND).await;
    let refused = strict(&store).begin(&key(), &request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::OutcomeUnknown)));
    let Begin::Run(attempt) = relaxed(&store).begin(&key(), &request()).await.unwrap() else { panic!("rerun") };
    assert_eq!(attempt.running().epoch(), Epoch::from_number(2));
}

#[tokio::test(start_paused = true)]
async fn an_unsettled_claim_outlives_the_retention() {
    let store = Faulty::new();
    drop(strict(&store).begin(&key(), &request()).await.unwrap());
    sleep(6 * 24 * 3600 * SECOND).await;
    let refused = strict(&store).begin(&key(), &request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::OutcomeUnknown)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_in_the_background_does_not_set_the_epoch_back() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    for _ in 0..3 {
        let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("released") };
        attempt.settle(Settlement::Released).await;
    }
    // The insert finds the released record; the claim over it is written, and every reply is lost.
    store.next(Op::Claim, [Fault::Late(SECOND / 100)]);
    store.always(Op::Claim, Fault::HangsAfter);
    idem.begin(&key(), &request()).await.unwrap_err();
    store.heal();
    sleep(SECOND).await;
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("released") };
    assert_eq!(attempt.running().epoch(), Epoch::from_number(5), "three, the one given up, and this");
}

#[tokio::test(start_paused = true)]
async fn a_claim_over_a_record_that_lands_after_it_was_given_up_is_released_all_the_same() {
    let store = Faulty::new();
    let idem = spawning(strict(&store)).call_timeout(SECOND);
    let Begin::Run(first) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    first.settle(Settlement::Released).await;
    // The insert finds the released record; the claim over it hangs, and lands when it was given up.
    store.next(Op::Claim, [Fault::Late(SECOND / 100), Fault::LandsAfter(3 * SECOND)]);
    store.always(Op::Claim, Fault::NotWritten);
    idem.begin(&key(), &request()).await.unwrap_err();
    store.heal();
    assert_eq!(store.state().await, Some(State::Released), "it is still under way");
    sleep(SECOND).await;
    assert!(idem.owed_writes() > 0, "a record that is not its own is no proof");
    sleep(20 * SECOND).await;
    assert_eq!(idem.owed_writes(), 0);
    assert!(matches!(idem.begin(&key(), &request()).await.unwrap(), Begin::Run(_)));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_vanishes_between_two_looks_is_claimed_anew() {
    let store = Faulty::new();
    let days = 24 * 3600 * SECOND;
    let idem = relaxed(&store).call_timeout(10 * days);
    drop(idem.begin(&key(), &request()).await.unwrap());
    sleep(LEASE).await;
    // The abandoned claim is seen; before the takeover arrives, its retention is over.
    store.next(Op::Claim, [Fault::Late(SECOND / 100), Fault::Late(8 * days)]);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant by then") };
    assert_eq!(attempt.running().epoch(), Epoch::FIRST);
    assert_eq!(store.calls(Op::Claim), 4, "the first claim; then a look, a lost takeover, and an insert");
}

/// A store in which somebody else always comes first.
struct Fickle;

#[async_trait::async_trait]
impl KeyStore for Fickle {
    async fn insert(&self, _: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        Ok(Inserted::Occupied(Found {
            revision: Revision::from_number(1),
            age: SECOND,
            lease_left: std::time::Duration::ZERO,
            retention_left: SECOND,
            content: Content::Readable(Record { state: State::Released, ..record.record().clone() }),
        }))
    }

    async fn replace(&self, _: &ScopedKey, _: Guard, _: &Change) -> Result<Replaced, StoreError> {
        Ok(Replaced::Lost(None))
    }

    async fn find(&self, _: &ScopedKey) -> Result<Option<Found>, StoreError> {
        Ok(None)
    }

    async fn sweep(&self, _: std::num::NonZeroU32) -> Result<Swept, StoreError> {
        Ok(Swept::default())
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        Ok(StoreStats::default())
    }
}

#[tokio::test(start_paused = true)]
async fn a_race_that_is_lost_again_and_again_ends_in_an_error_that_wrote_nothing() {
    let idem = Idempotency::new(Fickle, sleep as fn(_) -> _);
    let error = idem.begin(&key(), &request()).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Contended, Certainty::NotWritten));
    assert_eq!(idem.owed_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_an_open_transaction_holds_is_in_progress_under_every_policy() {
    for is_relaxed in [false, true] {
        let store = Faulty::new();
        store.always(Op::Claim, Fault::Locked);
        let begun = match is_relaxed {
            true => told(relaxed(&store).begin(&key(), &request()).await.unwrap()),
            false => told(strict(&store).begin(&key(), &request()).await.unwrap()),
        };
        assert_eq!(begun, Some(Refusal::InProgress { retry_after: SECOND / 5 }));
        assert_eq!((store.calls(Op::Claim), store.state().await), (1, None));
    }
}

fn told<T: Timer>(begun: Begin<T>) -> Option<Refusal> {
    match begun {
        Begin::Refuse(refusal) => Some(refusal),
        Begin::Run(_) | Begin::Replay(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_locked_behind_an_own_write_that_may_stand_is_tried_again() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::LostReply, Fault::Locked]);
    let begun = strict(&store).begin(&key(), &request()).await.unwrap();
    assert!(matches!(begun, Begin::Run(_)), "{begun:?}");
    assert_eq!(store.calls(Op::Claim), 3);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_meets_a_locked_key_is_owed_and_written_later() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("a fresh key runs") };
    store.next(Op::Settle, [Fault::Locked]);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    sleep(SECOND * 60).await;
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
}
