//! The routes, and where the idempotency layer stands among the others.

use core::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Router, http::header};
use futures_util::future::join_all;
use idem_tower::{IdempotencyLayer, Undrained, matched_path};
use metrics_exporter_prometheus::PrometheusHandle;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{authenticate, principal};
use crate::bank::direct;
use crate::options::Settings;
use crate::payments::{ledger, like, pay, receipt, refund};
use crate::problem::Problem;
use crate::store::Opened;

/// The application, and the layers whose attempts have to be waited for at its end.
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) layers: Layers,
}

/// Layers that share no drain.
pub(crate) struct Layers(Vec<IdempotencyLayer>);

impl App {
    pub(crate) fn new(settings: &Settings, store: Opened, metrics: PrometheusHandle) -> Self {
        let layer = |idem: IdempotencyLayer| {
            let idem = idem
                .policy(settings.strict.clone())
                .ignore(["/client_timestamp", "/meta/trace_id"])
                .max_request_body(settings.max_body)
                .max_response(settings.max_response);
            match settings.wait {
                Some(wait) => idem.wait(wait),
                None => idem,
            }
        };
        let leases = layer(IdempotencyLayer::new(store.claims, principal, matched_path));
        // A policy per route; a clone shares store, permits and drain.
        let relaxed = leases.clone().policy(settings.relaxed.clone());
        let mut layers = vec![leases.clone()];
        let strict = match store.transactions {
            Some(transactions) => {
                let one = layer(IdempotencyLayer::one_transaction(transactions, principal, matched_path));
                layers.push(one.clone());
                one
            }
            None => leases,
        };

        let protected = Router::new()
            .route("/payments", post(pay).layer(strict.clone()))
            .route("/payments/{id}", get(receipt))
            .route("/refunds", post(refund).layer(strict))
            .route("/refunds/{id}", get(receipt))
            .route("/likes/{post}", post(like).layer(relaxed))
            .layer(from_fn(direct))
            // Outside the idempotency layer: a stored answer goes to nobody but its owner.
            .layer(from_fn(authenticate));

        // What an operator looks at, open to everybody: a real service would keep it to itself.
        let open = Router::new()
            .route("/ledger", get(ledger))
            .route("/healthz", get(async || "ok"))
            .route("/metrics", get(async move || ([(header::CONTENT_TYPE, METRICS_TEXT)], metrics.render())));

        let router = protected
            .merge(open)
            .with_state(store.ledger)
            .layer(DefaultBodyLimit::max(settings.max_body))
            // The layer settles a handler that panics and lets the panic go on; this turns it into an answer.
            .layer(CatchPanicLayer::custom(|_| Problem::internal().into_response()));
        Self { router, layers: Layers(layers) }
    }
}

impl Layers {
    /// Lets nothing new begin, and waits for what runs and what is owed, for at most `limit`. Says what is left.
    pub(crate) async fn drain_for(&self, limit: Duration) -> Undrained {
        let left = join_all(self.0.iter().map(|layer| layer.drain_for(limit))).await;
        left.into_iter().fold(Undrained::default(), |sum, left| Undrained {
            attempts: sum.attempts + left.attempts,
            owed_writes: sum.owed_writes + left.owed_writes,
        })
    }
}

const METRICS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
