//! Cancellation at every await: a driver future is dropped after each number of polls there is.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use idem_core::{Begin, Handled, Refusal, Settlement, State};
use tokio::time::sleep;

use crate::support::{Fault, Faulty, LEASE, Op, Runs, SECOND, key, request, spawning, strict, value};

/// Polls at most `polls` times; says whether it was done by then. Every wake-up in between is waited for.
async fn poll_at_most(polls: usize, future: impl Future<Output = ()>) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Every fault that a claim can meet on its way, each with a call that takes its time.
const CLAIM_FAULTS: [&[Fault]; 5] = [
    &[Fault::Late(SECOND)],
    &[Fault::LostReply, Fault::Late(SECOND)],
    &[Fault::LostRequest, Fault::Late(SECOND)],
    &[Fault::NotWritten, Fault::Late(SECOND)],
    &[Fault::HangsAfter, Fault::Late(SECOND)],
];

#[tokio::test(start_paused = true)]
async fn a_begin_that_is_dropped_anywhere_leaves_no_claim_that_nobody_runs() {
    for faults in CLAIM_FAULTS {
        for polls in 1.. {
            let store = Faulty::new();
            let idem = spawning(strict(&store));
            store.next(Op::Claim, faults.iter().copied());
            let runs = Runs::default();
            let done = poll_at_most(polls, async {
                if let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() {
                    runs.add();
                    attempt.settle(Settlement::Completed(value("paid"))).await;
                }
            })
            .await;
            // The claim of a dropped future may still be under way in the store, and so may its release.
            sleep(20 * SECOND).await;
            let state = store.state().await;
            assert!(!matches!(state, Some(State::InProgress)), "{faults:?}, dropped after {polls} polls: {state:?}");
            assert_eq!(idem.owed_writes(), 0);
            if done {
                break;
            }
            assert!(polls < 100, "{faults:?}: never done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_anywhere_never_loses_what_its_handler_did() {
    for polls in 1.. {
        let store = Faulty::new();
        let idem = spawning(strict(&store));
        store.next(Op::Claim, [Fault::Late(SECOND)]);
        store.next(Op::Settle, [Fault::Late(SECOND)]);
        let runs = Runs::default();
        let done = poll_at_most(polls, async {
            let handler = async |_| {
                sleep(SECOND).await;
                runs.add();
                Handled::<_, String>::Complete("paid".to_owned())
            };
            let _ = idem.run(&key(), &request(), handler).await.unwrap();
        })
        .await;
        sleep(LEASE + SECOND).await;
        let retry = idem.begin(&key(), &request()).await.unwrap();
        match runs.count() {
            // Dropped before or while it ran: a dropped future proves nothing, so it is either released or unknown.
            0 => assert!(
                matches!(retry, Begin::Run(_) | Begin::Refuse(Refusal::OutcomeUnknown)),
                "dropped after {polls} polls: {retry:?}"
            ),
            _ => assert!(matches!(retry, Begin::Replay(_)), "dropped after {polls} polls: {retry:?}"),
        }
        if done {
            return;
        }
        assert!(polls < 100, "never done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_keeps_its_claim() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    drop(idem.begin(&key(), &request()).await.unwrap());
    sleep(SECOND).await;
    assert_eq!(store.state().await, Some(State::InProgress));
    assert_eq!(idem.owed_writes(), 0);
}
