//! The layer where axum users put it.
#![allow(clippy::unwrap_used, reason = "a test may")]
#![cfg(feature = "axum")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use idem_core::{Policy, Principal, ScopeError};
use idem_memory::MemoryStore;
use idem_tower::{IdempotencyLayer, Running, matched_path};
use serde_json::{Value, json};
use tower::ServiceExt;

#[derive(Clone)]
struct User(&'static str);

fn caller(parts: &Parts) -> Option<Result<Principal, ScopeError>> {
    parts.extensions.get::<User>().map(|user| Principal::new(user.0))
}

type Count = Arc<AtomicUsize>;

async fn pay(State(count): State<Count>, running: Running, Json(order): Json<Value>) -> impl IntoResponse {
    let charge = count.fetch_add(1, Ordering::SeqCst) + 1;
    let card = running.derive_key("charge-card").as_str().to_owned();
    (
        StatusCode::CREATED,
        [("location", "/payments/1")],
        Json(json!({ "charge": charge, "card": card, "order": order })),
    )
}

fn idem() -> IdempotencyLayer {
    IdempotencyLayer::new(MemoryStore::default(), caller, matched_path)
}

fn payment(path: &str, key: &str, body: &str) -> Request {
    Request::post(path)
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .extension(User("alice"))
        .body(Body::from(body.to_owned()))
        .unwrap()
}

async fn send(app: &Router, request: Request) -> (StatusCode, HeaderMap, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn pays_once(app: &Router, path: &str, count: &Count) {
    let before = count.load(Ordering::SeqCst);
    let (status, headers, body) = send(app, payment(path, "key-of-alice", r#"{"amount":"1.00"}"#)).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert!(!headers.contains_key("idempotent-replayed"));

    let (again, replayed, same) = send(app, payment(path, "key-of-alice", r#"{ "amount" : "1.00" }"#)).await;
    assert_eq!((again, same), (StatusCode::CREATED, body));
    assert_eq!(replayed["idempotent-replayed"], "true");
    assert_eq!(replayed["location"], "/payments/1");
    assert_eq!(replayed["content-type"], headers["content-type"]);
    assert_eq!(count.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn the_layer_protects_in_every_place_that_has_a_matched_path() {
    let (count, idem) = (Count::default(), idem());
    let inner = Router::new().route("/payments", post(pay)).layer(idem.clone());
    let app = Router::new()
        .route("/method", post(pay).layer(idem.clone()))
        .route("/both", post(pay).get(async || "read").layer(idem.clone()))
        .nest("/nested/{tenant}", inner)
        .merge(Router::new().route("/route-layer", post(pay)).route_layer(idem.clone()))
        .merge(Router::new().route("/layer", post(pay)).layer(idem.policy(Policy::relaxed())))
        .with_state(Arc::clone(&count));

    for path in ["/method", "/both", "/nested/one/payments", "/route-layer", "/layer"] {
        pays_once(&app, path, &count).await;
    }
    let read = Request::get("/both").body(Body::empty()).unwrap();
    assert_eq!(send(&app, read).await.2, "read");
}

#[tokio::test]
async fn a_nested_router_still_compares_what_the_outer_path_said() {
    let count = Count::default();
    let inner = Router::new().route("/payments", post(pay)).layer(idem());
    let app = Router::new().nest("/{tenant}", inner).with_state(Arc::clone(&count));

    let (status, ..) = send(&app, payment("/one/payments", "key-of-alice", "{}")).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, _, body) = send(&app, payment("/two/payments", "key-of-alice", "{}")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(body.contains("#key-reused"), "{body}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_handler_that_asks_for_the_running_attempt_without_a_layer_is_refused() {
    let count = Count::default();
    let app = Router::new().route("/payments", post(pay)).with_state(Arc::clone(&count));
    let (status, headers, body) = send(&app, payment("/payments", "key-of-alice", "{}")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(headers["content-type"], "application/problem+json");
    assert!(body.contains("#misconfigured"), "{body}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_optional_running_attempt_tells_protected_requests_from_others() {
    async fn like(running: Option<Running>) -> String {
        running.map_or("unprotected".to_owned(), |running| format!("epoch {}", running.epoch().number()))
    }
    let app = Router::new().route("/likes", post(like).layer(idem().policy(Policy::relaxed())));

    assert_eq!(send(&app, payment("/likes", "key-of-alice", "")).await.2, "epoch 1");
    let without_key = Request::post("/likes").extension(User("alice")).body(Body::empty()).unwrap();
    let (status, headers, body) = send(&app, without_key).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "unprotected"));
    assert!(!headers.contains_key("idempotent-replayed"));
}

#[tokio::test]
async fn around_a_whole_router_there_is_no_route_and_nothing_runs() {
    let count = Count::default();
    let app = Router::new().route("/payments", post(pay)).with_state(Arc::clone(&count));
    let app = Router::new().fallback_service(tower::Layer::layer(&idem(), app)).route("/other", get(async || ""));
    let (status, _, body) = send(&app, payment("/payments", "key-of-alice", "{}")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(body.contains("#misconfigured"), "{body}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}
