//! One attempt: runs the handler, reads its response, and settles before anything goes out.

use core::any::Any;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::{Request, Response};
use idem_core::{Answer, Attempt, Directive, InPlaceOfMine, Problem, Settled, Settlement};

use crate::body::Body;
use crate::bounds::{Inner, Movable};
use crate::capture::{Captured, capture, is_stream};
use crate::classify::{Answered, Class, is_success};
use crate::inflight::Permit;
use crate::observe::{CountedInFlight, Outcome};
use crate::reply::{count, refuse};
use crate::running::Running;
use crate::settings::{Settings, Timer};
use crate::stored;
use crate::work::Work;

/// How an attempt ended, for its client.
#[expect(clippy::large_enum_variant, reason = "the response is the common case; a box would cost every request")]
pub(crate) enum Ended<R: http_body::Body, E> {
    Response(Response<Body<R>>),
    /// The lease was lost, and this is the answer of the attempt that took it. It is counted.
    Replay(Answer),
    /// Everything was rolled back, and this is the answer of the attempt that was quicker.
    Superseded(Answer),
    Error(E),
    Panic(Box<dyn Any + Send>),
    /// The task was ended from outside.
    Unknown,
}

/// Runs the handler under its claim and settles. The permit is held until then.
pub(crate) async fn run<S, B, R>(
    settings: Arc<Settings>,
    attempt: Attempt<Timer>,
    work: Work<S, B>,
    permit: Permit,
) -> Ended<R, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    let counted = CountedInFlight::new();
    let running = attempt.running().clone();
    tracing::Span::current().record("epoch", running.epoch().number());

    let handled = attempt.drive(caught(Box::pin(handle(&settings, running.clone(), work)))).await;
    let (class, answer, ended) = match handled {
        Ok(Ok(Handled { class, answer, response, .. })) => (class, answer, Ended::Response(response)),
        Ok(Err(error)) => (Class::Fail, None, Ended::Error(error)),
        Err(panic) => (Class::Fail, None, Ended::Panic(panic)),
    };
    let settlement = settlement(running.directive(), class, answer);
    let mut outcome = match (&ended, &settlement) {
        (Ended::Panic(_), _) => Outcome::Panicked,
        (_, Settlement::Completed(Answer::NotKept)) => Outcome::CompletedNotKept,
        (_, Settlement::Completed(_)) => Outcome::Completed,
        (_, Settlement::Failed { .. }) => Outcome::Failed,
        (_, Settlement::Released) => Outcome::Released,
    };
    let settled = attempt.settle(settlement).await;
    drop((counted, permit));

    let key = running.key();
    let ended = match (ended, settled) {
        (Ended::Response(own), Settled::LeaseLost(instead)) => {
            outcome = Outcome::LeaseLost;
            match instead {
                InPlaceOfMine::OwnAnswer => Ended::Response(own),
                InPlaceOfMine::Answer(answer) => Ended::Replay(answer),
                InPlaceOfMine::Refuse(refusal) => {
                    return Ended::Response(refuse(&settings, key, Problem::refusal(&refusal)));
                }
            }
        }
        (ended, Settled::Unprotected) => {
            outcome = Outcome::Unprotected;
            ended
        }
        (ended, Settled::Done | Settled::Owed | Settled::GivenUp | Settled::LeaseLost(_)) => ended,
    };
    count(key, outcome);
    ended
}

/// What the handler has declared comes first, then what its answer says.
pub(crate) fn settlement(directive: Option<Directive>, class: Class, answer: Option<Answer>) -> Settlement {
    match (directive, class) {
        (Some(Directive::Release), _) => Settlement::Released,
        (Some(Directive::FailedWithoutEffect), _) => Settlement::Failed { no_effect: true },
        (None, Class::Complete) => Settlement::Completed(answer.unwrap_or(Answer::NotKept)),
        (None, Class::CompleteNotKept) => Settlement::Completed(Answer::NotKept),
        (None, Class::Release) => Settlement::Released,
        (None, Class::Fail) => Settlement::Failed { no_effect: false },
        (None, Class::FailWithoutEffect) => Settlement::Failed { no_effect: true },
    }
}

/// A response of the inner service, what it does to the key, and what is kept of it.
pub(crate) struct Handled<R: http_body::Body> {
    pub(crate) class: Class,
    pub(crate) is_success: bool,
    pub(crate) answer: Option<Answer>,
    pub(crate) response: Response<Body<R>>,
}

/// Runs the inner service, and reads its response as far as it may be kept.
pub(crate) async fn handle<S, B, R>(
    settings: &Settings,
    running: idem_core::Running,
    work: Work<S, B>,
) -> Result<Handled<R>, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    let Work { mut service, mut parts, body, .. } = work;
    parts.extensions.insert(Running::new(running.clone()));
    let request = Request::from_parts(parts, Body::kept(body.data, body.trailers));
    let (head, body) = service.call(request).await?.into_parts();

    let captured =
        if is_stream(&head) { Captured::Part(Body::through(body)) } else { capture(body, settings.limits).await };
    let answered = |body, trailers| Answered { status: head.status, headers: &head.headers, body, trailers };
    let (class, is_success, answer, body) = match captured {
        Captured::Whole { data, trailers } => {
            let answered = answered(Some(&data), trailers.as_ref());
            let (class, is_success) = (settings.classify(&answered), is_success(&answered));
            let is_kept = class == Class::Complete && !running.is_not_to_be_kept();
            let answer = is_kept.then(|| stored::answer(&head, data.clone(), trailers.as_ref(), &settings.not_stored));
            (class, is_success, answer, Body::kept(data, trailers))
        }
        Captured::Part(body) => {
            let answered = answered(None, None);
            (settings.classify(&answered), is_success(&answered), None, body)
        }
        Captured::Broken(body) => (Class::Fail, false, None, body),
    };
    Ok(Handled { class, is_success, answer, response: Response::from_parts(head, body) })
}

/// Catches a panic at any poll.
pub(crate) async fn caught<F: Future>(mut future: Pin<Box<F>>) -> Result<F::Output, Box<dyn Any + Send>> {
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
