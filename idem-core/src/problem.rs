//! Refusals as problem details (RFC 9457), as plain data. Rendering and transport are the edge's.
//!
//! The anchors of this page are the problem types that [`Problem::type_uri`] links to by default.
//!
//! ## `missing-key`
//! The operation needs an `Idempotency-Key` header. Send one: a fresh UUID per operation, the same on every retry.
//!
//! ## `invalid-key`
//! The header does not hold one key of the accepted format; `detail` names the rule.
//!
//! ## `misconfigured`
//! The server could not tell who calls or which operation it is, or the layer was applied twice. Nothing ran.
//!
//! ## `body-too-large`
//! The request body passes the limit up to which bodies are compared. Nothing ran.
//!
//! ## `body-unreadable`
//! The request body broke off, or could not be decoded. Nothing ran. Send it again, with the same key.
//!
//! ## `key-reused`
//! The key was used for another request. Use a new key for a new operation.
//!
//! ## `in-progress`
//! An earlier request with this key still runs. Retry with the same key after `Retry-After`.
//!
//! ## `previous-attempt-failed`
//! An earlier request with this key failed. `safe_to_use_new_key` says whether it provably had no effect.
//!
//! ## `outcome-unknown`
//! An earlier request with this key fell silent. Whether it took effect has to be found out before a new key is used.
//!
//! ## `response-not-kept`
//! The request was completed, but its answer was not kept. Do not repeat it; ask for the state of the resource.
//!
//! ## `not-comparable`
//! The record was made under rules of comparison that this server does not know. Retry later, with the same key.
//!
//! ## `record-unreadable`
//! The record of this key cannot be read. It was not run again; an operator has to look.
//!
//! ## `store-unavailable`
//! The key store could not be asked. Retry with the same key after `Retry-After`.
//!
//! ## `not-committed`
//! The operation reported success, but its transaction could not be committed, by a defect of the server that `detail`
//! names. Everything that it wrote there was rolled back. A retry with the same key runs it again.
//!
//! ## `overloaded`
//! Too much is in flight, or the server is shutting down. Nothing ran. Retry with the same key after `Retry-After`.

use core::time::Duration;
use std::borrow::Cow;

use serde::Serialize;

use crate::{Certainty, KeyError, Refusal, StoreError, StoreErrorKind};

/// Where the problem types are described unless [`Problem::type_uri`] is given another base.
pub const TYPE_BASE: &str = "https://docs.rs/idem-core/latest/idem_core/problem/index.html#";

/// One answer to a request that was not run, ready to be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What the `type` ends in, such as `in-progress`.
    pub slug: &'static str,
    /// The HTTP status, where the edge has no other wish.
    pub status: u16,
    /// What happened, in a few words; the same for every occurrence.
    pub title: &'static str,
    /// What happened here, and what to do.
    pub detail: Cow<'static, str>,
    /// When to come back. Rendered as whole seconds, at least one, and exactly in `retry_after_ms`.
    pub retry_after: Option<Duration>,
    /// Whether the client may send the operation again under a new key. `None` where the question does not arise.
    pub safe_to_use_new_key: Option<bool>,
}

impl Problem {
    const fn new(slug: &'static str, status: u16, title: &'static str, detail: &'static str) -> Self {
        let detail = Cow::Borrowed(detail);
        Self { slug, status, title, detail, retry_after: None, safe_to_use_new_key: None }
    }

    /// A key is required and there is none.
    #[must_use]
    pub const fn missing_key() -> Self {
        Self::new(
            "missing-key",
            400,
            "Idempotency key missing",
            "This operation needs an Idempotency-Key header: a fresh UUID per operation, the same on every retry.",
        )
    }

    /// The key breaks a rule of its format.
    #[must_use]
    pub fn invalid_key(error: &KeyError) -> Self {
        let mut problem = Self::new("invalid-key", 400, "Idempotency key malformed", "");
        problem.detail = Cow::Owned(format!("{error}."));
        problem
    }

    /// The server cannot scope the key, or is put together wrongly. What exactly belongs into the log, not out.
    #[must_use]
    pub const fn misconfigured() -> Self {
        Self::new(
            "misconfigured",
            500,
            "Idempotency misconfigured",
            "The server is not set up to protect this operation, and did not run it. The operator finds why in the log.",
        )
    }

    /// The request body passes the limit of `limit` bytes.
    #[must_use]
    pub fn body_too_large(limit: usize) -> Self {
        let mut problem = Self::new("body-too-large", 413, "Request body too large", "");
        problem.detail = Cow::Owned(format!("The request body has more than {limit} bytes. Nothing was done."));
        problem
    }

    /// The request body could not be read to its end.
    #[must_use]
    pub const fn body_unreadable() -> Self {
        Self::new(
            "body-unreadable",
            400,
            "Request body unreadable",
            "The request body broke off or could not be read. Nothing was done. Retry with the same key.",
        )
    }

