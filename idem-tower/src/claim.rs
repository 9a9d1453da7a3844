//! Claims a key, or locks it by a transaction, in a task that no client can cancel.

use core::future::Future;
use core::ops::ControlFlow;
use core::pin::Pin;
use core::task::Poll;
use std::sync::Arc;

use idem_core::{Answer, Attempt, Begin, Refusal, RequestIdentity, ScopedKey, StoreError};
use tracing::Instrument;

use crate::attempt::{self, Ended};
use crate::bounds::{Inner, Movable};
use crate::inflight::Permit;
use crate::poll::poll_once;
use crate::settings::{Settings, Timer};
use crate::transacted;
use crate::transactions::{self, Transacted};
use crate::work::Work;

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

/// Claims the key and, where that succeeds, runs the handler and settles the attempt. Where another attempt was seen in
/// progress, nothing runs without a claim, whatever the policy.
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
    has_seen_another: bool,
) -> Turn<S, B, R, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    let settings = Arc::clone(settings);
    let (key, identity) = (key.clone(), Arc::clone(identity));
    let mut begin = Box::pin({
        let settings = Arc::clone(&settings);
        async move { begin(&settings, &key, &*identity, has_seen_another).await }
    });
    // A store in this process answers at the first poll; its replays then need no task. Tasks are boxed: they are
    // large, and would be moved from place to place on their way.
    match poll_once(begin.as_mut()).await {
        Poll::Ready(begun) => match to_run(begun, work) {
            ControlFlow::Break(turn) => turn,
            ControlFlow::Continue((attempt, work)) => {
                detached(Box::pin(async move { Turn::Ran(run(settings, attempt, work, permit).await) })).await
            }
        },
        Poll::Pending => {
            detached(Box::pin(async move {
                match to_run(begin.await, work) {
                    ControlFlow::Break(turn) => turn,
                    ControlFlow::Continue((attempt, work)) => Turn::Ran(run(settings, attempt, work, permit).await),
                }
            }))
            .await
        }
    }
}

/// What holds the key while the handler runs.
enum Holding {
    Claim(Attempt<Timer>),
    Transaction(Box<dyn Transacted>),
}

/// A key that is held, and what its handler needs.
type ToRun<S, B> = (Holding, Work<S, B>);

enum Begun {
    Run(Holding),
    Replay(Answer),
    Refuse(Refusal),
}

async fn begin(
    settings: &Settings,
    key: &ScopedKey,
    identity: &dyn RequestIdentity,
    has_seen_another: bool,
) -> Result<Begun, StoreError> {
    if let Some(transactions) = &settings.transactions {
        return Ok(match transactions.begin(settings.idem.clone(), key, identity).await? {
            transactions::Begun::Run(transacted) => Begun::Run(Holding::Transaction(transacted)),
            transactions::Begun::Replay(answer) => Begun::Replay(answer),
            transactions::Begun::Refuse(refusal) => Begun::Refuse(refusal),
        });
    }
    let begun = if has_seen_another {
        settings.idem.begin_protected(key, identity).await?
    } else {
        settings.idem.begin(key, identity).await?
    };
    Ok(match begun {
        Begin::Run(attempt) => Begun::Run(Holding::Claim(attempt)),
        Begin::Replay(answer) => Begun::Replay(answer),
        Begin::Refuse(refusal) => Begun::Refuse(refusal),
    })
}

/// Goes on with a key that is held and the work for it, or breaks off with what there is to say instead.
fn to_run<S, B, R: http_body::Body, E>(
    begun: Result<Begun, StoreError>,
    work: Work<S, B>,
) -> ControlFlow<Turn<S, B, R, E>, ToRun<S, B>> {
    ControlFlow::Break(match begun {
        Ok(Begun::Run(holding)) => return ControlFlow::Continue((holding, work)),
        Ok(Begun::Replay(answer)) => Turn::Replay(answer),
        Ok(Begun::Refuse(refusal)) => Turn::Refused(refusal, work),
        Err(error) => Turn::StoreFailed(error),
    })
}

async fn run<S, B, R>(settings: Arc<Settings>, holding: Holding, work: Work<S, B>, permit: Permit) -> Ended<R, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    match holding {
        Holding::Claim(attempt) => attempt::run(settings, attempt, work, permit).await,
        Holding::Transaction(transacted) => transacted::run(settings, transacted, work, permit).await,
    }
}

/// Runs to its end, whatever becomes of whoever waits for it.
async fn detached<S, B, R, E, F>(task: Pin<Box<F>>) -> Turn<S, B, R, E>
where
    S: Send + 'static,
    B: Movable,
    R: Movable,
    E: Send + 'static,
    F: Future<Output = Turn<S, B, R, E>> + Send + 'static,
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
