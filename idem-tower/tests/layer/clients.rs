//! Clients that hang up, at every point where one can.

use std::sync::Arc;

use http::Response;
use idem_core::KeyStore;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::support::{
    App, Fault, Held, Order, Seen, Step, Steps, charged, data, first_charge, gate, key, payment, request, seen,
};

fn client(app: &App, request: http::Request<Steps>) -> JoinHandle<Seen> {
    let app = app.clone();
    tokio::spawn(async move { app.send(request).await })
}

async fn hang_up(client: JoinHandle<Seen>) {
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
}

/// A shop whose handler says that it runs, and goes on once it is let.
fn slow_shop() -> (App, Arc<Held>) {
    let held = Arc::new(Held::default());
    let in_handler = Arc::clone(&held);
    let app = App::new(move |order: Order| {
        let held = Arc::clone(&in_handler);
        async move {
            held.begun.notify_one();
            held.go_on.notified().await;
            Ok(charged(order.run))
        }
    });
    (app, held)
}

#[tokio::test]
async fn while_the_request_body_comes_in_nothing_was_claimed() {
    let app = App::charging();
    let (open, closed) = gate();
    let body = Steps::of([data("{"), closed, data("}")]);
    let polls = body.polls();
    let client = client(&app, request(body));
    while polls.load(std::sync::atomic::Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    hang_up(client).await;
    drop(open);
    assert_eq!((app.runs(), app.store.calls()), (0, 0));
    assert_eq!(app.pay().await, first_charge());
}

#[tokio::test]
async fn while_the_key_is_claimed_the_claim_and_its_handler_go_on() {
    let app = App::charging();
    let held = Arc::new(Held::default());
    app.store.next_insert([Fault::Held(Arc::clone(&held))]);
    let client = client(&app, payment());
    held.begun.notified().await;
    hang_up(client).await;
    held.go_on.notify_one();
    app.layer.drain().await;
    assert_eq!(app.pay().await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn while_the_handler_runs_it_goes_on_and_its_answer_waits() {
    let (app, held) = slow_shop();
    let client = client(&app, payment());
    held.begun.notified().await;
    hang_up(client).await;
    app.pay().await.is_problem(409, "in-progress");
    held.go_on.notify_one();
    app.layer.drain().await;
    assert_eq!(app.pay().await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn while_the_response_is_read_it_is_read_to_its_end() {
    let (open, closed) = gate();
    let body = std::sync::Mutex::new(Some(Steps::of([data("half "), closed, data("and half")])));
    let reading = Arc::new(Notify::new());
    let told = Arc::clone(&reading);
    let app = App::answering(move || {
        told.notify_one();
        Response::new(body.lock().unwrap().take().unwrap())
    });
    let client = client(&app, payment());
    reading.notified().await;
    hang_up(client).await;
    open.send(()).unwrap();
    app.layer.drain().await;
    assert_eq!(app.pay().await, seen(200, &[], "half and half").replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn while_the_outcome_is_written_it_is_written() {
    let app = App::charging();
    let held = Arc::new(Held::default());
    app.store.next_replace([Fault::Held(Arc::clone(&held))]);
    let client = client(&app, payment());
    held.begun.notified().await;
    hang_up(client).await;
    held.go_on.notify_one();
    app.layer.drain().await;
    assert_eq!(app.pay().await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn while_a_body_that_fails_is_read_the_failure_is_recorded() {
    let (open, closed) = gate();
    let body = std::sync::Mutex::new(Some(Steps::of([data("half "), closed, Step::Break])));
    let app = App::answering(move || Response::new(body.lock().unwrap().take().unwrap()));
    let client = client(&app, payment());
    while app.runs() == 0 {
        tokio::task::yield_now().await;
    }
    hang_up(client).await;
    open.send(()).unwrap();
    app.layer.drain().await;
    app.pay().await.is_problem(500, "previous-attempt-failed");
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_for_another_attempt_the_waiter_is_gone_and_runs_nothing() {
    let (app, held) = slow_shop();
    let app = app.set(|layer| layer.wait(std::time::Duration::from_secs(60)));
    let leader = client(&app, payment());
    held.begun.notified().await;
    let waiter = client(&app, payment());
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    hang_up(waiter).await;
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_future_that_is_never_polled_does_nothing() {
    let app = App::charging();
    let mut service = app.service.clone();
    drop(tower::Service::call(&mut service, payment()));
    tokio::task::yield_now().await;
    assert_eq!((app.runs(), app.store.calls()), (0, 0));
}

/// Drops the response after every possible number of polls.
#[tokio::test]
async fn wherever_a_client_hangs_up_the_key_ends_completed_or_untouched() {
    for polls in 0..40 {
        let app = App::new(async |order: Order| {
            tokio::task::yield_now().await;
            let (open, closed) = oneshot::channel();
            tokio::spawn(async { open.send(()) });
            let steps = Steps::of([data("charge "), Step::Gate(closed), data("of a client")]);
            assert_eq!(order.run, 1);
            Ok(Response::new(steps))
        });
        let (open, closed) = gate();
        tokio::spawn(async { open.send(()) });
        let mut client = Box::pin(app.send(request(Steps::of([data("{"), closed, data("}")]))));
        for _ in 0..polls {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(client.as_mut().poll(cx).is_ready())).await;
            if polled {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(client);
        let drained = app.layer.clone();
        drained.drain().await;
        let runs = app.runs();
        let found = app.store.memory.find(&key()).await.unwrap();
        assert_eq!(found.is_some(), runs == 1, "after {polls} polls");
        if runs == 1 {
            assert_eq!(app.send(request("{}")).await, seen(200, &[], "charge of a client").replayed());
        }
    }
}
