//! The one-transaction mode as axum users see it: the transaction is an extractor.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]
#![cfg(feature = "axum")]

#[path = "../../idem-core/tests/transaction/database.rs"]
mod database;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::post;
use idem_core::{IdempotencyKey, Policy, Principal, Route, ScopedKey, State};
use idem_tower::{IdempotencyLayer, Running, Tx, every_caller_shares_all_keys, matched_path};
use tower::ServiceExt;

use crate::database::{Database, Transaction};

const KEY: &str = "key-of-alice";

/// As with sqlx: `&mut **tx` is what statements run on.
async fn pay(mut tx: Tx<Transaction>, running: Running, amount: String) -> Result<(StatusCode, String), StatusCode> {
    let connection: &mut Transaction = &mut tx;
    connection.write(amount.clone());
    if amount == "too much" {
        return Err(StatusCode::PAYMENT_REQUIRED);
    }
    if amount == "unlucky" {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    Ok((StatusCode::CREATED, format!("paid {amount} in epoch {}", running.epoch().number())))
}

fn idem(database: &Database) -> IdempotencyLayer {
    IdempotencyLayer::one_transaction(database.clone(), every_caller_shares_all_keys, matched_path)
}

async fn send(app: &Router, body: &'static str) -> (u16, bool, String) {
    let request = Request::post("/payments").header("idempotency-key", KEY).body(Body::from(body)).unwrap();
    let (head, body) = app.clone().oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let is_replay = head.headers.contains_key("idempotent-replayed");
    (head.status.as_u16(), is_replay, String::from_utf8(body.to_vec()).unwrap())
}

async fn state(database: &Database) -> Option<State> {
    let key = IdempotencyKey::parse(KEY).unwrap();
    let key = ScopedKey::new(Principal::shared(), Route::new("/payments").unwrap(), key);
    database.record(&key).await.map(|record| record.state)
}

#[tokio::test]
async fn a_handler_that_takes_its_transaction_commits_it_with_the_key() {
    let database = Database::new();
    let app = Router::new().route("/payments", post(pay).layer(idem(&database)));
    let paid = |is_replay| (201, is_replay, "paid 100 in epoch 1".to_owned());
    assert_eq!(send(&app, "100").await, paid(false));
    assert_eq!(send(&app, "100").await, paid(true));
    assert_eq!(send(&app, "900").await.0, 422);
    assert_eq!(database.ledger(), ["100"]);
}

#[tokio::test]
async fn a_refusal_is_remembered_without_its_writes_and_a_failure_runs_again() {
    for (amount, status, is_replay) in [("too much", 402, true), ("unlucky", 500, false)] {
        let database = Database::new();
        let app = Router::new().route("/payments", post(pay).layer(idem(&database)));
        assert_eq!(send(&app, amount).await, (status, false, String::new()));
        assert_eq!((database.ledger(), state(&database).await.is_some()), (vec![], is_replay));
        assert_eq!(send(&app, amount).await, (status, is_replay, String::new()));
        assert_eq!(database.ledger(), [] as [&str; 0]);
    }
}

/// Asserts that the handler did not run, and that nothing is there.
async fn is_misconfigured(app: &Router, database: &Database) {
    let (status, is_replay, body) = send(app, "100").await;
    assert_eq!((status, is_replay), (500, false), "{body}");
    assert!(body.contains("#misconfigured"), "{body}");
    assert_eq!((database.ledger(), database.open_now(), state(database).await), (vec![], 0, None));
}

#[tokio::test]
async fn a_transaction_that_is_asked_for_twice_is_a_500() {
    async fn twice(_one: Tx<Transaction>, _two: Tx<Transaction>) {
        panic!("it must not run");
    }
    let database = Database::new();
    let app = Router::new().route("/payments", post(twice).layer(idem(&database)));
    is_misconfigured(&app, &database).await;
}

#[tokio::test]
async fn a_transaction_of_another_type_is_a_500_also_where_it_is_optional() {
    async fn other(_tx: Tx<String>) {
        panic!("it must not run");
    }
    async fn optional(_tx: Option<Tx<String>>) {
        panic!("it must not run");
    }
    for handler in [post(other), post(optional)] {
        let database = Database::new();
        let app = Router::new().route("/payments", handler.layer(idem(&database)));
        is_misconfigured(&app, &database).await;
    }
}

#[tokio::test]
async fn without_the_layer_or_in_the_other_mode_it_is_a_500() {
    let database = Database::new();
    is_misconfigured(&Router::new().route("/payments", post(pay)), &database).await;
    let claims = IdempotencyLayer::new(database.clone(), every_caller_shares_all_keys, matched_path);
    let app = Router::new().route("/payments", post(pay).layer(claims));
    let (status, _, body) = send(&app, "100").await;
    assert_eq!((status, body.contains("#misconfigured")), (500, true), "{body}");
    assert_eq!(database.ledger(), [] as [&str; 0]);
}

#[tokio::test]
async fn an_optional_transaction_tells_protected_requests_from_others() {
    async fn like(tx: Option<Tx<Transaction>>) -> &'static str {
        let Some(mut tx) = tx else { return "unprotected" };
        tx.write("like");
        "protected"
    }
    let database = Database::new();
    let app = Router::new().route("/payments", post(like).layer(idem(&database).policy(Policy::relaxed())));
    assert_eq!(send(&app, "").await.2, "protected");
    let without_key = Request::post("/payments").body(Body::empty()).unwrap();
    let body = app.oneshot(without_key).await.unwrap().into_body();
    assert_eq!(to_bytes(body, usize::MAX).await.unwrap(), "unprotected");
    assert_eq!(database.ledger(), ["like"]);
}
