use core::future::Future;
use core::time::Duration;

/// How the driver waits. Every `Fn(Duration) -> impl Future` is one: `tokio::time::sleep` fits as it is.
///
/// # Contract
///
/// The time of a sleep counts from the call of [`sleep`](Self::sleep), not from its first poll, on a monotonic
/// clock. The driver starts the deadline of a lease before it sends the write that grants it.
pub trait Timer: Clone + Send + Sync + 'static {
    /// Completes once the time is over.
    type Sleep: Future<Output = ()> + Send + 'static;

    /// Starts to wait.
    fn sleep(&self, duration: Duration) -> Self::Sleep;
}

impl<F, S> Timer for F
where
    F: Fn(Duration) -> S + Clone + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    type Sleep = S;

    fn sleep(&self, duration: Duration) -> S {
        self(duration)
    }
}
