//! What a settled attempt leaves behind for its retries.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// What a replay gives back. Clones are cheap: bodies are shared.
///
/// `Debug` shows sizes instead of contents, here and below: stored answers stay out of logs.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// An HTTP response, as data.
    Response(Arc<Response>),
    /// A value that is no HTTP response, encoded by whoever kept it.
    Value(Bytes),
    /// The attempt completed, but its answer was too large, too slow or said not to be kept. Its retries are refused.
    NotKept,
}

impl Answer {
    /// Bytes that the answer holds, for stores that are bounded by bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Response(response) => response.size(),
            Self::Value(value) => value.len(),
            Self::NotKept => 0,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(response) => f.debug_tuple("Response").field(response).finish(),
            Self::Value(value) => write!(f, "Value({} bytes)", value.len()),
            Self::NotKept => f.write_str("NotKept"),
        }
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self::Response(Arc::new(response))
    }
}

/// Status, headers, body and trailers of an HTTP response, byte for byte.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers in their order; a repeated name stands as often as it was sent.
    pub headers: Vec<Header>,
    /// The body, whole.
    pub body: Bytes,
    /// The trailers in their order.
    pub trailers: Vec<Header>,
}

impl Response {
    fn size(&self) -> usize {
        let headers = self.headers.iter().chain(&self.trailers);
        self.body.len() + headers.map(|header| header.name.len() + header.value.len()).sum::<usize>()
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("trailers", &self.trailers)
            .finish()
    }
}

/// One header or trailer line.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, lower case.
    pub name: Bytes,
    /// The value, any bytes.
    pub value: Bytes,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.name.escape_ascii(), self.value.len())
    }
}
