//! A look at a future that may be done already.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;

/// Polls once, with the waker of the task that goes on polling.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
