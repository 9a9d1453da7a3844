//! Waiting for the running attempt instead of a refusal, and looking without a claim.

use idem_core::{Begin, Look, Refusal, Settlement};
use tokio::time::{Instant, sleep};

use crate::support::{Fault, Faulty, LEASE, Op, SECOND, key, relaxed, request, strict, value};

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_answer_of_the_attempt_it_waited_for() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(leader) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let waiter = tokio::spawn({
        let store = store.clone();
        async move { strict(&store).begin_waiting(&key(), &request(), 10 * SECOND).await.unwrap() }
    });
    leader.drive(sleep(3 * SECOND)).await;
    leader.settle(Settlement::Completed(value("paid"))).await;
    let Begin::Replay(answer) = waiter.await.unwrap() else { panic!("completed") };
    assert_eq!(answer, value("paid"));
    assert!(store.calls(Op::Claim) < 20, "the looks are spaced out: {}", store.calls(Op::Claim));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_leader_releases_runs_itself() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(leader) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let waiter = tokio::spawn({
        let store = store.clone();
        async move { strict(&store).begin_waiting(&key(), &request(), 10 * SECOND).await.unwrap() }
    });
    sleep(SECOND).await;
    leader.settle(Settlement::Released).await;
    assert!(matches!(waiter.await.unwrap(), Begin::Run(_)));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gives_up_at_its_bound_and_never_takes_a_live_claim() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(leader) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let waiter = tokio::spawn({
        let store = store.clone();
        async move {
            let start = Instant::now();
            let begin = strict(&store).begin_waiting(&key(), &request(), 3 * LEASE).await.unwrap();
            (begin, start.elapsed())
        }
    });
    leader.drive(sleep(4 * LEASE)).await;
    let (begin, waited) = waiter.await.unwrap();
    assert!(matches!(begin, Begin::Refuse(Refusal::InProgress { .. })), "{begin:?}");
    assert_eq!(waited, 3 * LEASE);
}

#[tokio::test(start_paused = true)]
async fn a_look_claims_nothing() {
    let store = Faulty::new();
    let idem = strict(&store);
    assert_eq!(idem.look(&key(), &request()).await.unwrap(), Look::WouldRun);
    assert_eq!(store.there().await, None);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let look = idem.look(&key(), &request()).await.unwrap();
    assert!(matches!(look, Look::Refuse(Refusal::InProgress { .. })), "{look:?}");
    attempt.settle(Settlement::Completed(value("paid"))).await;
    assert_eq!(idem.look(&key(), &request()).await.unwrap(), Look::Replay(value("paid")));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_seen_the_leader_never_runs_unprotected_beside_it() {
    let store = Faulty::new();
    let idem = relaxed(&store);
    let Begin::Run(leader) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let waiter = tokio::spawn({
        let store = store.clone();
        async move { relaxed(&store).begin_waiting(&key(), &request(), 10 * SECOND).await }
    });
    sleep(SECOND / 200).await;
    store.always(Op::Claim, Fault::NotWritten);
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.certainty(), idem_core::Certainty::NotWritten);
    drop(leader);
}
