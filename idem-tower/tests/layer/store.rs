//! A store that fails before the handler and after it, and leases that are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use idem_core::{
    Answer, Begin, Epoch, Fingerprint, Policy, Settled, Settlement, StoreErrorKind, policy::LONGEST_DURATION,
};
use idem_memory::{Limits, MemoryStore};
use tokio::task::JoinHandle;
use tower::{Layer, ServiceExt};

use crate::support::{App, Fault, Held, Order, Seen, Steps, charged, first_charge, key, payment, request, see, seen};

const DOWN: Fault = Fault::Refused(StoreErrorKind::Unavailable);

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_before_the_handler_runs_nothing() {
    for fault in [DOWN, Fault::Lost] {
        let app = App::charging();
        app.store.set_down(Some(fault));
        let refused = app.pay().await;
        refused.is_problem(503, "store-unavailable");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 2);
        assert_eq!(app.runs(), 0);
        app.store.set_down(None);
        app.layer.idempotency().work_off_owed().await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(app.pay().await, first_charge(), "the key is not stuck");
    }
}

#[tokio::test]
async fn a_store_of_any_other_failure_runs_nothing_under_any_policy() {
    for kind in [StoreErrorKind::Misconfigured, StoreErrorKind::Other] {
        for policy in [Policy::strict(), Policy::relaxed()] {
            let app = App::charging().set(|layer| layer.policy(policy));
            app.store.next_insert([Fault::Refused(kind)]);
            app.pay().await.is_problem(503, "store-unavailable");
            assert_eq!(app.runs(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_reply_is_lost_once_is_recognised_and_runs_once() {
    let app = App::charging();
    app.store.next_insert([Fault::LostReply]);
    assert_eq!(app.pay().await, first_charge());
    assert_eq!(app.pay().await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_given_up_is_released_in_the_background() {
    let app = App::charging();
    app.store.next_insert(vec![Fault::LostReply; 3]);
    app.pay().await.is_problem(503, "store-unavailable");
    assert_eq!((app.runs(), app.layer.owed_writes()), (0, 1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(app.pay().await, first_charge());
}

#[tokio::test(start_paused = true)]
async fn a_relaxed_route_runs_without_protection_while_the_store_is_certainly_down() {
    let app = App::new(async |order: Order| {
        assert_eq!(order.running().epoch(), Epoch::UNPROTECTED);
        Ok(charged(order.run))
    })
    .set(|layer| layer.policy(Policy::relaxed()));
    app.store.set_down(Some(DOWN));
    assert_eq!(app.pay().await, first_charge());
    assert_eq!(app.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!((app.runs(), app.layer.owed_writes()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_relaxed_route_runs_nothing_while_nobody_knows_whether_the_claim_stands() {
    let app = App::charging().set(|layer| layer.policy(Policy::relaxed()));
    app.store.set_down(Some(Fault::Lost));
    app.pay().await.is_problem(503, "store-unavailable");
    assert_eq!(app.runs(), 0);
}

/// A relaxed shop whose first run goes on once it is let, and says release; and its client, who has begun it.
async fn waited_for() -> (App, Arc<Held>, JoinHandle<Seen>) {
    let held = Arc::new(Held::default());
    let in_handler = Arc::clone(&held);
    let app = App::new(move |order: Order| {
        let held = Arc::clone(&in_handler);
        async move {
            if order.run == 1 {
                held.begun.notify_one();
                held.go_on.notified().await;
                order.running().release();
            }
            Ok(charged(order.run))
        }
    })
    .set(|layer| layer.policy(Policy::relaxed()).wait(Duration::from_secs(20)));
    let leader = app.clone();
    let leader = tokio::spawn(async move { leader.pay().await });
    held.begun.notified().await;
    (app, held, leader)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_a_relaxed_route_never_runs_beside_the_attempt_it_has_seen() {
    let (app, held, leader) = waited_for().await;
    let waiter = app.clone();
    let waiter = tokio::spawn(async move { waiter.pay().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    app.store.set_down(Some(DOWN));
    waiter.await.unwrap().is_problem(503, "store-unavailable");
    assert_eq!(app.runs(), 1);
    app.store.set_down(None);
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_a_relaxed_route_whose_own_claim_fails_runs_nothing() {
    let (app, held, leader) = waited_for().await;
    let waiter = app.clone();
    let waiter = tokio::spawn(async move { waiter.pay().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    app.store.next_insert(vec![DOWN; 3]);
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    waiter.await.unwrap().is_problem(503, "store-unavailable");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_full_store_refuses_new_keys_and_replays_old_ones() {
    let app = App::charging();
    let limits = Limits::default().with_entries(1).unwrap();
    let route = idem_tower::fixed_route(idem_core::Route::new("payments").unwrap());
    let layer = idem_tower::IdempotencyLayer::new(MemoryStore::new(limits), crate::support::caller, route);
    let service = layer.layer(tower::service_fn(async |_: http::Request<idem_tower::Body<Steps>>| {
        Ok::<_, std::io::Error>(charged(1))
    }));
    let send = async |request| see(service.clone().oneshot(request).await.unwrap()).await;
    assert_eq!(send(payment()).await, first_charge());
    let mut other = payment();
    other.headers_mut().insert("idempotency-key", "another-key".parse().unwrap());
    send(other).await.is_problem(503, "overloaded");
    assert_eq!(send(payment()).await, first_charge().replayed());
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn no_answer_goes_out_before_its_key_is_settled() {
    let app = App::charging();
    let held = Arc::<Held>::default();
    app.store.next_replace([Fault::Held(Arc::clone(&held))]);
    let client = app.clone();
    let client = tokio::spawn(async move { client.pay().await });
    held.begun.notified().await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!client.is_finished());
    app.pay().await.is_problem(409, "in-progress");
    held.go_on.notify_one();
    assert_eq!(client.await.unwrap(), first_charge());
    assert_eq!(app.pay().await, first_charge().replayed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_completion_is_owed_goes_out_and_is_completed_later() {
    for fault in [DOWN, Fault::Lost, Fault::LostReply] {
        let app = App::charging();
        app.store.next_replace(vec![fault; 2]);
        assert_eq!(app.pay().await, first_charge());
        assert_eq!(app.layer.owed_writes(), 1);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(app.layer.owed_writes(), 0);
        assert_eq!(app.pay().await, first_charge().replayed());
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_while_the_completion_is_owed_is_refused_and_never_runs() {
    let app = App::charging();
    app.store.next_replace([DOWN]);
    app.pay().await;
    app.pay().await.is_problem(409, "in-progress");
    assert_eq!(app.runs(), 1);
}

/// One fingerprint for whatever is sent, so that a test can hold the key itself.
pub(crate) fn paying() -> Fingerprint {
    Fingerprint::bytes("pay", b"")
}

/// A shop whose handler loses its lease to another attempt, which then does as `meanwhile` says.
pub(crate) fn robbed(meanwhile: Option<Settlement>, theirs: Fingerprint) -> App {
    let robber = Arc::new(std::sync::OnceLock::<App>::new());
    let in_handler = Arc::clone(&robber);
    let app = App::new(move |order: Order| {
        let (robber, meanwhile) = (Arc::clone(&in_handler), meanwhile.clone());
        async move {
            let app = robber.get().unwrap();
            app.clock.advance(LONGEST_DURATION);
            let idem = app.layer.idempotency().clone().policy(Policy::relaxed());
            let Begin::Run(other) = idem.begin(&key(), &theirs).await.unwrap() else { panic!("the lease is over") };
            if let Some(settlement) = meanwhile {
                assert_eq!(other.settle(settlement).await, Settled::Done);
            }
            Ok(charged(order.run))
        }
    })
    .set(|layer| layer.fingerprint(|_, _| paying()));
    robber.set(app.clone()).ok().unwrap();
    app
}

#[tokio::test]
async fn a_lease_lost_to_a_completed_attempt_gives_that_answer() {
    let theirs = idem_core::Response { status: 202, body: Bytes::from_static(b"theirs"), ..Default::default() };
    let app = robbed(Some(Settlement::Completed(Answer::from(theirs))), paying());
    assert_eq!(app.pay().await, seen(202, &[], "theirs").replayed());
    assert_eq!(app.pay().await, seen(202, &[], "theirs").replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn an_answer_of_the_attempt_that_took_the_lease_is_asked_for_as_any_replay() {
    let theirs = idem_core::Response { status: 202, body: Bytes::from_static(b"theirs"), ..Default::default() };
    for (denial, expected) in
        [(Some(StatusCode::FORBIDDEN), seen(403, &[], "")), (None, seen(202, &[], "theirs").replayed())]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let app = robbed(Some(Settlement::Completed(Answer::from(theirs.clone()))), paying()).set(move |layer| {
            layer.check_replay(move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { denial.map_or(Ok(()), Err) }
            })
        });
        assert_eq!(app.pay().await, expected);
        assert_eq!((asked.load(Ordering::SeqCst), app.runs()), (1, 1));
    }
}

#[tokio::test]
async fn a_lease_lost_to_a_running_attempt_is_in_progress() {
    let app = robbed(None, paying());
    app.pay().await.is_problem(409, "in-progress");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_lease_lost_to_another_request_gives_its_own_answer() {
    let app = robbed(None, Fingerprint::bytes("something else", b""));
    assert_eq!(app.pay().await, first_charge());
    app.pay().await.is_problem(422, "key-reused");
}

#[tokio::test]
async fn a_lease_lost_to_an_attempt_without_an_answer_gives_its_own() {
    let app = robbed(Some(Settlement::Completed(Answer::NotKept)), paying());
    assert_eq!(app.pay().await, first_charge());
    app.pay().await.is_problem(409, "response-not-kept");
}

#[tokio::test]
async fn a_claim_that_vanished_meanwhile_is_completed_all_the_same() {
    let robber = Arc::new(std::sync::OnceLock::<App>::new());
    let in_handler = Arc::clone(&robber);
    let app = App::new(move |order: Order| {
        let robber = Arc::clone(&in_handler);
        async move {
            robber.get().unwrap().clock.advance(LONGEST_DURATION);
            Ok(charged(order.run))
        }
    });
    robber.set(app.clone()).ok().unwrap();
    assert_eq!(app.pay().await, first_charge());
    assert_eq!(app.pay().await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_that_its_lease_is_lost_and_its_answer_still_goes_out() {
    let app = App::new(async |order: Order| {
        order.running().lost().await;
        Ok(charged(order.run))
    });
    app.store.next_replace(vec![Fault::Lost; 1000]);
    let answer = app.pay().await;
    assert_eq!(answer, first_charge());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_response_is_read() {
    let (open, closed) = crate::support::gate();
    let body = std::sync::Mutex::new(Some(Steps::of([closed, crate::support::data("late")])));
    let policy = Policy::strict().customize().lease(Duration::from_secs(3)).build().unwrap();
    let app = App::answering(move || http::Response::new(body.lock().unwrap().take().unwrap()))
        .set(|layer| layer.policy(policy));
    let time_passes = async {
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            app.clock.advance(Duration::from_secs(1));
        }
        app.pay().await.is_problem(409, "in-progress");
        open.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(app.pay(), time_passes);
    assert_eq!(first, seen(200, &[], "late"));
    assert_eq!(app.pay().await, first.replayed());
    assert_eq!(app.runs(), 1);
    drop(app.send(request("other")).await.is_problem(422, "key-reused"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up_after_the_call_timeout() {
    let app = App::charging().set(|layer| layer.call_timeout(Duration::from_secs(1)));
    let held = Arc::default();
    app.store.set_down(Some(Fault::Held(held)));
    let begun = tokio::time::Instant::now();
    app.pay().await.is_problem(503, "store-unavailable");
    assert_eq!(begun.elapsed().as_secs(), 3, "three calls, and the pauses between them");
    assert_eq!(app.runs(), 0);
}
