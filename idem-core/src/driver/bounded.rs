use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use futures_util::future::{Either, select};

use super::{Idempotency, Timer};
use crate::{Certainty, StoreError, StoreErrorKind};

impl<T: Timer> Idempotency<T> {
    /// Waits for a store call, but no longer than the call timeout.
    pub(super) async fn bounded<R>(&self, call: impl Future<Output = Result<R, StoreError>>) -> Result<R, StoreError> {
        self.bounded_by(self.settings.call_timeout, call).await
    }

    /// Waits for a store call, but no longer than `limit`. A call that is given up may have written.
    pub(super) async fn bounded_by<R>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        let mut call = pin!(call);
        // A store in this process answers at the first poll; then there is no timer to pay for.
        if let Poll::Ready(answer) = poll_once(call.as_mut()).await {
            return answer;
        }
        match select(call, pin!(self.settings.timer.sleep(limit))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(StoreError::bare(StoreErrorKind::Unavailable, Certainty::Unknown)),
        }
    }
}

/// Polls once, with the waker of the task that goes on polling.
pub(super) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
