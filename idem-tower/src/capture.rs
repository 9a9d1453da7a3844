//! Reads a response body as far as it may be kept.

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header, response};

use crate::body::{Body, Rest, Start, poll_bytes};
use crate::buffer::Chunks;
use crate::poll::poll_once;

/// Marks a response as a stream: it is forwarded as it comes, and not kept.
///
/// A handler puts it into the extensions of its response; in axum, `(Extension(Streamed), body)`. The key is completed
/// before the first byte goes out, and retries are refused with *response not kept*. Responses of the media type
/// `text/event-stream` count as marked.
///
/// ```
/// let mut response = http::Response::new("one line, and more to come");
/// response.extensions_mut().insert(idem_tower::Streamed);
/// # assert!(response.extensions().get::<idem_tower::Streamed>().is_some());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streamed;

/// How much of a response is buffered, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
}

/// A response body, as far as it was read.
pub(crate) enum Captured<B: http_body::Body> {
    /// To its end.
    Whole { data: Bytes, trailers: Option<HeaderMap> },
    /// Up to a limit; the rest is still to come.
    Part(Body<B>),
    /// Up to its error, which the body ends in.
    Broken(Body<B>),
}

/// Whether the response is to be forwarded as it comes.
pub(crate) fn is_stream(head: &response::Parts) -> bool {
    head.status.is_informational()
        || head.extensions.get::<Streamed>().is_some()
        || head.headers.get(header::CONTENT_TYPE).is_some_and(|value| is_event_stream(value.as_bytes()))
}

fn is_event_stream(content_type: &[u8]) -> bool {
    let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Reads until the end, an error, or a limit. Bytes are counted as they come; what a body says about its length is
/// not asked.
pub(crate) async fn capture<B: http_body::Body>(body: B, limits: Limits) -> Captured<B> {
    let mut reader = Reader { body: Box::pin(body), chunks: Chunks::default(), trailers: None };
    // What is there at once, as most bodies are, needs no timer. What was read is the reader's, not the future's.
    let at_once = poll_once(pin!(reader.read(limits.bytes))).await;
    let ended = match at_once {
        Poll::Ready(ended) => ended,
        Poll::Pending => match tokio::time::timeout(limits.time, reader.read(limits.bytes)).await {
            Ok(ended) => ended,
            Err(_) => Ended::AtLimit,
        },
    };
    match ended {
        Ended::Whole => Captured::Whole { data: reader.chunks.join(), trailers: reader.trailers },
        Ended::AtLimit => Captured::Part(reader.resume(Rest::Live)),
        Ended::Broken(error) => Captured::Broken(reader.resume(|_| Rest::Broken(error))),
    }
}

enum Ended<E> {
    Whole,
    AtLimit,
    Broken(E),
}

/// A body and what was read of it; outlives the future that reads.
struct Reader<B> {
    body: Pin<Box<B>>,
    chunks: Chunks,
    trailers: Option<HeaderMap>,
}

impl<B: http_body::Body> Reader<B> {
    async fn read(&mut self, limit: usize) -> Ended<B::Error> {
        loop {
            match poll_fn(|context| poll_bytes(self.body.as_mut(), context)).await {
                None => return Ended::Whole,
                Some(Err(error)) => return Ended::Broken(error),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.chunks.push(data);
                        if self.chunks.length > limit {
                            return Ended::AtLimit;
                        }
                    }
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
            }
        }
    }

    fn resume(self, rest: impl FnOnce(Pin<Box<B>>) -> Rest<B>) -> Body<B> {
        let start = Start { chunks: self.chunks.into_chunks().into(), trailers: self.trailers };
        Body::resumed(start, rest(self.body))
    }
}
