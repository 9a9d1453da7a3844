use core::fmt;
use core::future::{Future, poll_fn, ready};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;
use tracing::Instrument;

use crate::BoxError;
use crate::arrival::{Arrival, arrival};
use crate::body::Body;
use crate::observe;
use crate::protect::protect;
use crate::settings::Settings;

/// A service whose covered requests run at most once per key. Made by [`IdempotencyLayer`](crate::IdempotencyLayer).
///
/// # Readiness
///
/// It is always ready, and asks the inner service only for requests that are to run. An inner service that exerts
/// back-pressure, such as a concurrency limit, then delays new work and no replay. A key is claimed once the inner
/// service is ready; an error of its readiness is returned with nothing claimed.
///
/// # Errors
///
/// Those of the inner service and no others: whatever goes wrong here is a response.
///
/// # Panics
///
/// A panic of the inner service is recorded as a failed attempt and then goes on to whoever polls the response, as it
/// would without the layer: a layer outside this one that turns panics into responses still does. With nobody to catch
/// it, the connection breaks off, and the client's retry is refused with *previous attempt failed*.
///
/// Must be called inside a tokio runtime with time enabled.
#[derive(Clone)]
pub struct IdempotencyService<S> {
    settings: Arc<Settings>,
    inner: S,
}

impl<S> IdempotencyService<S> {
    pub(crate) const fn new(settings: Arc<Settings>, inner: S) -> Self {
        Self { settings, inner }
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<Body<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError> + Send + 'static,
    R: http_body::Body + Send + 'static,
    R::Error: Send + 'static,
{
    type Response = Response<Body<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<Response<Body<R>>, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let mut inner = self.inner.clone();
        match arrival(&self.settings, &parts) {
            Arrival::Untouched => ResponseFuture::new(async move {
                poll_fn(|context| inner.poll_ready(context)).await?;
                let request = Request::from_parts(parts, Body::through(body));
                Ok(inner.call(request).await?.map(Body::through))
            }),
            Arrival::Refused(problem) => {
                let response = self.settings.render(problem);
                ResponseFuture::new(ready(Ok(response.map(|body| Body::kept(body, None)))))
            }
            Arrival::Protected(key) => {
                let span = observe::span(&key);
                let settings = Arc::clone(&self.settings);
                ResponseFuture::new(protect(settings, key, inner, parts, body).instrument(span))
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The response of an [`IdempotencyService`].
///
/// # Cancellation
///
/// Dropped before the request body is read, nothing has happened. Dropped after that, the attempt goes on in a task of
/// its own, is settled, and its answer waits for the client's retry.
pub struct ResponseFuture<R, E>(Pin<Box<dyn Future<Output = Result<R, E>> + Send>>);

impl<R, E> ResponseFuture<R, E> {
    fn new(future: impl Future<Output = Result<R, E>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl<R, E> Future for ResponseFuture<R, E> {
    type Output = Result<R, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<R, E> fmt::Debug for ResponseFuture<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
