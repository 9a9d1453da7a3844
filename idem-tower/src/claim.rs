//! Claims a key in a task that no client can cancel.

use core::future::{Future, poll_fn};
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::Poll;
use std::sync::Arc;

use http::request::Parts;
use idem_core::{Answer, Begin, Refusal, RequestIdentity, ScopedKey, StoreError};
use tracing::Instrument;

use crate::attempt::{self, Ended};
use crate::buffer::Kept;
use crate::inflight::Permit;
use crate::service::{Inner, Movable};
use crate::settings::{Settings, Timer};

/// What a handler needs: the inner service and the request, whole.
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

/// What became of one claim.
pub(crate) enum Turn<S, B, R: http_body::Body, E> {
    /// The handler ran, and its attempt is settled.
    Ran(Ended<R, E>),
    /// There is an answer.
    Replay(Answer),
    /// Nothing ran; the work comes back.
    Refused(Refusal, Work<S, B>),
    /// Nothing ran.
    StoreFailed(StoreError),
}

/// Claims the key and, where that succeeds, runs the handler and settles the attempt.
///
/// # Cancellation
///
/// Everything goes on.
pub(crate) async fn claim<S, B, R>(
    settings: &Arc<Settings>,
    key: &ScopedKey,
    identity: &Arc<dyn RequestIdentity>,
    work: Work<S, B>,
    permit: Permit,
) -> Turn<S, B, R, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    let settings = Arc::clone(settings);
    let (idem, key, identity) = (settings.idem.clone(), key.clone(), Arc::clone(identity));
    let mut begin = Box::pin(async move { idem.begin(&key, &*identity).await });
    // A store in this process answers at the first poll; its replays then need no task.
    match poll_once(begin.as_mut()).await {
        Poll::Ready(begun @ Ok(Begin::Run(_))) => detached(proceed(begun, settings, work, permit)).await,
        Poll::Ready(begun) => proceed(begun, settings, work, permit).await,
        Poll::Pending => detached(async move { proceed(begin.await, settings, work, permit).await }).await,
    }
}

/// Waits for nothing unless the key is claimed.
async fn proceed<S, B, R>(
    begun: Result<Begin<Timer>, StoreError>,
    settings: Arc<Settings>,
    work: Work<S, B>,
    permit: Permit,
) -> Turn<S, B, R, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    match begun {
        Ok(Begin::Run(attempt)) => Turn::Ran(attempt::run(settings, attempt, work, permit).await),
        Ok(Begin::Replay(answer)) => Turn::Replay(answer),
        Ok(Begin::Refuse(refusal)) => Turn::Refused(refusal, work),
        Err(error) => Turn::StoreFailed(error),
    }
}

/// Runs to its end, whatever becomes of whoever waits for it.
async fn detached<S, B, R, E>(task: impl Future<Output = Turn<S, B, R, E>> + Send + 'static) -> Turn<S, B, R, E>
where
    S: Send + 'static,
    B: Movable,
    R: Movable,
    E: Send + 'static,
{
    match tokio::spawn(task.in_current_span()).await {
        Ok(turn) => turn,
        Err(error) => Turn::Ran(match error.try_into_panic() {
            Ok(panic) => Ended::Panic(panic),
            // The runtime is shutting down under a handler that runs.
            Err(_) => Ended::Unknown,
        }),
    }
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
