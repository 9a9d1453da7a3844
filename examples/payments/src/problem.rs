//! Errors as problem details (RFC 9457), as the idempotency layer gives them.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Where this API would describe its problem types.
const TYPE_BASE: &str = "https://payments.example/problems#";

#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    slug: &'static str,
    detail: Cow<'static, str>,
    retry_after: Option<u16>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, slug: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, slug, detail: detail.into(), retry_after: None }
    }

    /// Something that this program got wrong.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something broke here, and was logged.")
    }

    pub(crate) fn retry_after(mut self, seconds: u16) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// The members of the body, in the order in which a reader looks for them.
#[derive(Serialize)]
struct Members<'a> {
    r#type: String,
    title: Option<&'static str>,
    status: u16,
    detail: &'a str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let members = Members {
            r#type: format!("{TYPE_BASE}{}", self.slug),
            title: self.status.canonical_reason(),
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        let mut response = (self.status, Json(members)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
