//! A commit whose reply was lost is looked up by whoever gets the lock next.

use idem_core::{Certainty, Concluded, Settlement, StoreErrorKind};

use crate::database::{Database, Fault, Op};
use crate::support::{
    Given, SECOND, Told, gets, in_progress, pays, request, state, strict, the_retry_runs_once, timed,
    used_under_a_claim, value,
};

#[tokio::test(start_paused = true)]
async fn a_commit_whose_reply_was_lost_is_found_by_its_token_and_done() {
    let (database, told) = (Database::new(), Told::default());
    database.next(Op::Commit, [Fault::LostReply]);
    let (attempt, tx) = pays(&strict(&database).observe(told.clone()), "100").await;
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), Concluded::Done);
    assert_eq!((database.ledger(), told.all()), (vec!["100".to_owned()], vec!["commit unknown"]));
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("paid")));
    assert_eq!(database.open_now(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_that_did_not_take_place_is_a_certain_non_write_and_its_retry_runs() {
    for fault in [Fault::LostRequest, Fault::Hangs] {
        let database = Database::new();
        database.next(Op::Commit, [fault]);
        let (attempt, tx) = pays(&strict(&database), "100").await;
        let (error, took) = timed(async { attempt.commit(tx, value("paid")).await.unwrap_err() }).await;
        assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Unavailable, Certainty::NotWritten));
        assert!(took <= 5 * SECOND, "{took:?}");
        assert_eq!((database.ledger(), state(&database).await), (vec![], None));
        the_retry_runs_once(&database).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_that_lands_while_it_is_looked_up_is_done() {
    let database = Database::new();
    database.next(Op::Commit, [Fault::LostUnderWay]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    let commit = attempt.commit(tx, value("paid"));
    let server = async {
        tokio::time::sleep(SECOND).await;
        database.land().await;
    };
    assert_eq!(tokio::join!(commit, server).0.unwrap(), Concluded::Done);
    assert_eq!(database.ledger(), ["100"]);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("paid")));
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_that_stays_under_way_is_unknown_in_time_and_never_runs_beside_itself() {
    for lands in [true, false] {
        let database = Database::new();
        database.next(Op::Commit, [Fault::LostUnderWay]);
        let (attempt, tx) = pays(&strict(&database), "100").await;
        let (error, took) = timed(async { attempt.commit(tx, value("paid")).await.unwrap_err() }).await;
        assert_eq!(error.certainty(), Certainty::Unknown);
        assert!(took <= 6 * SECOND, "{took:?}");
        assert_eq!(gets(&strict(&database), &request()).await, in_progress());
        if lands {
            database.land().await;
            assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("paid")));
            assert_eq!(database.ledger(), ["100"]);
        } else {
            database.never_land();
            the_retry_runs_once(&database).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_gives_the_answer_of_whoever_has_completed_the_request_meanwhile() {
    let database = Database::new();
    database.next(Op::Commit, [Fault::LostRequest]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    used_under_a_claim(&database, &request(), Some(Settlement::Completed(value("theirs")))).await;
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), Concluded::Replay(value("theirs")));
    assert_eq!(database.ledger(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_is_looked_up_again_where_the_look_fails_and_unknown_where_nothing_answers() {
    let down = Fault::NotWritten(StoreErrorKind::Unavailable);
    let database = Database::new();
    database.next(Op::Commit, [Fault::LostReply]);
    database.next(Op::Open, [Fault::None, down, Fault::LostReply]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), Concluded::Done);

    for fault in [down, Fault::Hangs] {
        let database = Database::new();
        database.next(Op::Commit, [Fault::LostReply]);
        database.next(Op::Open, std::iter::once(Fault::None).chain([fault; 100]));
        let (attempt, tx) = pays(&strict(&database), "100").await;
        let (error, took) = timed(async { attempt.commit(tx, value("paid")).await.unwrap_err() }).await;
        assert_eq!(error.certainty(), Certainty::Unknown);
        assert!(took <= 6 * SECOND, "{took:?}");
        assert_eq!(database.ledger(), ["100"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_is_found_also_where_the_look_is_older_than_the_lock() {
    let database = Database::new();
    database.next(Op::Commit, [Fault::LostReply]);
    database.next(Op::Open, [Fault::None, Fault::StaleLook]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap(), Concluded::Done);

    // Without a look that is newer than the lock, nothing is known.
    let database = Database::new();
    database.next(Op::Commit, [Fault::LostReply]);
    database.next(Op::Find, [Fault::NotWritten(StoreErrorKind::Unavailable); 100]);
    let (attempt, tx) = pays(&strict(&database), "100").await;
    assert_eq!(attempt.commit(tx, value("paid")).await.unwrap_err().certainty(), Certainty::Unknown);
}
