//! Idempotency keys as a tower layer, for axum, hyper and tonic.
//!
//! A client sends `Idempotency-Key: 8e03978e-40d5-43dd-bc93-6894a57f9324` with its `POST`, and the same key with every
//! retry. The layer runs the handler once and gives every retry the same answer: status, headers, body and trailers,
//! marked `Idempotent-Replayed: true`. A key that comes back with another request is refused.
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use axum::body::{Body, to_bytes};
//! use axum::http::{Request, request::Parts};
//! use axum::{Extension, Router, routing::post};
//! use idem_core::{Policy, Principal, ScopeError};
//! use idem_memory::MemoryStore;
//! use idem_tower::{IdempotencyLayer, Running, matched_path};
//! use tower::ServiceExt;
//!
//! #[derive(Clone)]
//! struct User(String);
//!
//! /// Whoever authentication has found.
//! fn caller(parts: &Parts) -> Option<Result<Principal, ScopeError>> {
//!     parts.extensions.get::<User>().map(|user| Principal::new(&user.0))
//! }
//!
//! static CHARGES: AtomicU32 = AtomicU32::new(0);
//!
//! async fn pay(running: Running, order: String) -> String {
//!     // The same key on every attempt: a rerun of this handler is a retry for the bank.
//!     let _key_for_the_bank = running.derive_key("charge-card");
//!     format!("charge {} for {order}", CHARGES.fetch_add(1, Ordering::SeqCst) + 1)
//! }
//!
//! let idem = IdempotencyLayer::new(MemoryStore::default(), caller, matched_path);
//! let app = Router::new()
//!     .route("/payments", post(pay).layer(idem.clone()))
//!     .route("/likes", post(async || "liked").layer(idem.clone().policy(Policy::relaxed())))
//!     .layer(Extension(User("alice".to_owned()))); // authentication, in real life
//!
//! let send = async |body: &'static str| {
//!     let request = Request::post("/payments").header("Idempotency-Key", "8e03978e-40d5").body(Body::from(body))?;
//!     let response = app.clone().oneshot(request).await?;
//!     let status = response.status().as_u16();
//!     let body = to_bytes(response.into_body(), usize::MAX).await?;
//!     Ok::<_, axum::BoxError>((status, String::from_utf8(body.to_vec())?))
//! };
//! assert_eq!(send("100.00").await?, (200, "charge 1 for 100.00".to_owned()));
//! assert_eq!(send("100.00").await?, (200, "charge 1 for 100.00".to_owned()));
//! assert_eq!(send("900.00").await?.0, 422);
//!
//! // After the server has stopped to accept connections:
//! idem.drain().await;
//! assert_eq!(CHARGES.load(Ordering::SeqCst), 1);
//! # Ok::<(), axum::BoxError>(()) }).map_err(|error| error as Box<dyn std::error::Error>)
//! # }
//! # #[cfg(not(feature = "axum"))]
//! # fn main() {}
//! ```
//!
//! # Where it stands
//!
//! ```text
//! client → compression → authentication → idempotency → rate limit → time limit → handler
//! ```
//!
//! - **Inside authentication**: the principal is part of the key, and a replay goes only to who may call at all. Where
//!   a grant may be revoked between a request and its retry, [`check_replay`](IdempotencyLayer::check_replay) asks
//!   again.
//! - **Outside rate limiting**: a limit in front of it would refuse the answers of finished requests. A quota on new
//!   keys is [`admit`](IdempotencyLayer::admit).
//! - **Inside compression**: what is stored is what the handler said, whatever encodings the retry accepts. A handler
//!   that compresses itself keeps its `Content-Encoding`.
//! - **Once**: applied twice to one request, it answers 500 `misconfigured`, says so in the log, and runs nothing.
//!
//! In axum, [`matched_path`] is the route function inside a router's `layer` and `route_layer`, a method router's
//! `layer`, and `nest`. With hyper or tonic, [`fixed_route`] or any function of the request's head.
//!
//! # The way of a request
//!
//! 1. Another method than POST and PATCH passes untouched, and so does a request without a key where the policy lets
//!    it. A missing or malformed key is 400; no principal or no route name is 500 `misconfigured`, before anything
//!    runs.
//! 2. The body is read, up to a limit (413), and fingerprinted.
//! 3. A permit is taken. With none left, or while the layer drains, new work is refused with 503 `overloaded`; a
//!    finished request is still replayed.
//! 4. **The claim, the handler, the reading of its response and the settling are one task of its own.** A client that
//!    hangs up cancels none of it, and its retry finds the answer. One that hangs up earlier has claimed nothing.
//! 5. The key is settled before the answer goes out, so that no retry falls into a gap. A store that cannot take the
//!    outcome costs no client its answer: the claim stays, and the write is tried again until it is done.
//!
//! Because the handler runs in another task, it sees what the request carries and not the task-local values of layers
//! outside this one. The current `tracing` span comes along.
//!
//! # What an answer does to its key
//!
//! | answer | the key is | a retry |
//! |---|---|---|
//! | 2xx, 3xx, most 4xx | completed | gets the same answer |
//! | 401, 425, 429 | released | runs |
//! | 408, 5xx, a panic, an `Err`, a body that breaks off | failed, the effect open | is refused under [`Policy::strict`](idem_core::Policy::strict), runs under [`Policy::relaxed`](idem_core::Policy::relaxed) |
//!
//! [`classify`](fn@classify) is the whole table, with gRPC's; [`IdempotencyLayer::classify`] overrides it per route.
//! What the handler says through [`Running`] comes before both.
//!
//! An `Err` of the inner service fails its key also where it means *not now*, as that of a load shedder does: it cannot
//! be told from one that came half-way. Inside this layer, *not now* is the response 429.
//!
//! # Business writes and key in one transaction
//!
//! Where the handler writes into a database that can keep the keys too, [`IdempotencyLayer::one_transaction`] makes both
//! commit together: there is no claim without an outcome after a crash, and no payment without its record. The handler
//! takes the transaction as [`Tx`], and the layer commits it by the handler's answer.
//!
//! ```
//! # #[cfg(feature = "axum")]
//! # mod with_axum {
//! use axum::http::StatusCode;
//! use axum::{Router, routing::post};
//! use idem_core::TransactionalStore;
//! use idem_tower::{IdempotencyLayer, Tx, every_caller_shares_all_keys, matched_path};
//!
//! # pub struct Transaction;
//! # impl Transaction { async fn insert_payment(&mut self, _: u64) -> Result<(), ()> { Ok(()) } }
//! async fn pay(mut tx: Tx<Transaction>, amount: String) -> Result<StatusCode, StatusCode> {
//!     let amount = amount.parse().map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?; // remembered, nothing written
//!     // With idem-postgres and sqlx: `Tx<PgTransaction>`, and `.execute(&mut **tx)`.
//!     tx.insert_payment(amount).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?; // rolled back, a retry runs
//!     Ok(StatusCode::CREATED) // the layer commits payment and key
//! }
//!
//! pub fn app(store: impl TransactionalStore<Tx = Transaction> + 'static) -> Router {
//!     let idem = IdempotencyLayer::one_transaction(store, every_caller_shares_all_keys, matched_path);
//!     Router::new().route("/payments", post(pay).layer(idem))
//! }
//! # }
//! ```
//!
//! | the handler ends with | business writes | record | a retry |
//! |---|---|---|---|
//! | 2xx, 3xx | committed | completed, in the same commit | gets the same answer |
//! | another 4xx that completes | rolled back | completed, right after | gets the same answer |
//! | 401, 408, 425, 429, 5xx, a panic, an `Err`, a body that breaks off | rolled back | none | runs |
//! | success in a transaction that is aborted, was never taken, or is not back | rolled back | none | runs; the first client got 500 `not-committed` |
//! | success, and the reply to the commit is lost | looked up | as found | gets the answer, or runs, as found |
//!
//! What such a route does *elsewhere*, at a bank or a mail server, is not undone by a rollback: a failed attempt runs
//! again there. [`derive_key`](idem_core::Running::derive_key) makes that a retry for the other side too; where the
//! other side has no keys, [`IdempotencyLayer::new`] with its claims is the right mode. One route has one mode.
//!
//! # What is kept
//!
//! Everything but what belongs to one connection (`Connection` and what it names, `Keep-Alive`, `Proxy-*`, `TE`,
//! `Trailer`, `Upgrade`), one message (`Content-Length`, `Transfer-Encoding`, `Date`) or one client (`Set-Cookie`,
//! `Authorization`). The first client gets the handler's own headers, all of them.
//!
//! A response over [`max_response`](IdempotencyLayer::max_response) or
//! [`buffer_time`](IdempotencyLayer::buffer_time), an interim one, one of the type `text/event-stream` or one marked
//! [`Streamed`] is *completed, not kept*: that is written first, then the client gets it whole, as it comes. Its retries
//! are refused with *response not kept*; nothing runs twice. Unmarked streams are held back until a limit is reached,
//! so mark them.
//!
//! An answer that its handler has declared *not to be kept* is read like any other, for its end may say that it failed;
//! it is then completed without being stored. So is one of more header names than a replay could carry (24,574).
//!
//! A bidirectional gRPC stream cannot begin before its client has ended it, because the request is read whole: leave it
//! out by [`covers_only`](IdempotencyLayer::covers_only). With gRPC-Web, the layer stands inside the translation. gRPC
//! clients understand problems that are [rendered](IdempotencyLayer::render) by [`problem_grpc`].
//!
//! # Operation
//!
//! [`drain`](IdempotencyLayer::drain) at shutdown waits for what runs and for what is owed.
//!
//! | metric | labels | |
//! |---|---|---|
//! | `idempotency_requests_total` | `route`, `outcome` | `completed`, `completed-not-kept`, `released`, `failed`, `rolled-back`, `panicked`, `lease-lost`, `unprotected`, `replayed`, `without-key`, `denied`, `not-ready`, or the slug of a problem |
//! | `idempotency_store_seconds` | `operation` | every call of the store, failed ones included |
//! | `idempotency_in_flight` | | attempts that run |
//! | `idempotency_lease_lost_total` | | attempts that could not count on their lease any more |
//! | `idempotency_completion_retries_total` | | settling writes that the store did not take |
//!
//! Every protected request has a `tracing` span `idempotency` with route, outcome, epoch and the start of the key's
//! digest. Keys and principals are never logged.
//!
//! # Features
//!
//! `axum`: [`matched_path`], [`Running`] and [`Tx`] as extractors, and requests of nested routers compared by the URI that the
//! client sent instead of what is left of it.
//!
#![cfg_attr(feature = "axum", doc = "[`matched_path`]: crate::matched_path")]
#![cfg_attr(
    not(feature = "axum"),
    doc = "[`matched_path`]: https://docs.rs/idem-tower/latest/idem_tower/fn.matched_path.html"
)]

mod arrival;
mod attempt;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod bounds;
mod buffer;
mod builder;
mod capture;
mod claim;
mod classify;
mod hooks;
mod inflight;
mod layer;
mod lend;
mod metered;
mod observe;
mod poll;
mod problem;
mod protect;
mod reply;
mod running;
mod scope;
mod service;
mod settings;
mod stored;
mod transacted;
mod transactions;
mod work;

#[cfg(feature = "axum")]
pub use self::axum::{NotRunning, matched_path};
pub use self::body::Body;
pub use self::capture::Streamed;
pub use self::classify::{Answered, Class, classify};
pub use self::hooks::{Asked, Denial};
pub use self::layer::{BUFFER_TIME, IdempotencyLayer, MAX_IN_FLIGHT, MAX_REQUEST_BODY, MAX_RESPONSE, Undrained};
pub use self::lend::{NoTransaction, Tx};
pub use self::observe::describe_metrics;
pub use self::problem::{problem_grpc, problem_json};
pub use self::running::Running;
pub use self::scope::{NoScope, Scoped, every_caller_shares_all_keys, fixed_route};
pub use self::service::{IdempotencyService, ResponseFuture};
pub use self::stored::IDEMPOTENT_REPLAYED;

/// Any error, as bodies have them.
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;
