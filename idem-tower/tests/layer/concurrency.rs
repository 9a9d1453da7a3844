//! Many clients, few permits, and the end of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use idem_core::StoreErrorKind;
use idem_tower::{Body, Undrained};
use tokio::task::{JoinHandle, JoinSet};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceExt};

use crate::support::{
    App, Broken, Fault, Held, Order, Seen, Steps, User, charged, first_charge, payment, request, see, seen, status,
};

fn with_key(key: &str) -> Request<Steps> {
    let mut request = payment();
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

fn client(app: &App, request: Request<Steps>) -> JoinHandle<Seen> {
    let app = app.clone();
    tokio::spawn(async move { app.send(request).await })
}

/// A shop whose first run says that it runs, and goes on once it is let. Later runs are quick.
fn slow_first(answer: impl Fn(usize) -> Response<Steps> + Clone + Send + Sync + 'static) -> (App, Arc<Held>) {
    let held = Arc::new(Held::default());
    let in_handler = Arc::clone(&held);
    let app = App::new(move |order: Order| {
        let (held, answer) = (Arc::clone(&in_handler), answer.clone());
        async move {
            if order.run == 1 {
                held.begun.notify_one();
                held.go_on.notified().await;
            }
            Ok(answer(order.run))
        }
    });
    (app, held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_at_once_run_the_handler_once() {
    let app = App::new(async |order: Order| {
        tokio::task::yield_now().await;
        Ok(charged(order.run))
    });
    let mut clients = JoinSet::new();
    for _ in 0..1000 {
        let app = app.clone();
        clients.spawn(async move { app.pay().await });
    }
    let mut first = 0;
    while let Some(seen) = clients.join_next().await {
        match seen.unwrap() {
            seen if seen == first_charge() => first += 1,
            seen if seen == first_charge().replayed() => {}
            seen => drop(seen.is_problem(409, "in-progress")),
        }
    }
    assert_eq!((first, app.runs()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_that_wait_all_get_the_one_answer() {
    let app = App::new(async |order: Order| {
        tokio::task::yield_now().await;
        Ok(charged(order.run))
    })
    .set(|layer| layer.wait(Duration::from_secs(60)));
    let mut clients = JoinSet::new();
    for _ in 0..1000 {
        let app = app.clone();
        clients.spawn(async move { app.pay().await });
    }
    let mut replayed = 0;
    while let Some(seen) = clients.join_next().await {
        let seen = seen.unwrap();
        if seen != first_charge() {
            assert_eq!(seen, first_charge().replayed());
            replayed += 1;
        }
    }
    assert_eq!((replayed, app.runs()), (999, 1));
}

#[tokio::test]
async fn a_running_attempt_refuses_its_retries_and_says_when_to_come_back() {
    let (app, held) = slow_first(charged);
    let leader = client(&app, payment());
    held.begun.notified().await;
    app.clock.advance(Duration::from_millis(1500));
    let retry = app.pay().await;
    let problem = retry.is_problem(409, "in-progress");
    assert_eq!((retry.header("retry-after"), &problem["retry_after_ms"]), (Some("2"), &1500.into()));
    app.send(request("other")).await.is_problem(422, "key-reused");
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_answer_of_the_running_attempt() {
    let (app, held) = slow_first(charged);
    let app = app.set(|layer| layer.wait(Duration::from_secs(60)));
    let leader = client(&app, payment());
    held.begun.notified().await;
    let waiter = client(&app, payment());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!waiter.is_finished());
    held.go_on.notify_one();
    let ended = tokio::time::Instant::now();
    assert_eq!(waiter.await.unwrap(), first_charge().replayed());
    assert!(ended.elapsed() <= Duration::from_millis(500), "it looks again and again");
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_patience_is_over_is_refused() {
    let (app, held) = slow_first(charged);
    let app = app.set(|layer| layer.wait(Duration::from_secs(2)));
    let leader = client(&app, payment());
    held.begun.notified().await;
    let begun = tokio::time::Instant::now();
    app.pay().await.is_problem(409, "in-progress");
    assert_eq!(begun.elapsed().as_secs(), 2);
    held.go_on.notify_one();
    leader.await.unwrap();
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_runs_itself_where_the_running_attempt_releases() {
    let (app, held) = slow_first(|run| if run == 1 { status(429) } else { charged(run) });
    let app = app.set(|layer| layer.wait(Duration::from_secs(60)));
    let leader = client(&app, payment());
    held.begun.notified().await;
    let waiter = client(&app, payment());
    tokio::time::sleep(Duration::from_secs(1)).await;
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), seen(429, &[], "text"));
    assert_eq!(waiter.await.unwrap(), seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!(app.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn waiters_hold_no_permit() {
    let (app, held) = slow_first(charged);
    let app = app.set(|layer| layer.wait(Duration::from_secs(60)).max_in_flight(2));
    let leader = client(&app, payment());
    held.begun.notified().await;
    let waiters: Vec<_> = (0..10).map(|_| client(&app, payment())).collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = app.send(with_key("another-key")).await;
    assert_eq!(other, seen(201, &[("location", "/payments/1")], "charge 2"));
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), first_charge().replayed());
    }
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn overloaded_refuses_new_work_before_its_claim_and_still_replays() {
    let (app, held) = slow_first(charged);
    let done = app.clone().set(|layer| layer.max_in_flight(1));
    let app = app.set(|layer| layer.max_in_flight(1));
    app.runs.store(1, Ordering::SeqCst);
    assert_eq!(done.send(with_key("done-already")).await, seen(201, &[("location", "/payments/1")], "charge 2"));
    app.runs.store(0, Ordering::SeqCst);

    let leader = client(&app, payment());
    held.begun.notified().await;
    let refused = app.send(with_key("another-key")).await;
    refused.is_problem(503, "overloaded");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);

    let replay = seen(201, &[("location", "/payments/1")], "charge 2").replayed();
    assert_eq!(app.send(with_key("done-already")).await, replay);
    app.pay().await.is_problem(409, "in-progress");
    app.send(request("other")).await.is_problem(422, "key-reused");

    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    let now = app.send(with_key("another-key")).await;
    assert_eq!(now, seen(201, &[("location", "/payments/1")], "charge 2"), "the refusal has claimed nothing");
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_refuses_what_is_new_and_still_replays() {
    let (app, held) = slow_first(charged);
    let leader = client(&app, payment());
    held.begun.notified().await;
    let drain = tokio::spawn({
        let layer = app.layer.clone();
        async move { layer.drain().await }
    });
    tokio::task::yield_now().await;
    assert!(!drain.is_finished());
    app.send(with_key("another-key")).await.is_problem(503, "overloaded");
    held.go_on.notify_one();
    drain.await.unwrap();
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(app.pay().await, first_charge().replayed());
    app.send(with_key("another-key")).await.is_problem(503, "overloaded");
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_drain_says_what_is_left() {
    let (app, held) = slow_first(charged);
    let leader = client(&app, payment());
    held.begun.notified().await;
    let left = app.layer.drain_for(Duration::from_secs(5)).await;
    assert_eq!(left, Undrained { attempts: 1, owed_writes: 0 });
    held.go_on.notify_one();
    leader.await.unwrap();
    assert!(app.layer.drain_for(Duration::from_secs(5)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_owed_writes() {
    let app = App::charging();
    app.store.next_replace(vec![Fault::Refused(StoreErrorKind::Unavailable); 3]);
    assert_eq!(app.pay().await, first_charge());
    assert_eq!(app.layer.owed_writes(), 1);
    app.layer.drain().await;
    assert_eq!(app.layer.owed_writes(), 0);
    assert_eq!(app.pay().await, first_charge().replayed());

    let stuck = App::charging();
    stuck.store.next_replace([Fault::Refused(StoreErrorKind::Unavailable)]);
    stuck.pay().await;
    stuck.store.set_down(Some(Fault::Refused(StoreErrorKind::Unavailable)));
    let left = stuck.layer.drain_for(Duration::from_secs(1)).await;
    assert_eq!(left, Undrained { attempts: 0, owed_writes: 1 });
}

#[tokio::test]
async fn clones_share_permits_and_drain_whatever_their_policies() {
    let (app, held) = slow_first(charged);
    let app = app.set(|layer| layer.max_in_flight(1));
    let likes = app.clone().set(|layer| layer.policy(idem_core::Policy::relaxed()));
    let leader = client(&app, payment());
    held.begun.notified().await;
    likes.send(with_key("another-key")).await.is_problem(503, "overloaded");
    held.go_on.notify_one();
    leader.await.unwrap();
    likes.layer.drain().await;
    app.send(with_key("another-key")).await.is_problem(503, "overloaded");
}

/// An inner service that runs so many at once; its run of this number says that it runs, and goes on once it is let.
fn limited(app: &App, at_once: usize, slow_run: usize) -> (impl Fn(Request<Steps>) -> JoinHandle<Seen>, Arc<Held>) {
    let held = Arc::new(Held::default());
    let (in_handler, runs) = (Arc::clone(&held), Arc::new(AtomicUsize::new(0)));
    let inner = tower::service_fn(move |_: Request<Body<Steps>>| {
        let (held, run) = (Arc::clone(&in_handler), runs.fetch_add(1, Ordering::SeqCst) + 1);
        async move {
            if run == slow_run {
                held.begun.notify_one();
                held.go_on.notified().await;
            }
            Ok::<_, Broken>(charged(run))
        }
    });
    let service = app.layer.layer(ConcurrencyLimitLayer::new(at_once).layer(inner));
    let send = move |request| {
        let service = service.clone();
        tokio::spawn(async move { see(service.oneshot(request).await.unwrap()).await })
    };
    (send, held)
}

#[tokio::test]
async fn back_pressure_of_the_inner_service_delays_new_work_and_no_replay() {
    let app = App::charging();
    let (send, held) = limited(&app, 1, 2);
    assert_eq!(send(payment()).await.unwrap(), first_charge());
    let leader = send(with_key("second-key"));
    held.begun.notified().await;

    assert_eq!(send(payment()).await.unwrap(), first_charge().replayed());
    send(with_key("second-key")).await.unwrap().is_problem(409, "in-progress");
    let calls = app.store.calls();
    let delayed = send(with_key("third-key"));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(!delayed.is_finished());
    assert_eq!(app.store.calls(), calls + 1, "it has looked, and claimed nothing");

    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!(delayed.await.unwrap(), seen(201, &[("location", "/payments/1")], "charge 3"));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_holds_no_place_in_the_inner_service() {
    let app = App::charging().set(|layer| layer.wait(Duration::from_secs(60)));
    let (send, held) = limited(&app, 2, 1);
    let leader = send(payment());
    held.begun.notified().await;
    let waiter = send(payment());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = tokio::time::timeout(Duration::from_secs(1), send(with_key("another-key"))).await;
    assert_eq!(other.unwrap().unwrap(), seen(201, &[("location", "/payments/1")], "charge 2"));
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(waiter.await.unwrap(), first_charge().replayed());
}

/// Says at once that it will never serve.
#[derive(Clone)]
struct Closed;

impl Service<Request<Body<Steps>>> for Closed {
    type Response = Response<Steps>;
    type Error = Broken;
    type Future = std::future::Pending<Result<Response<Steps>, Broken>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Broken>> {
        std::task::Poll::Ready(Err(Broken))
    }

    fn call(&mut self, _: Request<Body<Steps>>) -> Self::Future {
        panic!("called though it was not ready")
    }
}

#[tokio::test]
async fn an_inner_service_that_is_never_ready_errs_and_claims_nothing() {
    let app = App::charging();
    let service = app.layer.layer(Closed);
    assert!(service.clone().oneshot(payment()).await.is_err());
    let mut uncovered = payment();
    *uncovered.method_mut() = http::Method::GET;
    assert!(service.oneshot(uncovered).await.is_err());
    assert_eq!(app.store.calls(), 0);
    assert_eq!(app.pay().await, first_charge());
}

#[tokio::test]
async fn many_keys_of_many_principals_run_side_by_side() {
    let app = App::charging();
    let mut clients = JoinSet::new();
    for user in ["alice", "bob", "carol"] {
        for key in 0..50 {
            let app = app.clone();
            clients.spawn(async move {
                let send = || {
                    let mut request = with_key(&format!("key-number-{key}"));
                    request.extensions_mut().insert(User(user));
                    app.send(request)
                };
                let first = send().await;
                assert_eq!(send().await, first.replayed());
            });
        }
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    assert_eq!(app.runs(), 150);
}
