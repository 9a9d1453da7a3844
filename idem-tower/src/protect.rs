//! The client's side of a protected request: it reads, looks, asks and waits, and leaves the claim to a task.
//!
//! Whatever is awaited here holds no claim and no permit, so that a client may hang up at any point of it.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::panic::resume_unwind;
use std::sync::Arc;

use http::request::Parts;
use http::{Response, Version};
use idem_core::machine::locked;
use idem_core::policy::StoreDown;
use idem_core::{Answer, Look, Problem, Refusal, RequestIdentity, ScopedKey, StoreError, Unreadable};
use tokio::time::Instant;

use crate::BoxError;
use crate::attempt::Ended;
use crate::body::Body;
use crate::bounds::{Inner, Movable};
use crate::buffer::{self, Unread};
use crate::claim::{Turn, claim};
use crate::hooks::Asked;
use crate::observe::{Causes, Outcome};
use crate::reply::{count, kept, refuse};
use crate::settings::{Settings, overloaded, store_failed};
use crate::stored;
use crate::work::Work;

/// Answers one request that has a key.
pub(crate) async fn protect<S, B, R>(
    settings: Arc<Settings>,
    key: ScopedKey,
    service: S,
    parts: Parts,
    body: B,
) -> Result<Response<Body<R>>, S::Error>
where
    S: Inner<B, R>,
    B: Movable<Error: Into<BoxError>>,
    R: Movable,
{
    let body = match buffer::read(body, &parts.headers, settings.max_request_body).await {
        Ok(body) => body,
        Err(unread) => return Ok(refuse(&settings, &key, unreadable(&unread, settings.max_request_body))),
    };
    let identity = settings.identify(&parts, &body.data);
    let asked = settings.has_hooks().then(|| Asked { parts: parts.clone(), key: key.clone() });
    let visit = Visit { version: parts.version, settings, key, identity, asked };
    visit.serve(Work::new(service, parts, body)).await
}

/// One request on its way, apart from what its handler needs.
struct Visit {
    settings: Arc<Settings>,
    key: ScopedKey,
    identity: Arc<dyn RequestIdentity>,
    /// Only where there is a hook to ask.
    asked: Option<Asked>,
    version: Version,
}

impl Visit {
    async fn serve<S, B, R>(&self, mut work: Work<S, B>) -> Result<Response<Body<R>>, S::Error>
    where
        S: Inner<B, R>,
        B: Movable,
        R: Movable,
    {
        let settings = &self.settings;
        let mut waiting = Waiting::new(settings.wait);
        // Whoever must not claim looks: replays and refusals need no permit, no quota and no handler.
        let mut is_admitted = settings.admit.is_none();
        let mut may_claim = true;
        loop {
            let is_full = settings.in_flight.is_full();
            if is_admitted
                && may_claim
                && let Some(permit) = settings.in_flight.enter()
                && self.is_ready(&mut work).await?
            {
                match claim(settings, &self.key, &self.identity, work, permit, waiting.has_seen_another()).await {
                    Turn::Ran(Ended::Response(response)) => return Ok(response),
                    // The attempt is counted: its lease was lost.
                    Turn::Ran(Ended::Replay(answer)) => return Ok(self.replay(&answer).await.0),
                    Turn::Ran(Ended::Superseded(answer)) => return Ok(self.counted_replay(&answer).await),
                    Turn::Ran(Ended::Error(error)) => return Err(error),
                    Turn::Ran(Ended::Panic(panic)) => resume_unwind(panic),
                    Turn::Ran(Ended::Unknown) => return Ok(self.refuse(Problem::refusal(&Refusal::OutcomeUnknown))),
                    Turn::Replay(answer) => return Ok(self.counted_replay(&answer).await),
                    Turn::StoreFailed(error) => return Ok(self.store_failed(&error)),
                    Turn::Refused(refusal, back) => {
                        // A waiter holds back no place in the inner service.
                        work = back.not_ready();
                        may_claim = false;
                        if !waiting.goes_on_after(&refusal).await {
                            return Ok(self.refuse(Problem::refusal(&refusal)));
                        }
                    }
                }
                continue;
            }
            match settings.idem.look(&self.key, &*self.identity).await {
                Ok(Look::Replay(answer)) => return Ok(self.counted_replay(&answer).await),
                Ok(Look::Refuse(refusal)) => {
                    if !waiting.goes_on_after(&refusal).await {
                        return Ok(self.refuse(Problem::refusal(&refusal)));
                    }
                    continue;
                }
                Err(error)
                    if is_full
                        || waiting.has_seen_another()
                        || settings.idem.current_policy().store_down() == StoreDown::Refuse =>
                {
                    return Ok(self.store_failed(&error));
                }
                Err(_) | Ok(Look::WouldRun) => {}
            }
            if is_full {
                // A look does not see the lock of the transaction that this request waits for.
                let waits_on = settings.transactions.is_some() && waiting.has_seen_another();
                if waits_on && waiting.goes_on_after(&locked()).await {
                    continue;
                }
                return Ok(self.refuse(overloaded()));
            }
            if !is_admitted && let Some(denial) = self.ask_for_admission().await {
                return Ok(denial);
            }
            is_admitted = true;
            poll_fn(|context| work.service.poll_ready(context)).await.inspect_err(|_| self.count(Outcome::NotReady))?;
            may_claim = true;
        }
    }

