//! Roll back: nothing of the operation is there, and its answer is remembered or not.

use idem_core::{Fingerprint, InPlaceOfMine, Refusal, Settlement, State, StoreErrorKind, machine};

use crate::database::{Database, Fault, Op};
use crate::support::{
    Given, LEASE, SECOND, Told, gets, other_request, pays, relaxed, request, state, strict, the_retry_runs_once, timed,
    used_under_a_claim, value,
};

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_nothing_and_the_retry_runs_at_once() {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    attempt.roll_back(tx).await;
    assert_eq!((database.ledger(), state(&database).await, database.open_now()), (vec![], None, 0));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_leaves_nothing_and_the_retry_runs_at_once() {
    let database = Database::new();
    drop(pays(&strict(&database), "100").await);
    assert_eq!((database.ledger(), state(&database).await, database.open_now()), (vec![], None, 0));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_gets_no_answer_is_waited_for_no_longer_than_a_call() {
    for fault in [Fault::Hangs, Fault::LostRequest] {
        let database = Database::new();
        database.next(Op::RollBack, [fault]);
        let (attempt, tx) = pays(&strict(&database), "100").await;
        let ((), took) = timed(attempt.roll_back(tx)).await;
        assert!(took <= 5 * SECOND, "{took:?}");
        the_retry_runs_once(&database).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_over_a_record_of_the_other_mode_leaves_it_as_it_was() {
    let database = Database::new();
    used_under_a_claim(&database, &request(), None).await;
    database.clock().advance(LEASE);
    let (attempt, tx) = pays(&relaxed(&database), "100").await;
    attempt.roll_back(tx).await;
    assert_eq!((database.ledger(), state(&database).await), (vec![], Some(State::InProgress)));
    assert_eq!(gets(&strict(&database), &request()).await, Given::Refuse(Refusal::OutcomeUnknown));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_remembered_although_its_writes_are_rolled_back() {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.roll_back_and_remember(tx, value("no funds")).await, InPlaceOfMine::OwnAnswer);
    assert_eq!(database.calls(), [Op::Open, Op::RollBack, Op::Insert], "rolled back first, then written");
    assert_eq!(state(&database).await, Some(State::Completed(value("no funds"))));
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("no funds")));
    assert_eq!(database.ledger(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_remembered_over_the_version_that_was_found() {
    let database = Database::new();
    used_under_a_claim(&database, &request(), Some(Settlement::Released)).await;
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.roll_back_and_remember(tx, value("no funds")).await, InPlaceOfMine::OwnAnswer);
    assert_eq!(database.calls(), [Op::Open, Op::RollBack, Op::Replace]);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("no funds")));
}

/// Remembers an answer, while the other mode uses the key between the rollback and the write.
async fn remembers_after(theirs: Fingerprint, settlement: Option<Settlement>) -> (Database, InPlaceOfMine) {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    database.after_rollback({
        let database = database.clone();
        async move { used_under_a_claim(&database, &theirs, settlement).await }
    });
    let goes_out = attempt.roll_back_and_remember(tx, value("no funds")).await;
    assert_eq!(database.ledger(), [] as [&str; 0]);
    (database, goes_out)
}

#[tokio::test(start_paused = true)]
async fn whoever_completes_the_same_request_between_rollback_and_memory_gives_the_answer() {
    let theirs = Settlement::Completed(value("theirs"));
    let (database, goes_out) = remembers_after(request(), Some(theirs)).await;
    assert_eq!(goes_out, InPlaceOfMine::Answer(value("theirs")));
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("theirs")));
}

#[tokio::test(start_paused = true)]
async fn whoever_begins_the_same_request_between_rollback_and_memory_is_in_progress() {
    let (database, goes_out) = remembers_after(request(), None).await;
    assert!(matches!(goes_out, InPlaceOfMine::Refuse(Refusal::InProgress { .. })), "{goes_out:?}");
    assert_eq!(state(&database).await, Some(State::InProgress));
}

#[tokio::test(start_paused = true)]
async fn another_transaction_that_locks_the_key_before_the_memory_is_in_progress() {
    let database = Database::new();
    database.next(Op::Insert, [Fault::NotWritten(StoreErrorKind::Locked)]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    let goes_out = attempt.roll_back_and_remember(tx, value("no funds")).await;
    assert_eq!(goes_out, InPlaceOfMine::Refuse(machine::locked()));
}

#[tokio::test(start_paused = true)]
async fn another_request_under_the_key_leaves_the_answer_to_its_client_and_is_left_alone() {
    for settlement in [None, Some(Settlement::Completed(value("theirs")))] {
        let (database, goes_out) = remembers_after(other_request(), settlement).await;
        assert_eq!(goes_out, InPlaceOfMine::OwnAnswer);
        assert_eq!(gets(&strict(&database), &request()).await, Given::Refuse(Refusal::KeyReused));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_released_meanwhile_still_remembers() {
    let (database, goes_out) = remembers_after(request(), Some(Settlement::Released)).await;
    assert_eq!(goes_out, InPlaceOfMine::OwnAnswer);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("no funds")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_could_not_be_remembered_goes_out_is_observed_and_its_retry_runs() {
    for fault in [Fault::NotWritten(StoreErrorKind::Unavailable), Fault::LostRequest, Fault::Hangs] {
        let (database, told) = (Database::new(), Told::default());
        database.next(Op::Insert, [fault]);
        let driver = strict(&database).observe(told.clone());
        let (attempt, tx) = pays(&driver, "100").await;
        let (goes_out, took) = timed(attempt.roll_back_and_remember(tx, value("no funds"))).await;
        assert_eq!((goes_out, told.all()), (InPlaceOfMine::OwnAnswer, vec!["not remembered"]));
        assert!(took <= 5 * SECOND, "{took:?}");
        assert_eq!(driver.idempotency().owed_writes(), 0, "nothing happened, and nothing is owed");
        the_retry_runs_once(&database).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_memory_was_written_without_a_reply_is_replayed() {
    let database = Database::new();
    database.next(Op::Insert, [Fault::LostReply]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.roll_back_and_remember(tx, value("no funds")).await, InPlaceOfMine::OwnAnswer);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("no funds")));
}
