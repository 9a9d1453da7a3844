//! What a settled attempt leaves behind for its retries.

use std::sync::Arc;

use bytes::Bytes;

/// What a replay gives back. Clones are cheap: bodies are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self::Response(Arc::new(response))
    }
}

/// Status, headers, body and trailers of an HTTP response, byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// One header or trailer line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name, lower case.
    pub name: Bytes,
    /// The value, any bytes.
    pub value: Bytes,
}