    /// Whether the inner service takes a request right now.
    async fn is_ready<S, B, R>(&self, work: &mut Work<S, B>) -> Result<bool, S::Error>
    where
        S: Inner<B, R>,
        B: Movable,
    {
        match poll_fn(|context| Poll::Ready(work.service.poll_ready(context))).await {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => {
                self.count(Outcome::NotReady);
                Err(error)
            }
            Poll::Pending => Ok(false),
        }
    }

    async fn ask_for_admission<R: http_body::Body>(&self) -> Option<Response<Body<R>>> {
        let (hook, asked) = self.settings.admit.as_ref().zip(self.asked.clone())?;
        let denial = hook(asked).await.err()?;
        self.count(Outcome::Denied);
        Some(kept(denial.0))
    }

    async fn counted_replay<R: http_body::Body>(&self, answer: &Answer) -> Response<Body<R>> {
        let (response, outcome) = self.replay(answer).await;
        self.count(outcome);
        response
    }

    /// Asks whether a stored answer may go out, and gives what goes out, and as what it counts.
    async fn replay<R: http_body::Body>(&self, answer: &Answer) -> (Response<Body<R>>, Outcome) {
        if let Some((hook, asked)) = self.settings.check_replay.as_ref().zip(self.asked.clone())
            && let Err(denial) = hook(asked).await
        {
            return (kept(denial.0), Outcome::Denied);
        }
        match stored::replay(answer, self.version) {
            Some(replay) => (replay.head.map(|()| Body::kept(replay.body, replay.trailers)), Outcome::Replayed),
            // It is no HTTP response.
            None => {
                let problem = Problem::refusal(&Refusal::RecordUnreadable(Unreadable::Corrupt));
                let outcome = Outcome::Problem(problem.slug);
                (kept(self.settings.render(problem)), outcome)
            }
        }
    }

    fn store_failed<R: http_body::Body>(&self, error: &StoreError) -> Response<Body<R>> {
        tracing::warn!(error = %Causes(error), "the idempotency key could not be claimed");
        self.refuse(store_failed(error))
    }

    fn refuse<R: http_body::Body>(&self, problem: Problem) -> Response<Body<R>> {
        refuse(&self.settings, &self.key, problem)
    }

    fn count(&self, outcome: Outcome) {
        count(&self.key, outcome);
    }
}

fn unreadable(unread: &Unread, limit: usize) -> Problem {
    match unread {
        Unread::TooLarge => Problem::body_too_large(limit),
        Unread::TooLargeElsewhere => {
            let mut problem = Problem::body_too_large(limit);
            problem.detail = "The request body is larger than this server accepts. Nothing was done.".into();
            problem
        }
        Unread::Broken(error) => {
            tracing::debug!(%error, "a request body broke off; nothing was claimed");
            Problem::body_unreadable()
        }
    }
}

/// The waits between two looks at a running attempt.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(500);

/// The patience of a request whose key is held by a running attempt.
struct Waiting {
    limit: Option<Duration>,
    over_at: Option<Instant>,
    pause: Duration,
}

impl Waiting {
    const fn new(limit: Option<Duration>) -> Self {
        Self { limit, over_at: None, pause: FIRST_LOOK }
    }

    /// Whether another attempt was seen in progress: to run without protection then is to run beside it.
    const fn has_seen_another(&self) -> bool {
        self.over_at.is_some()
    }

    /// Waits a little where that may help; says whether to look again.
    async fn goes_on_after(&mut self, refusal: &Refusal) -> bool {
        let (Refusal::InProgress { .. }, Some(limit)) = (refusal, self.limit) else { return false };
        let now = Instant::now();
        let over_at = *self.over_at.get_or_insert_with(|| now + limit);
        if now >= over_at {
            return false;
        }
        tokio::time::sleep_until(over_at.min(now + self.pause)).await;
        self.pause = (self.pause * 2).min(LAST_LOOK);
        true
    }
}
