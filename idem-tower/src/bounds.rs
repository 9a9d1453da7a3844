//! What an inner service and its bodies must be, said once.

use http::{Request, Response};
use tower_service::Service;

use crate::body::Body;

/// A service that can be protected: it is cloned for each request and goes into a task of its own.
pub(crate) trait Inner<B: http_body::Body, R>:
    Service<Request<Body<B>>, Response = Response<R>, Error: Send + 'static, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S, B, R> Inner<B, R> for S
where
    B: http_body::Body,
    S: Service<Request<Body<B>>, Response = Response<R>, Error: Send + 'static, Future: Send + 'static>
        + Clone
        + Send
        + 'static,
{
}

/// A body of requests, or of responses, that can go into a task of its own.
pub(crate) trait Movable: http_body::Body<Error: Send + 'static> + Send + 'static {}

impl<B: http_body::Body<Error: Send + 'static> + Send + 'static> Movable for B {}
