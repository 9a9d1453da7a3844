//! Run: the closure form, as a queue consumer uses it.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use idem_core::{
    Answer, Certainty, Handled, Outcome, Refusal, Running, State, StoreError, StoreErrorKind, TransactionalStore,
    machine,
};

use crate::database::{Database, Fault, Op, Transaction};
use crate::support::{Given, gets, key, other_request, request, state, strict, the_retry_runs_once, value};

type Ended = Result<Outcome<u64, &'static str>, StoreError>;

/// Ships once, and ends as it is told.
async fn ship(
    database: &Database,
    handler: impl AsyncFnOnce(&mut Transaction, Running) -> Handled<u64, &'static str>,
) -> Ended {
    let handler = async |tx: &mut Transaction, running| {
        tx.write("parcel");
        handler(tx, running).await
    };
    strict(database).run(&key(), &request(), handler).await
}

#[tokio::test(start_paused = true)]
async fn a_value_is_committed_with_the_business_writes_and_replayed() {
    let database = Database::new();
    let done = ship(&database, async |_, running| Handled::Complete(running.epoch().number())).await.unwrap();
    assert_eq!((done, database.ledger()), (Outcome::Completed(1), vec!["parcel".to_owned()]));
    let retry = ship(&database, async |_, _| panic!("it has run")).await.unwrap();
    assert_eq!((retry, database.ledger()), (Outcome::Replayed(1), vec!["parcel".to_owned()]));
    let handler = async |_: &mut Transaction, _| Handled::<u32, ()>::Complete(2);
    let reused = strict(&database).run(&key(), &other_request(), handler).await.unwrap();
    assert_eq!(reused, Outcome::Refused(Refusal::KeyReused));
}

