//! Settle: the outcome of an operation that ran does not vanish, and overwrites nobody.

use idem_core::{Abandoned, Begin, Epoch, Guard, InPlaceOfMine, KeyStore, Policy, Refusal, Settled, Settlement, State};
use tokio::time::sleep;

use crate::support::{
    Fault, Faulty, LEASE, Op, SECOND, Told, key, other_request, relaxed, request, spawning, strict, value,
};

#[tokio::test(start_paused = true)]
async fn every_settlement_says_what_it_says() {
    for (settlement, state) in [
        (Settlement::Completed(value("paid")), State::Completed(value("paid"))),
        (Settlement::Failed { no_effect: false }, State::Failed { no_effect: false }),
        (Settlement::Failed { no_effect: true }, State::Failed { no_effect: true }),
        (Settlement::Released, State::Released),
    ] {
        let store = Faulty::new();
        let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
        assert_eq!(attempt.settle(settlement.clone()).await, Settled::Done);
        assert_eq!(store.state().await, Some(state));
        assert_eq!(attempt.settle(settlement).await, Settled::Done, "the same settling again is done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_the_store_did_not_take_keeps_the_claim_and_is_retried() {
    for fault in [Fault::NotWritten, Fault::LostRequest, Fault::LostReply, Fault::HangsBefore, Fault::HangsAfter] {
        let store = Faulty::new();
        let told = Told::default();
        let idem = spawning(strict(&store).observe(told.clone()));
        let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
        store.next(Op::Settle, [fault, fault]);
        assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Owed, "{fault:?}");
        assert_ne!(store.state().await, Some(State::Released), "{fault:?}: never released");
        sleep(20 * SECOND).await;
        assert_eq!(store.state().await, Some(State::Completed(value("paid"))), "{fault:?}");
        assert_eq!(idem.owed_writes(), 0);
        assert!(told.all().contains(&"settling retried"), "{fault:?}");
        assert!(!told.all().contains(&"lease lost"), "{fault:?}: its own record is no lost lease");
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_completion_is_owed_a_retry_is_told_to_come_back_and_never_runs() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.always(Op::Settle, Fault::NotWritten);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    let refused = idem.begin(&key(), &request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::InProgress { .. })), "{refused:?}");
    // The lease runs out while the store is down; under strict that still is no leave to run.
    sleep(2 * LEASE).await;
    let refused = idem.begin(&key(), &request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(Refusal::OutcomeUnknown)), "{refused:?}");
    store.heal();
    sleep(LEASE).await;
    let Begin::Replay(answer) = idem.begin(&key(), &request()).await.unwrap() else { panic!("completed at last") };
    assert_eq!(answer, value("paid"));
}

#[tokio::test(start_paused = true)]
async fn without_a_spawner_owed_writes_wait_to_be_worked_off() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.next(Op::Settle, [Fault::NotWritten, Fault::NotWritten]);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    assert_eq!(idem.owed_writes(), 1);
    assert_eq!(idem.work_off_owed().await, 1, "the store still does not take it");
    assert_eq!(idem.work_off_owed().await, 0);
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
}

#[tokio::test(start_paused = true)]
async fn a_settling_that_is_dropped_half_way_is_owed() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.next(Op::Settle, [Fault::HangsBefore]);
    let settling = attempt.settle(Settlement::Completed(value("paid")));
    assert!(tokio::time::timeout(SECOND, settling).await.is_err());
    sleep(SECOND).await;
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
    assert_eq!(idem.owed_writes(), 0);
}

