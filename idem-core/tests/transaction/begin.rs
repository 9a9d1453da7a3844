//! Begin: the lock stands for *in progress*, and what is found under it decides as everywhere.

use std::time::Duration;

use idem_core::{Certainty, Epoch, Refusal, Settlement, StoreErrorKind, TransactionBegin, TransactionalStore, machine};

use crate::database::{Database, Fault, Op};
use crate::support::{
    Given, LEASE, SECOND, begin, gets, in_progress, key, other_request, pays, relaxed, request, runs, state, strict,
    the_retry_runs_once, timed, used_under_a_claim, value,
};

#[tokio::test(start_paused = true)]
async fn a_fresh_key_runs_with_one_call_and_its_retry_replays_with_one_and_leaves_nothing_open() {
    let database = Database::new();
    let driver = strict(&database);
    let (attempt, tx) = pays(&driver, "100").await;
    assert_eq!(attempt.running().epoch(), Epoch::FIRST);
    assert!(!attempt.running().is_lost());
    assert_eq!(database.calls(), [Op::Open]);
    attempt.commit(tx, value("paid")).await.unwrap();
    assert_eq!(gets(&driver, &request()).await, Given::Replay(value("paid")));
    assert_eq!(database.calls(), [Op::Open, Op::Commit, Op::Open]);
    assert_eq!((database.ledger(), database.open_now()), (vec!["100".to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_running_transaction_is_in_progress_at_once() {
    let database = Database::new();
    let driver = strict(&database);
    let (attempt, tx) = pays(&driver, "100").await;
    let (given, took) = timed(gets(&driver, &request())).await;
    assert_eq!((given, took), (in_progress(), Duration::ZERO));
    assert_eq!(database.open_at_most(), 1, "a duplicate holds no transaction open");
    attempt.commit(tx, value("paid")).await.unwrap();
    assert_eq!(gets(&driver, &request()).await, Given::Replay(value("paid")));
    assert_eq!(database.ledger(), ["100"]);
}

#[tokio::test(start_paused = true)]
async fn another_request_is_in_progress_while_the_first_runs_and_refused_once_it_is_done() {
    let database = Database::new();
    let driver = strict(&database);
    let (attempt, tx) = runs(&driver).await;
    assert_eq!(gets(&driver, &other_request()).await, in_progress());
    attempt.commit(tx, value("paid")).await.unwrap();
    assert_eq!(gets(&driver, &other_request()).await, Given::Refuse(Refusal::KeyReused));
}

#[tokio::test(start_paused = true)]
async fn two_retries_at_once_of_a_finished_request_are_both_replayed() {
    let database = Database::new();
    let driver = strict(&database);
    let (attempt, tx) = runs(&driver).await;
    attempt.commit(tx, value("paid")).await.unwrap();
    let first_retry = database.open(&key()).await.unwrap();
    assert_eq!(gets(&driver, &request()).await, Given::Replay(value("paid")));
    assert_eq!(gets(&driver, &other_request()).await, Given::Refuse(Refusal::KeyReused));
    drop(first_retry);
}

#[tokio::test(start_paused = true)]
async fn a_locked_key_is_in_progress_also_where_it_cannot_be_looked_at() {
    let database = Database::new();
    let driver = strict(&database);
    let (_attempt, _tx) = runs(&driver).await;
    for fault in [Fault::NotWritten(StoreErrorKind::Unavailable), Fault::LostReply, Fault::Hangs] {
        database.next(Op::Find, [fault]);
        assert_eq!(gets(&driver, &request()).await, in_progress(), "{fault:?}");
    }
    database.next(Op::Open, [Fault::NotWritten(StoreErrorKind::Locked)]);
    assert_eq!(gets(&driver, &request()).await, in_progress());
}

#[tokio::test(start_paused = true)]
async fn a_live_claim_of_the_other_mode_is_in_progress_and_nothing_runs_beside_it() {
    let database = Database::new();
    used_under_a_claim(&database, &request(), None).await;
    for driver in [strict(&database), strict(&database).policy(idem_core::Policy::relaxed())] {
        let given = gets(&driver, &request()).await;
        assert!(matches!(given, Given::Refuse(Refusal::InProgress { .. })), "{given:?}");
        assert_eq!(gets(&driver, &other_request()).await, Given::Refuse(Refusal::KeyReused));
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_of_the_other_mode_goes_by_the_policy() {
    let database = Database::new();
    used_under_a_claim(&database, &request(), None).await;
    database.clock().advance(LEASE);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Refuse(Refusal::OutcomeUnknown));
    let (attempt, tx) = pays(&relaxed(&database), "100").await;
    assert_eq!(attempt.running().epoch().number(), 2);
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), idem_core::Concluded::Done);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("paid")));
    assert_eq!(database.ledger(), ["100"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_other_mode_has_settled_is_decided_as_everywhere() {
    let failed = Settlement::Failed { no_effect: true };
    for (settlement, given) in [
        (Settlement::Completed(value("theirs")), Given::Replay(value("theirs"))),
        (failed.clone(), Given::Refuse(Refusal::PreviousAttemptFailed { no_effect: true })),
    ] {
        let database = Database::new();
        used_under_a_claim(&database, &request(), Some(settlement)).await;
        assert_eq!(gets(&strict(&database), &request()).await, given);
        assert_eq!(database.open_now(), 0);
    }
    for settlement in [Settlement::Released, failed] {
        let database = Database::new();
        used_under_a_claim(&database, &request(), Some(settlement)).await;
        let (attempt, tx) = pays(&relaxed(&database), "100").await;
        assert_eq!(attempt.running().epoch().number(), 2);
        attempt.commit(tx, value("paid")).await.unwrap();
        assert_eq!(
            (database.ledger(), gets(&strict(&database), &request()).await),
            (vec!["100".to_owned()], Given::Replay(value("paid")))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_fails_is_tried_again_and_then_an_error_with_nothing_written() {
    let down = Fault::NotWritten(StoreErrorKind::Unavailable);
    let database = Database::new();
    database.next(Op::Open, [down, Fault::LostReply]);
    drop(runs(&strict(&database)).await);
    assert_eq!(database.calls(), [Op::Open; 3]);

    for (faults, kind) in [
        (vec![down; 3], StoreErrorKind::Unavailable),
        (vec![Fault::Hangs; 3], StoreErrorKind::Unavailable),
        (vec![Fault::LostRequest; 3], StoreErrorKind::Unavailable),
        (vec![Fault::NotWritten(StoreErrorKind::Misconfigured)], StoreErrorKind::Misconfigured),
    ] {
        let database = Database::new();
        let tries = faults.len();
        database.next(Op::Open, faults);
        // Relaxed lets operations run without the store, but not without their transaction.
        let (error, took) = timed(async { relaxed(&database).begin(&key(), &request()).await.unwrap_err() }).await;
        assert_eq!((error.kind(), error.certainty()), (kind, Certainty::NotWritten));
        assert!(took < 16 * SECOND, "{took:?}");
        assert_eq!((database.calls().len(), database.open_now()), (tries, 0));
        the_retry_runs_once(&database).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_is_dropped_leaves_nothing() {
    let database = Database::new();
    let driver = strict(&database);
    database.next(Op::Open, [Fault::Hangs]);
    let (key, request) = (key(), request());
    assert!(tokio::time::timeout(SECOND, driver.begin(&key, &request)).await.is_err());
    assert_eq!((database.open_now(), state(&database).await), (0, None));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_sees_what_is_recorded_and_not_what_runs() {
    let database = Database::new();
    let driver = strict(&database);
    let look = async || driver.idempotency().look(&key(), &request()).await.unwrap();
    let (attempt, tx) = runs(&driver).await;
    assert_eq!(look().await, idem_core::Look::WouldRun);
    attempt.commit(tx, value("paid")).await.unwrap();
    assert_eq!(look().await, idem_core::Look::Replay(value("paid")));
}

#[tokio::test(start_paused = true)]
async fn every_wrapper_of_a_transactional_store_does_what_it_wraps() {
    async fn pays_through(store: impl TransactionalStore<Tx = crate::database::Transaction> + 'static) {
        assert_eq!(store.capacity().get(), 8);
        let driver = idem_core::OneTransaction::new(store, tokio::time::sleep);
        for last in [false, true] {
            let begun = driver.begin(&key(), &request()).await.unwrap();
            let TransactionBegin::Run(attempt, mut tx) = begun else { panic!("nothing is recorded") };
            tx.write("100");
            if last {
                attempt.commit(tx, value("paid")).await.unwrap();
            } else {
                attempt.roll_back(tx).await;
            }
        }
    }
    let database = Database::new();
    pays_through(std::sync::Arc::new(database.clone())).await;
    let calls = [Op::Open, Op::RollBack, Op::Open, Op::Commit];
    assert_eq!((database.calls(), database.ledger()), (calls.to_vec(), vec!["100".to_owned()]));

    let boxed = Database::new();
    let any: Box<dyn TransactionalStore<Tx = crate::database::Transaction>> = Box::new(boxed.clone());
    pays_through(any).await;
    assert_eq!((boxed.calls(), boxed.ledger()), (calls.to_vec(), vec!["100".to_owned()]));

    let leaked: &'static Database = Box::leak(Box::new(Database::new()));
    pays_through(leaked).await;
    assert_eq!((leaked.calls(), leaked.ledger()), (calls.to_vec(), vec!["100".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_locked_key_says_to_come_back_soon() {
    let database = Database::new();
    let driver = strict(&database);
    let held = begin(&driver).await;
    let TransactionBegin::Refuse(Refusal::InProgress { retry_after }) = begin(&driver).await else { panic!("held") };
    assert_eq!(Refusal::InProgress { retry_after }, machine::locked());
    assert!(!retry_after.is_zero() && retry_after < SECOND, "{retry_after:?}");
    drop(held);
}
