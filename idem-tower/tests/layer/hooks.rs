//! What the application is asked on the way, and problems in its own words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use idem_core::{Policy, StoreErrorKind};
use idem_tower::problem_grpc;

use crate::support::{
    App, Fault, Held, Order, Steps, User, charged, first_charge, key, payment, request, seen, status,
};

fn without_key() -> http::Request<Steps> {
    let mut request = payment();
    request.headers_mut().remove("idempotency-key");
    request
}

#[tokio::test]
async fn a_revoked_grant_gets_no_replay_and_loses_nothing() {
    let (asked, may_see) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, granted) = (Arc::clone(&asked), Arc::clone(&may_see));
    let app = App::charging().set(|layer| {
        layer.check_replay(move |asked| {
            assert_eq!((asked.key.clone(), asked.parts.extensions.get::<User>().unwrap().0), (key(), "alice"));
            assert_eq!(asked.parts.uri, "/payments");
            count.fetch_add(1, Ordering::SeqCst);
            let granted = granted.load(Ordering::SeqCst);
            async move { if granted { Ok(()) } else { Err(StatusCode::FORBIDDEN) } }
        })
    });
    assert_eq!(app.pay().await, first_charge());
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the first request is authorised by who let it in");
    assert_eq!(app.pay().await, seen(403, &[], ""));
    may_see.store(true, Ordering::SeqCst);
    assert_eq!(app.pay().await, first_charge().replayed(), "a denial changes nothing");
    assert_eq!((asked.load(Ordering::SeqCst), app.runs()), (2, 1));
}

#[tokio::test]
async fn a_check_before_replay_may_answer_a_whole_response() {
    let app = App::charging().set(|layer| {
        layer.check_replay(async |_| {
            let gone = Response::builder().status(410).header("x-why", "revoked").body(Bytes::from("gone"));
            Err::<(), _>(gone.unwrap())
        })
    });
    app.pay().await;
    assert_eq!(app.pay().await, seen(410, &[("x-why", "revoked")], "gone"));
    app.send(request("other")).await.is_problem(422, "key-reused");
}

#[tokio::test]
async fn what_a_hook_is_told_can_be_logged_without_secrets() {
    let told = Arc::new(std::sync::Mutex::new(String::new()));
    let log = Arc::clone(&told);
    let app = App::charging().set(|layer| {
        layer.admit(move |asked| {
            *log.lock().unwrap() = format!("{asked:?}");
            async { Ok::<(), StatusCode>(()) }
        })
    });
    let mut request = payment();
    request.headers_mut().insert("authorization", "Bearer secret".parse().unwrap());
    *request.uri_mut() = "/payments?token=secret".parse().unwrap();
    assert_eq!(app.send(request).await, first_charge());
    let expected = format!("Asked {{ method: POST, path: \"/payments\", key: {:?}, .. }}", key());
    assert_eq!(*told.lock().unwrap(), expected);
}

/// A shop with a quota, and how often that was asked.
fn with_quota(quota: usize) -> (App, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let app = App::charging().set(|layer| {
        layer.admit(move |_| {
            let admitted = count.fetch_add(1, Ordering::SeqCst) < quota;
            async move { if admitted { Ok(()) } else { Err(StatusCode::TOO_MANY_REQUESTS) } }
        })
    });
    (app, asked)
}

#[tokio::test]
async fn a_quota_is_asked_for_new_keys_and_never_for_replays_or_refusals() {
    let (app, asked) = with_quota(1);
    assert_eq!(app.pay().await, first_charge());
    for _ in 0..3 {
        assert_eq!(app.pay().await, first_charge().replayed());
    }
    app.send(request("other")).await.is_problem(422, "key-reused");
    app.send(without_key()).await.is_problem(400, "missing-key");
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let mut another = payment();
    another.headers_mut().insert("idempotency-key", "another-key".parse().unwrap());
    assert_eq!(app.send(another).await, seen(429, &[], ""));
    assert_eq!((asked.load(Ordering::SeqCst), app.runs()), (2, 1));
}

#[tokio::test]
async fn a_denied_key_was_not_claimed() {
    let (app, _) = with_quota(0);
    assert_eq!(app.pay().await, seen(429, &[], ""));
    let unlimited = app.set(|layer| layer.admit(async |_| Ok::<(), StatusCode>(())));
    assert_eq!(unlimited.pay().await, first_charge());
}

