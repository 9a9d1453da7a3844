//! Problems as responses.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use idem_core::Problem;

/// Renders a problem as `application/problem+json` (RFC 9457), with `Retry-After` where there is one.
///
/// This is what the layer does unless [`render`](crate::IdempotencyLayer::render) says otherwise; a renderer of one's
/// own may start from it.
///
/// ```
/// use idem_core::{Problem, problem::TYPE_BASE};
///
/// let response = idem_tower::problem_json(&Problem::missing_key(), TYPE_BASE);
/// assert_eq!(response.status(), 400);
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// ```
#[must_use]
pub fn problem_json(problem: &Problem, type_base: &str) -> http::Response<Bytes> {
    let mut response = http::Response::new(Bytes::from(problem.to_json(type_base)));
    *response.status_mut() = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Renders a problem for gRPC: a response without a message, whose status and text stand in the headers.
///
/// For [`render`](crate::IdempotencyLayer::render) on the layer of a gRPC server; plain clients would see HTTP 200.
///
/// | problem | `grpc-status` |
/// |---|---|
/// | `missing-key`, `invalid-key`, `key-reused`, `body-too-large`, `body-unreadable` | `INVALID_ARGUMENT` |
/// | `in-progress` | `ABORTED` |
/// | `store-unavailable`, `overloaded` | `UNAVAILABLE` |
/// | `outcome-unknown`, `previous-attempt-failed`, `response-not-kept`, `not-comparable` | `FAILED_PRECONDITION` |
/// | any other | `INTERNAL` |
///
/// `retry-after` and `idempotency-problem`, which holds the slug, come along as metadata.
#[must_use]
pub fn problem_grpc(problem: &Problem) -> http::Response<Bytes> {
    let status = match problem.slug {
        "missing-key" | "invalid-key" | "key-reused" | "body-too-large" | "body-unreadable" => "3",
        "in-progress" => "10",
        "store-unavailable" | "overloaded" => "14",
        "outcome-unknown" | "previous-attempt-failed" | "response-not-kept" | "not-comparable" => "9",
        _ => "13",
    };
    let mut response = http::Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static(status));
    headers.insert("idempotency-problem", HeaderValue::from_static(problem.slug));
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(&problem.detail)) {
        headers.insert("grpc-message", message);
    }
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// As the gRPC specification wants messages: visible ASCII and blanks as they are, everything else by its bytes.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}
