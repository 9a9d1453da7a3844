//! The routes, and where the idempotency layer stands among the others.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Router, http::header};
use idem_core::KeyStore;
use idem_tower::{IdempotencyLayer, matched_path};
use metrics_exporter_prometheus::PrometheusHandle;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{authenticate, principal};
use crate::bank::{Bank, direct};
use crate::options::Settings;
use crate::payments::{ledger, like, pay, receipt, refund};
use crate::problem::Problem;

/// The application, and the layer whose attempts have to be waited for at its end.
pub(crate) struct App {
    pub(crate) router: Router,
    pub(crate) idem: IdempotencyLayer,
}

impl App {
    pub(crate) fn new(settings: &Settings, store: Arc<dyn KeyStore>, metrics: PrometheusHandle) -> Self {
        let mut idem = IdempotencyLayer::new(store, principal, matched_path)
            .policy(settings.strict.clone())
            .ignore(["/client_timestamp", "/meta/trace_id"])
            .max_request_body(settings.max_body)
            .max_response(settings.max_response);
        if let Some(wait) = settings.wait {
            idem = idem.wait(wait);
        }
        // A policy per route; store, permits and drain are shared.
        let relaxed = idem.clone().policy(settings.relaxed.clone());

        let protected = Router::new()
            .route("/payments", post(pay).layer(idem.clone()))
            .route("/payments/{id}", get(receipt))
            .route("/refunds", post(refund).layer(idem.clone()))
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
            .with_state(Bank::default())
            .layer(DefaultBodyLimit::max(settings.max_body))
            // The layer settles a handler that panics and lets the panic go on; this turns it into an answer.
            .layer(CatchPanicLayer::custom(|_| Problem::internal().into_response()));
        Self { router, idem }
    }
}

const METRICS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