/// Removes the record, as a failover or an operator would.
async fn lose_the_record(store: &Faulty) {
    let sweep = store.behind().sweep(std::num::NonZeroU32::MAX);
    sleep(8 * 24 * 3600 * SECOND).await;
    assert_eq!(sweep.await.unwrap().removed, 1);
    assert_eq!(store.there().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_finds_the_key_vacant_is_inserted() {
    for (settlement, state) in [
        (Settlement::Completed(value("paid")), Some(State::Completed(value("paid")))),
        (Settlement::Failed { no_effect: false }, Some(State::Failed { no_effect: false })),
        (Settlement::Released, None),
    ] {
        let store = Faulty::new();
        let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
        lose_the_record(&store).await;
        assert_eq!(attempt.settle(settlement).await, Settled::Done);
        assert_eq!(store.state().await, state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_finds_the_key_released_is_written_over_it() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let seen = idem.find(&key()).await.unwrap().unwrap();
    let _ = idem.resolve(&key(), &seen, Settlement::Released).await.unwrap();
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_attempt_gives_the_answer_of_the_one_that_completed() {
    let store = Faulty::new();
    let told = Told::default();
    let idem = relaxed(&store).observe(told.clone());
    let Begin::Run(old) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    sleep(LEASE).await;
    let Begin::Run(new) = idem.begin(&key(), &request()).await.unwrap() else { panic!("abandoned") };

    let in_progress = old.settle(Settlement::Completed(value("old"))).await;
    assert!(matches!(in_progress, Settled::LeaseLost(InPlaceOfMine::Refuse(Refusal::InProgress { .. }))));
    assert_eq!(store.state().await, Some(State::InProgress), "the successor's claim is untouched");

    assert_eq!(new.settle(Settlement::Completed(value("new"))).await, Settled::Done);
    let lost = old.settle(Settlement::Completed(value("old"))).await;
    assert_eq!(lost, Settled::LeaseLost(InPlaceOfMine::Answer(value("new"))));
    let lost = old.settle(Settlement::Released).await;
    assert_eq!(lost, Settled::LeaseLost(InPlaceOfMine::OwnAnswer));
    let lost = old.settle(Settlement::Failed { no_effect: false }).await;
    assert_eq!(lost, Settled::LeaseLost(InPlaceOfMine::OwnAnswer));
    assert_eq!(store.state().await, Some(State::Completed(value("new"))), "a completed record never changes");
    assert_eq!(told.all(), ["lease lost"], "said once, however often it is found");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_attempt_keeps_its_own_answer_where_the_successor_has_another_request() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(old) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    lose_the_record(&store).await;
    let Begin::Run(new) = idem.begin(&key(), &other_request()).await.unwrap() else { panic!("vacant again") };
    new.settle(Settlement::Completed(value("other"))).await;
    let lost = old.settle(Settlement::Completed(value("mine"))).await;
    assert_eq!(lost, Settled::LeaseLost(InPlaceOfMine::OwnAnswer));
    assert_eq!(store.state().await, Some(State::Completed(value("other"))));
}

#[tokio::test(start_paused = true)]
async fn a_late_completion_is_accepted_as_long_as_nobody_took_the_key() {
    let store = Faulty::new();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    sleep(100 * LEASE).await;
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_lands_after_the_completion_changes_nothing() {
    let store = Faulty::new();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let claim = store.there().await.unwrap();
    let idem_core::Content::Readable(record) = claim.content else { panic!("readable") };
    attempt.settle(Settlement::Completed(value("paid"))).await;
    let before = store.there().await;
    let renewal = idem_core::Change::Renew { lease: LEASE, retention: 100 * LEASE };
    let late = store.behind().replace(&key(), Guard::Owner(record.token), &renewal).await.unwrap();
    assert!(matches!(late, idem_core::Replaced::Lost(Some(_))));
    assert_eq!(store.there().await, before);
}

#[tokio::test(start_paused = true)]
async fn the_retention_counts_from_the_claim_and_completion_does_not_reset_it() {
    let store = Faulty::new();
    let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    attempt.drive(sleep(600 * SECOND)).await;
    attempt.settle(Settlement::Completed(value("paid"))).await;
    let left = store.there().await.unwrap().retention_left;
    assert_eq!(left, (24 * 3600 - 600) * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_refused_under_strict_and_run_again_under_relaxed() {
    for no_effect in [false, true] {
        let store = Faulty::new();
        let Begin::Run(attempt) = strict(&store).begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
        attempt.settle(Settlement::Failed { no_effect }).await;
        let refused = strict(&store).begin(&key(), &request()).await.unwrap();
        assert!(matches!(refused, Begin::Refuse(Refusal::PreviousAttemptFailed { no_effect: n }) if n == no_effect));
        let Begin::Run(again) = relaxed(&store).begin(&key(), &request()).await.unwrap() else { panic!("rerun") };
        assert_eq!(again.running().epoch(), Epoch::from_number(2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_comes_back_ends_in_a_given_up_write_after_a_retention() {
    let store = Faulty::new();
    let told = Told::default();
    let idem = spawning(strict(&store).observe(told.clone()));
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.always(Op::Settle, Fault::NotWritten);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    sleep(25 * 3600 * SECOND).await;
    assert_eq!(idem.owed_writes(), 0, "bounded");
    assert_eq!(told.all().last(), Some(&"owed write given up"));
    assert_eq!(store.state().await, Some(State::InProgress), "the claim stays");
}

#[tokio::test(start_paused = true)]
async fn a_failure_without_effect_says_nothing_of_an_abandoned_attempt_before_it() {
    let store = Faulty::new();
    let policy = Policy::strict().customize().abandoned(Abandoned::Rerun).build().unwrap();
    let idem = strict(&store).policy(policy);
    drop(idem.begin(&key(), &request()).await.unwrap());
    sleep(LEASE).await;
    let Begin::Run(second) = idem.begin(&key(), &request()).await.unwrap() else { panic!("abandoned") };
    second.settle(Settlement::Failed { no_effect: true }).await;
    assert_eq!(store.state().await, Some(State::Failed { no_effect: false }));
}

#[tokio::test(start_paused = true)]
async fn an_owed_release_that_has_landed_is_no_lost_lease_of_its_successor() {
    let store = Faulty::new();
    let told = Told::default();
    let idem = spawning(strict(&store).observe(told.clone()));
    let Begin::Run(first) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.next(Op::Settle, [Fault::LostReply]);
    assert_eq!(first.settle(Settlement::Released).await, Settled::Owed);
    let Begin::Run(second) = idem.begin(&key(), &request()).await.unwrap() else { panic!("released") };
    sleep(10 * SECOND).await;
    assert_eq!(told.all(), ["settling retried"]);
    assert_eq!(second.settle(Settlement::Completed(value("paid"))).await, Settled::Done);
}

#[tokio::test(start_paused = true)]
async fn an_owed_outcome_comes_before_a_second_run_once_the_store_is_back() {
    let store = Faulty::new();
    let idem = spawning(relaxed(&store));
    let Begin::Run(first) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.always(Op::Settle, Fault::NotWritten);
    assert_eq!(first.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    sleep(600 * SECOND).await;
    store.heal();
    sleep(LEASE / 3).await;
    let Begin::Replay(answer) = idem.begin(&key(), &request()).await.unwrap() else { panic!("completed") };
    assert_eq!(answer, value("paid"));
}
