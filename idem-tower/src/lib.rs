//! Idempotency keys as a tower layer: for axum, hyper and tonic.

mod arrival;
mod attempt;
#[cfg(feature = "axum")]
mod axum;
mod body;
mod buffer;
mod builder;
mod capture;
mod claim;
mod classify;
mod hooks;
mod inflight;
mod layer;
mod metered;
mod observe;
mod problem;
mod protect;
mod running;
mod scope;
mod service;
mod settings;
mod stored;

#[cfg(feature = "axum")]
pub use self::axum::{NotRunning, matched_path};
pub use self::body::Body;
pub use self::capture::Streamed;
pub use self::classify::{Answered, Class, classify};
pub use self::hooks::{Asked, Denial};
pub use self::layer::{BUFFER_TIME, IdempotencyLayer, MAX_IN_FLIGHT, MAX_REQUEST_BODY, MAX_RESPONSE, Undrained};
pub use self::observe::describe_metrics;
pub use self::problem::{problem_grpc, problem_json};
pub use self::running::Running;
pub use self::scope::{NoScope, Scoped, every_caller_shares_all_keys, fixed_route};
pub use self::service::{IdempotencyService, ResponseFuture};
pub use self::stored::IDEMPOTENT_REPLAYED;

/// Any error, as bodies have them.
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;
