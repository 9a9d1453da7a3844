//! What of a response is stored, and how a stored one is given again.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, response};
use idem_core::{Answer, Header, Response};

/// Says that a response is the stored answer of an earlier request.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Headers that belong to one connection, one message or one client, and are never stored.
const NEVER_STORED: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::DATE,
    header::SET_COOKIE,
];

/// The names that a [`HeaderMap`] can hold beside those that a replay adds: `Idempotent-Replayed` and `Trailer`.
const MOST_NAMES: usize = 24_576 - 2;

/// Makes the answer that retries get. Header lines keep their order and their repetitions. What could not be replayed
/// is not kept.
pub(crate) fn answer(
    head: &response::Parts,
    body: Bytes,
    trailers: Option<&HeaderMap>,
    not_stored: &HashSet<HeaderName>,
) -> Answer {
    if head.headers.keys_len() > MOST_NAMES {
        return Answer::NotKept;
    }
    let named = named_by_connection(&head.headers);
    let is_stored = |name: &HeaderName| {
        !NEVER_STORED.contains(name)
            && name != header::AUTHORIZATION
            && !name.as_str().starts_with("proxy-")
            && !not_stored.contains(name)
            && !named.iter().any(|named| name.as_str().eq_ignore_ascii_case(named))
    };
    let lines = |map: &HeaderMap| -> Vec<Header> {
        map.iter().filter(|(name, _)| is_stored(name)).map(|(name, value)| line(name, value)).collect()
    };
    Answer::from(Response {
        status: head.status.as_u16(),
        headers: lines(&head.headers),
        body,
        trailers: trailers.map(lines).unwrap_or_default(),
    })
}

/// Names that the `Connection` header makes hop-by-hop.
fn named_by_connection(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn line(name: &HeaderName, value: &HeaderValue) -> Header {
    // Most names are ones that `http` knows; those need no copy. `HeaderValue` keeps its `Bytes` to itself.
    Header { name: Bytes::copy_from_slice(name.as_str().as_bytes()), value: Bytes::copy_from_slice(value.as_bytes()) }
}

/// A stored response, ready to be sent; the body stands beside it.
pub(crate) struct Replay {
    pub(crate) head: http::Response<()>,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Gives a stored answer again. `None` where it is no HTTP response: a value of another kind of caller, or a record
/// that decodes to what HTTP cannot carry.
pub(crate) fn replay(answer: &Answer, version: Version) -> Option<Replay> {
    let Answer::Response(stored) = answer else { return None };
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::from_u16(stored.status).ok()?;
    *head.headers_mut() = header_map(&stored.headers)?;
    head.headers_mut().try_insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true")).ok()?;
    let trailers = match stored.trailers.as_slice() {
        [] => None,
        lines => Some(header_map(lines)?),
    };
    if let Some(trailers) = &trailers
        && version < Version::HTTP_2
    {
        // HTTP/1.1 servers send only those trailers that the head announces. It was framing of the first response, and
        // is made anew for this one.
        let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        head.headers_mut().try_insert(header::TRAILER, HeaderValue::from_str(&names.join(", ")).ok()?).ok()?;
    }
    Some(Replay { head, body: stored.body.clone(), trailers })
}

fn header_map(lines: &[Header]) -> Option<HeaderMap> {
    // Very many lines may still be few names.
    let mut map = HeaderMap::try_with_capacity(lines.len() + 1).unwrap_or_default();
    for Header { name, value } in lines {
        let name = HeaderName::from_bytes(name).ok()?;
        map.try_append(name, HeaderValue::from_maybe_shared(value.clone()).ok()?).ok()?;
    }
    Some(map)
}