    /// No permit is free, or the server drains.
    #[must_use]
    pub const fn overloaded(retry_after: Duration) -> Self {
        let mut problem =
            Self::new("overloaded", 503, "Too many operations in flight", "Nothing was done. Retry with the same key.");
        problem.retry_after = Some(retry_after);
        problem
    }

    /// The store could not be asked. A full store is an overload, everything else an outage.
    #[must_use]
    pub fn store(error: &StoreError, retry_after: Duration) -> Self {
        if error.kind() == StoreErrorKind::Full {
            return Self::overloaded(retry_after);
        }
        let mut problem = Self::new(
            "store-unavailable",
            503,
            "Idempotency store unavailable",
            "The operation was not run, because its key could not be looked up. Retry with the same key.",
        );
        problem.retry_after = Some(retry_after);
        problem
    }

    /// The operation ran, and the store could not commit its transaction.
    #[must_use]
    pub fn commit(error: &StoreError, retry_after: Duration) -> Self {
        let detail = match error.certainty() {
            Certainty::NotWritten => {
                "The operation was rolled back, because its transaction could not be committed. \
                 Retry with the same key."
            }
            Certainty::Unknown => {
                "Whether the operation was committed is not known yet. \
                 Retry with the same key: if it was, it is not run again."
            }
        };
        Self { detail: Cow::Borrowed(detail), ..Self::store(error, retry_after) }
    }

    /// The operation reported success, and its transaction cannot be committed. `detail` says what is wrong with it.
    #[must_use]
    pub const fn not_committed(detail: &'static str) -> Self {
        Self::new("not-committed", 500, "Operation not committed", detail)
    }

    /// The protocol's refusals.
    #[must_use]
    pub const fn refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::KeyReused => Self::new(
                "key-reused",
                422,
                "Idempotency key reused",
                "This key belongs to another request. Use a new key for a new operation.",
            ),
            Refusal::InProgress { retry_after } => {
                let mut problem = Self::new(
                    "in-progress",
                    409,
                    "Operation in progress",
                    "An earlier request with this key still runs. Retry later with the same key.",
                );
                problem.retry_after = Some(*retry_after);
                problem
            }
            Refusal::OutcomeUnknown => {
                let mut problem = Self::new(
                    "outcome-unknown",
                    409,
                    "Outcome unknown",
                    "An earlier request with this key fell silent, and may have taken effect. \
                     Check the state of the resource before you send the operation under a new key.",
                );
                problem.safe_to_use_new_key = Some(false);
                problem
            }
            Refusal::PreviousAttemptFailed { no_effect } => {
                let detail = if *no_effect {
                    "An earlier request with this key failed and had no effect. \
                     Send the operation under a new key."
                } else {
                    "An earlier request with this key failed, and may have taken effect. \
                     Check the state of the resource before you send the operation under a new key."
                };
                let mut problem = Self::new("previous-attempt-failed", 500, "Previous attempt failed", detail);
                problem.safe_to_use_new_key = Some(*no_effect);
                problem
            }
            Refusal::ResponseNotKept => Self::new(
                "response-not-kept",
                409,
                "Response not kept",
                "The request with this key was completed, but its answer was not kept. \
                 Ask for the state of the resource; do not repeat the operation.",
            ),
            Refusal::NotComparable => Self::new(
                "not-comparable",
                409,
                "Request not comparable",
                "The record of this key was made under rules of comparison that this server does not know. \
                 Retry later with the same key.",
            ),
            Refusal::RecordUnreadable(_) => Self::new(
                "record-unreadable",
                500,
                "Record unreadable",
                "The record of this key cannot be read. The operation was not run again; an operator has to look.",
            ),
        }
    }

    /// The problem type as a URI: `base` and the slug.
    #[must_use]
    pub fn type_uri(&self, base: &str) -> String {
        format!("{base}{}", self.slug)
    }

    /// `Retry-After` in whole seconds, rounded up, at least one.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1))
    }

    /// The `application/problem+json` body.
    #[must_use]
    pub fn to_json(&self, type_base: &str) -> String {
        let rendered = Rendered {
            r#type: self.type_uri(type_base),
            title: self.title,
            status: self.status,
            detail: &self.detail,
            retry_after_ms: self.retry_after.map(|wait| wait.as_millis()),
            safe_to_use_new_key: self.safe_to_use_new_key,
        };
        // Text and numbers always encode; were they not to, the status would still say what happened.
        serde_json::to_string(&rendered).unwrap_or_default()
    }
}

/// The members in the order of RFC 9457, whatever features of `serde_json` a build has.
#[derive(Serialize)]
struct Rendered<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safe_to_use_new_key: Option<bool>,
}
