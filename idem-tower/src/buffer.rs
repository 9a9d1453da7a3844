//! Reads a whole request body, up to a limit.

use core::error::Error;
use core::future::poll_fn;
use core::pin::pin;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::LengthLimitError;

use crate::BoxError;
use crate::body::poll_bytes;

/// A request body, read whole.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) data: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// Why a request body was not read whole.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It has more bytes than allowed.
    TooLarge,
    /// It has more bytes than a layer outside this one allows.
    TooLargeElsewhere,
    /// It broke off, or could not be decoded.
    Broken(BoxError),
}

/// Reads a body of at most `limit` bytes. Stops at the first chunk that passes the limit.
///
/// What the request says about its length may refuse it, and never lets it pass.
pub(crate) async fn read<B>(body: B, headers: &HeaderMap, limit: usize) -> Result<Kept, Unread>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    if announced(headers).is_some_and(|length| length > limit as u64) || body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut body = pin!(body);
    let mut chunks = Chunks::default();
    let mut trailers = None;
    while let Some(frame) = poll_fn(|context| poll_bytes(body.as_mut(), context)).await {
        match frame.map_err(unread)?.into_data() {
            Ok(data) if data.len() > limit - chunks.length => return Err(Unread::TooLarge),
            Ok(data) => chunks.push(data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok(Kept { data: chunks.join(), trailers })
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// A limit of an outer layer is a limit, whichever error it comes wrapped in.
fn unread(error: impl Into<BoxError>) -> Unread {
    let error = error.into();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&*error);
    while let Some(current) = cause {
        if current.is::<LengthLimitError>() {
            return Unread::TooLargeElsewhere;
        }
        cause = current.source();
    }
    Unread::Broken(error)
}

/// A chunk below this is copied behind the one before it: kept as it came, a chunk of one byte holds 44.
const SMALL: usize = 1 << 10;

/// Chunks that become one piece. A single chunk, which is what small bodies are, is not copied.
///
/// However a body is cut, what this adds to its bytes is at most about as many again.
#[derive(Default)]
pub(crate) struct Chunks {
    chunks: Vec<Bytes>,
    /// The small chunks that came last, as one.
    tail: BytesMut,
    pub(crate) length: usize,
}

impl Chunks {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        let is_first = self.length == 0;
        self.length += chunk.len();
        if chunk.len() < SMALL && !is_first {
            self.tail.extend_from_slice(&chunk);
        } else {
            self.end_tail();
            self.chunks.push(chunk);
        }
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push(core::mem::take(&mut self.tail).freeze());
        }
    }

    pub(crate) fn join(mut self) -> Bytes {
        self.end_tail();
        if self.chunks.len() <= 1 {
            return self.chunks.pop().unwrap_or_default();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        for chunk in &self.chunks {
            whole.extend_from_slice(chunk);
        }
        whole.freeze()
    }

    pub(crate) fn into_chunks(mut self) -> Vec<Bytes> {
        self.end_tail();
        self.chunks
    }
}
