//! Commit: business writes and record together, or neither.

use idem_core::{Answer, Certainty, Concluded, Refusal, Settlement, State, StoreErrorKind};

use crate::database::{Database, Fault, Op};
use crate::support::{
    Given, LEASE, claims, gets, key, other_request, pays, record, relaxed, request, runs, state, strict,
    the_retry_runs_once, used_under_a_claim, value,
};

#[tokio::test(start_paused = true)]
async fn business_writes_and_record_commit_together() {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!((database.ledger(), state(&database).await), (vec![], None), "nothing can be seen before the commit");
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), Concluded::Done);
    let record = record(&database).await.unwrap();
    assert_eq!((record.fingerprint, record.epoch.number()), (request(), 1));
    assert_eq!(record.state, State::Completed(value("paid")));
    assert_eq!(database.ledger(), ["100"]);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("paid")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_kept_commits_and_is_never_run_again() {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.commit(tx, Answer::NotKept).await.unwrap(), Concluded::Done);
    assert_eq!(database.ledger(), ["100"]);
    assert_eq!(gets(&relaxed(&database), &request()).await, Given::Refuse(Refusal::ResponseNotKept));
}

#[tokio::test(start_paused = true)]
async fn an_aborted_transaction_is_never_done_and_its_retry_runs() {
    let database = Database::new();
    let (attempt, mut tx) = pays(&strict(&database), "100").await;
    tx.fail_a_statement();
    let error = attempt.commit(tx, value("paid")).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Aborted, Certainty::NotWritten));
    assert_eq!((database.ledger(), state(&database).await), (vec![], None));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_cannot_be_serialised_is_a_certain_non_write_and_its_retry_runs() {
    let database = Database::new();
    database.next(Op::Commit, [Fault::NotWritten(StoreErrorKind::Contended)]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    let error = attempt.commit(tx, value("paid")).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Contended, Certainty::NotWritten));
    assert!(error.is_worth_a_retry());
    assert_eq!((database.ledger(), state(&database).await), (vec![], None));
    assert_eq!(database.calls(), [Op::Open, Op::Commit], "there is nothing to be looked up");
    the_retry_runs_once(&database).await;
}

/// Commits while something of the other mode has got in the way.
async fn meets(request: &idem_core::Fingerprint, theirs: Option<Settlement>) -> (Database, Concluded) {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    used_under_a_claim(&database, request, theirs).await;
    let concluded = attempt.commit(tx, value("paid")).await.unwrap();
    assert_eq!(database.ledger(), [] as [&str; 0], "everything was rolled back");
    (database, concluded)
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_meets_a_completed_record_rolls_back_and_gives_its_answer() {
    let (database, concluded) = meets(&request(), Some(Settlement::Completed(value("theirs")))).await;
    assert_eq!(concluded, Concluded::Replay(value("theirs")));
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("theirs")));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_meets_a_claim_rolls_back_and_is_in_progress() {
    let (database, concluded) = meets(&request(), None).await;
    assert!(matches!(concluded, Concluded::Refuse(Refusal::InProgress { .. })), "{concluded:?}");
    assert_eq!(state(&database).await, Some(State::InProgress));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_meets_anything_else_is_refused_as_a_request_that_comes_now() {
    let failed = Some(Settlement::Failed { no_effect: false });
    for (theirs, settlement, refusal) in [
        (other_request(), None, Refusal::KeyReused),
        (other_request(), Some(Settlement::Completed(value("theirs"))), Refusal::KeyReused),
        (request(), Some(Settlement::Completed(Answer::NotKept)), Refusal::ResponseNotKept),
        (request(), failed, Refusal::PreviousAttemptFailed { no_effect: false }),
    ] {
        assert_eq!(meets(&theirs, settlement).await.1, Concluded::Refuse(refusal));
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_meets_a_released_key_wrote_nothing_and_is_worth_a_retry() {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    used_under_a_claim(&database, &request(), Some(Settlement::Released)).await;
    let error = attempt.commit(tx, value("paid")).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Contended, Certainty::NotWritten));
    assert_eq!((database.ledger(), state(&database).await), (vec![], Some(State::Released)));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_replaces_the_version_that_it_has_found_and_no_later_one() {
    let released_twice = async |between: bool| {
        let database = Database::new();
        used_under_a_claim(&database, &request(), Some(Settlement::Released)).await;
        let (attempt, tx) = pays(&strict(&database), "100").await;
        assert_eq!(attempt.running().epoch().number(), 2);
        if between {
            used_under_a_claim(&database, &request(), Some(Settlement::Completed(value("theirs")))).await;
        }
        (attempt.commit(tx, value("paid")).await.unwrap(), database)
    };
    let (concluded, database) = released_twice(false).await;
    assert_eq!((concluded, database.ledger()), (Concluded::Done, vec!["100".to_owned()]));
    let (concluded, database) = released_twice(true).await;
    assert_eq!((concluded, database.ledger()), (Concluded::Replay(value("theirs")), vec![]));
    assert_eq!(state(&database).await, Some(State::Completed(value("theirs"))), "a completed record never changes");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_taken_over_in_a_transaction_fences_its_late_attempt() {
    let database = Database::new();
    let idem_core::Begin::Run(late) = claims(&database).begin(&key(), &request()).await.unwrap() else {
        panic!("vacant")
    };
    database.clock().advance(LEASE);
    let (attempt, tx) = runs(&relaxed(&database)).await;
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), Concluded::Done);
    let settled = late.settle(Settlement::Completed(value("late"))).await;
    let theirs = idem_core::InPlaceOfMine::Answer(value("paid"));
    assert_eq!(settled, idem_core::Settled::LeaseLost(theirs));
    assert_eq!(state(&database).await, Some(State::Completed(value("paid"))));
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_ran_on_a_stale_look_is_rolled_back_and_gives_the_first_answer() {
    let database = Database::new();
    let (attempt, tx) = pays(&strict(&database), "100").await;
    attempt.commit(tx, value("paid")).await.unwrap();
    database.next(Op::Open, [Fault::StaleLook]);
    let (attempt, tx) = pays(&strict(&database), "100 again").await;
    assert_eq!(attempt.commit(tx, value("paid again")).await.unwrap(), Concluded::Replay(value("paid")));
    assert_eq!(database.ledger(), ["100"]);
}
