//! What a handler needs, on its way to it.

use core::marker::PhantomData;

use http::request::Parts;

use crate::buffer::Kept;

/// The inner service and the request, whole.
pub(crate) struct Work<S, B> {
    pub(crate) service: S,
    pub(crate) parts: Parts,
    pub(crate) body: Kept,
    _of_requests_with: PhantomData<fn() -> B>,
}

impl<S: Clone, B> Work<S, B> {
    pub(crate) fn new(service: S, parts: Parts, body: Kept) -> Self {
        Self { service, parts, body, _of_requests_with: PhantomData }
    }

    /// Gives back whatever place the inner service keeps for a request that it is ready for.
    pub(crate) fn not_ready(mut self) -> Self {
        self.service = self.service.clone();
        self
    }
}
