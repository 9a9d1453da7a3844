//! What an answer does to its key. Pure.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

/// A response of the inner service, as a classifier sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body, where it was buffered to its end; `None` for streams and for what is over a limit.
    pub body: Option<&'a Bytes>,
    /// The trailers, where there are any and the body was buffered to its end.
    pub trailers: Option<&'a HeaderMap>,
}

/// What an answer does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The operation is done. Retries get the answer, or *response not kept* where it could not be buffered.
    Complete,
    /// The operation is done, and the answer is for this client only. Retries are refused with *response not kept*.
    CompleteNotKept,
    /// Nothing happened; the next request with this key runs.
    Release,
    /// It failed, and whether anything happened is open.
    Fail,
    /// It failed, and nothing happened: a new key is safe.
    FailWithoutEffect,
}

/// Classifies as the layer does where no other classifier is set.
///
/// | answer | class |
/// |---|---|
/// | 1xx, 2xx, 3xx, 4xx other than below | complete |
/// | 401, 425, 429 | release |
/// | 408, 500 and above | fail |
///
/// A gRPC answer (`application/grpc`, HTTP status 200) goes by its `grpc-status`, from the trailers or, where a call
/// ends without a message, from the headers:
///
/// | `grpc-status` | class |
/// |---|---|
/// | `OK`, `INVALID_ARGUMENT`, `NOT_FOUND`, `ALREADY_EXISTS`, `PERMISSION_DENIED`, `FAILED_PRECONDITION`, `OUT_OF_RANGE`, `UNIMPLEMENTED`, `UNAUTHENTICATED` | complete |
/// | `UNAVAILABLE`, `RESOURCE_EXHAUSTED` | release |
/// | `CANCELLED`, `UNKNOWN`, `DEADLINE_EXCEEDED`, `ABORTED`, `INTERNAL`, `DATA_LOSS`, any other, none | fail |
///
/// A gRPC stream that is forwarded before its trailers are known is complete: it is not kept, and never run again.
///
/// `Cache-Control` plays no part: `no-store` is common on payments and speaks to caches.
#[must_use]
pub fn classify(answered: &Answered<'_>) -> Class {
    if is_grpc_answer(answered) {
        return by_grpc_status(answered);
    }
    by_http_status(answered.status)
}

/// Whether an answer that completes its operation says that the operation took effect.
///
/// A gRPC stream that is forwarded before its trailers are known has begun to answer, and counts as a success.
pub(crate) fn is_success(answered: &Answered<'_>) -> bool {
    if answered.status.is_client_error() || answered.status.is_server_error() {
        return false;
    }
    match grpc_status(answered) {
        Some(status) if is_grpc_answer(answered) => status == b"0",
        _ => true,
    }
}

const fn by_http_status(status: StatusCode) -> Class {
    match status.as_u16() {
        401 | 425 | 429 => Class::Release,
        408 | 500.. => Class::Fail,
        _ => Class::Complete,
    }
}

fn by_grpc_status(answered: &Answered<'_>) -> Class {
    let Some(status) = grpc_status(answered) else {
        let is_forwarded_before_its_end = answered.body.is_none();
        return if is_forwarded_before_its_end { Class::Complete } else { Class::Fail };
    };
    match status {
        b"0" | b"3" | b"5" | b"6" | b"7" | b"9" | b"11" | b"12" | b"16" => Class::Complete,
        b"8" | b"14" => Class::Release,
        _ => Class::Fail,
    }
}

/// From the trailers or, where a call ends without a message, from the headers.
fn grpc_status<'a>(answered: &Answered<'a>) -> Option<&'a [u8]> {
    let status = |map: &'a HeaderMap| map.get("grpc-status").map(|value| value.as_bytes().trim_ascii());
    answered.trailers.and_then(status).or_else(|| status(answered.headers))
}

fn is_grpc_answer(answered: &Answered<'_>) -> bool {
    answered.status == StatusCode::OK
        && answered.headers.get(header::CONTENT_TYPE).is_some_and(|value| is_grpc(value.as_bytes()))
}

/// `application/grpc`, with or without `+proto`. Not `application/grpc-web`: there, the status hides in the body.
fn is_grpc(content_type: &[u8]) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    content_type.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
        && matches!(content_type.get(GRPC.len()), None | Some(b'+' | b';' | b' '))
}