#[tokio::test(start_paused = true)]
async fn how_the_handler_ended_decides_about_commit_and_rollback() {
    let not_kept = Some(State::Completed(Answer::NotKept));
    let rows = [
        (Handled::Complete(1), Outcome::Completed(1), Some(State::Completed(value("1")))),
        (Handled::CompleteNotKept(1), Outcome::Completed(1), not_kept),
        (Handled::Release("no"), Outcome::Released("no"), None),
        (Handled::Fail("no"), Outcome::Failed("no"), None),
        (Handled::FailWithoutEffect("no"), Outcome::Failed("no"), None),
    ];
    for (handled, outcome, recorded) in rows {
        let database = Database::new();
        let ended = ship(&database, async |_, _| handled.clone()).await.unwrap();
        assert_eq!((ended, state(&database).await), (outcome, recorded.clone()), "{handled:?}");
        assert_eq!(database.ledger().len(), usize::from(recorded.is_some()), "{handled:?}");
        assert_eq!(database.open_now(), 0);
        if recorded.is_none() {
            the_retry_runs_once(&database).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_handler_declares_comes_before_what_it_returns() {
    for declare in [|running: &Running| running.release(), |running: &Running| running.fail_without_effect()] {
        let database = Database::new();
        let ended = ship(&database, async |_, running| {
            declare(&running);
            Handled::Complete(1)
        });
        assert_eq!(ended.await.unwrap(), Outcome::Completed(1));
        assert_eq!((database.ledger(), state(&database).await), (vec![], None));
        the_retry_runs_once(&database).await;
    }
    let database = Database::new();
    let ended = ship(&database, async |_, running| {
        running.do_not_keep();
        Handled::Complete(1)
    });
    assert_eq!(ended.await.unwrap(), Outcome::Completed(1));
    assert_eq!(database.ledger(), ["parcel"]);
    assert_eq!(gets(&strict(&database), &request()).await, Given::Refuse(Refusal::ResponseNotKept));
}

#[tokio::test(start_paused = true)]
async fn a_panic_rolls_back_and_goes_on_to_the_caller() {
    let database = Database::new();
    for late in [false, true] {
        let panicking = ship(&database, async |_, _| {
            if late {
                tokio::task::yield_now().await;
            }
            panic!("the handler panics")
        });
        let panic = AssertUnwindSafe(panicking).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the handler panics"));
        assert_eq!((database.ledger(), state(&database).await, database.open_now()), (vec![], None, 0));
    }
    assert_eq!(database.calls(), [Op::Open, Op::RollBack, Op::Open, Op::RollBack]);
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn an_aborted_transaction_is_an_error_and_never_a_completion() {
    let database = Database::new();
    let ended = ship(&database, async |tx, _| {
        tx.fail_a_statement();
        Handled::Complete(1)
    });
    let error = ended.await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Aborted, Certainty::NotWritten));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_is_completed_where_it_took_place_and_an_error_where_it_did_not() {
    let database = Database::new();
    database.next(Op::Commit, [Fault::LostReply]);
    let ended = ship(&database, async |_, _| Handled::Complete(1)).await.unwrap();
    assert_eq!((ended, database.ledger()), (Outcome::Completed(1), vec!["parcel".to_owned()]));

    let database = Database::new();
    database.next(Op::Commit, [Fault::LostRequest]);
    let error = ship(&database, async |_, _| Handled::Complete(1)).await.unwrap_err();
    assert_eq!(error.certainty(), Certainty::NotWritten);
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_cancelled_leaves_nothing() {
    let database = Database::new();
    let never = ship(&database, async |_, _| std::future::pending().await);
    assert!(tokio::time::timeout(crate::support::SECOND, never).await.is_err());
    assert_eq!((database.ledger(), state(&database).await, database.open_now()), (vec![], None, 0));
    the_retry_runs_once(&database).await;
}

#[tokio::test(start_paused = true)]
async fn the_handler_need_not_be_send_and_may_make_the_answer_itself() {
    let database = Database::new();
    let local = Rc::new(value("parcel 1"));
    let handler = async |tx: &mut Transaction, _| {
        tokio::task::yield_now().await;
        tx.write("parcel");
        Handled::<_, String>::Complete(Answer::clone(&local))
    };
    let ended = strict(&database).run_answer(&key(), &request(), handler).await.unwrap();
    assert_eq!((ended, database.ledger()), (Outcome::Completed(value("parcel 1")), vec!["parcel".to_owned()]));
    assert_eq!(gets(&strict(&database), &request()).await, Given::Replay(value("parcel 1")));
}

#[tokio::test]
async fn of_many_at_once_one_runs_and_no_duplicate_holds_a_connection() {
    let database = Database::of_capacity(2);
    let runs = Arc::new(AtomicUsize::new(0));
    let (open_gate, gate) = tokio::sync::watch::channel(false);
    let clients: Vec<_> = (0..32)
        .map(|_| {
            let (database, runs, mut gate) = (database.clone(), Arc::clone(&runs), gate.clone());
            tokio::spawn(async move {
                let handler = async |tx: &mut Transaction, _| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    tx.write("parcel");
                    gate.wait_for(|open| *open).await.unwrap();
                    Handled::<u32, ()>::Complete(1)
                };
                strict(&database).run(&key(), &request(), handler).await.unwrap()
            })
        })
        .collect();
    while clients.iter().filter(|client| client.is_finished()).count() < 31 {
        tokio::task::yield_now().await;
    }
    assert_eq!(database.open_at_most(), 1);
    open_gate.send(true).unwrap();
    let mut ended = Vec::new();
    for client in clients {
        ended.push(client.await.unwrap());
    }
    let completed = ended.iter().filter(|outcome| **outcome == Outcome::Completed(1)).count();
    let refused = ended.iter().filter(|outcome| **outcome == Outcome::Refused(machine::locked())).count();
    assert_eq!((completed, refused, runs.load(Ordering::SeqCst)), (1, 31, 1));
    assert_eq!(database.ledger(), ["parcel"]);
    assert_eq!(database.capacity().get(), 2);
}