#[tokio::test]
async fn a_quota_is_not_spent_on_what_is_refused_as_overload() {
    let held = Arc::new(Held::default());
    let in_handler = Arc::clone(&held);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let app = App::new(move |order: Order| {
        let held = Arc::clone(&in_handler);
        async move {
            held.begun.notify_one();
            held.go_on.notified().await;
            Ok(charged(order.run))
        }
    })
    .set(|layer| {
        layer.max_in_flight(1).admit(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<(), StatusCode>(()) }
        })
    });
    let client = app.clone();
    let leader = tokio::spawn(async move { client.pay().await });
    held.begun.notified().await;
    let mut another = payment();
    another.headers_mut().insert("idempotency-key", "another-key".parse().unwrap());
    app.send(another).await.is_problem(503, "overloaded");
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_quota_without_a_store_to_look_into_refuses_or_runs_as_the_policy_says() {
    let (app, asked) = with_quota(usize::MAX);
    app.store.set_down(Some(Fault::Refused(StoreErrorKind::Unavailable)));
    app.pay().await.is_problem(503, "store-unavailable");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let relaxed = app.clone().set(|layer| layer.policy(Policy::relaxed()));
    assert_eq!(relaxed.pay().await, first_charge());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn problems_can_be_rendered_in_ones_own_words() {
    let app = App::charging().set(|layer| {
        layer.key_reused_status(StatusCode::CONFLICT).render(|problem| {
            let body = Bytes::from(format!("<p>{}</p>", problem.slug));
            Response::builder().status(problem.status).header("content-type", "text/html").body(body).unwrap()
        })
    });
    assert_eq!(app.send(without_key()).await, seen(400, &[("content-type", "text/html")], "<p>missing-key</p>"));
    app.pay().await;
    let reused = app.send(request("other")).await;
    assert_eq!(reused, seen(409, &[("content-type", "text/html")], "<p>key-reused</p>"));
}

#[tokio::test]
async fn problem_types_can_point_elsewhere() {
    let app = App::charging().set(|layer| layer.problem_type_base("https://api.example/problems#"));
    let problem = app.send(without_key()).await.is_problem(400, "missing-key");
    assert_eq!(problem["type"], "https://api.example/problems#missing-key");
}

#[tokio::test]
async fn no_problem_is_ever_stored() {
    let app = App::answering(|| status(200));
    let mut anonymous = payment();
    anonymous.extensions_mut().remove::<User>();
    app.send(anonymous).await.is_problem(500, "misconfigured");
    app.send(without_key()).await.is_problem(400, "missing-key");
    let small = app.clone().set(|layer| layer.max_request_body(1));
    small.pay().await.is_problem(413, "body-too-large");
    assert_eq!(app.pay().await, seen(200, &[], "text"), "every one of them was before the claim");
    app.send(request("other")).await.is_problem(422, "key-reused");
    assert_eq!(app.pay().await, seen(200, &[], "text").replayed());
}

#[tokio::test]
async fn grpc_clients_get_problems_as_a_status() {
    let app = App::charging().set(|layer| layer.render(problem_grpc));
    let refused = app.send(without_key()).await;
    let message =
        "This operation needs an Idempotency-Key header: a fresh UUID per operation, the same on every retry.";
    let lines = [
        ("content-type", "application/grpc"),
        ("grpc-status", "3"),
        ("idempotency-problem", "missing-key"),
        ("grpc-message", message),
    ];
    assert_eq!(refused, seen(200, &lines, ""));
}

#[test]
fn settings_that_protect_nothing_panic_at_once() {
    type Change = fn(idem_tower::IdempotencyLayer) -> idem_tower::IdempotencyLayer;
    let changes: [(&str, Change); 8] = [
        ("without methods", |layer| layer.methods([])),
        ("no attempt in flight", |layer| layer.max_in_flight(0)),
        ("than can be counted", |layer| layer.max_in_flight(usize::MAX)),
        ("given up", |layer| layer.call_timeout(Duration::ZERO)),
        ("to wait longer than ten years", |layer| layer.wait(Duration::MAX)),
        ("a pointer starts with `/`", |layer| layer.ignore(["client_timestamp"])),
        ("no 4xx", |layer| layer.key_reused_status(StatusCode::OK)),
        ("is none", |layer| layer.previous_failed_status(StatusCode::OK)),
    ];
    for (why, change) in changes {
        let layer = App::charging().layer;
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| change(layer))).unwrap_err();
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap();
        assert!(text.contains(why), "{text}");
    }
}
