//! One attempt in a transaction: runs the handler, reads its response, and commits or rolls back before anything goes
//! out.

use std::sync::Arc;

use idem_core::{Answer, Concluded, InPlaceOfMine, Problem, ScopedKey, Settlement, StoreErrorKind};

use crate::attempt::{Ended, Handled, caught, handle, settlement};
use crate::bounds::{Inner, Movable};
use crate::classify::Class;
use crate::inflight::Permit;
use crate::observe::{Causes, CountedInFlight, Outcome};
use crate::reply::{count, refuse};
use crate::settings::{Settings, commit_failed};
use crate::transactions::{NotCommitted, Transacted};
use crate::work::Work;

/// Runs the handler in its transaction, and ends that. The permit is held until then.
///
/// | handler | transaction | record |
/// |---|---|---|
/// | completed, with success | committed | completed, in the same commit |
/// | completed, without | rolled back | completed, in a write of its own |
/// | released or failed | rolled back | none |
///
/// # Cancellation
///
/// Everything is rolled back, or a commit under way takes place or does not.
pub(crate) async fn run<S, B, R>(
    settings: Arc<Settings>,
    transacted: Box<dyn Transacted>,
    mut work: Work<S, B>,
    permit: Permit,
) -> Ended<R, S::Error>
where
    S: Inner<B, R>,
    B: Movable,
    R: Movable,
{
    let _counted = (CountedInFlight::new(), permit);
    let running = transacted.running().clone();
    tracing::Span::current().record("epoch", running.epoch().number());

    transacted.lend(&mut work.parts.extensions);
    let handled = caught(Box::pin(handle(&settings, running.clone(), work))).await;
    let (class, is_success, answer, ended) = match handled {
        Ok(Ok(Handled { class, is_success, answer, response })) => {
            (class, is_success, answer, Ended::Response(response))
        }
        Ok(Err(error)) => (Class::Fail, false, None, Ended::Error(error)),
        Err(panic) => (Class::Fail, false, None, Ended::Panic(panic)),
    };
    let key = running.key();
    let (goes_out, outcome) = match settlement(running.directive(), class, answer) {
        Settlement::Completed(answer) => {
            let outcome = if answer == Answer::NotKept { Outcome::CompletedNotKept } else { Outcome::Completed };
            let goes_out = if is_success {
                transacted.commit(answer).await.map(GoesOut::from)
            } else {
                transacted.roll_back_and_remember(answer).await.map(GoesOut::from)
            };
            match goes_out {
                Ok(goes_out) => (goes_out, outcome),
                Err(why) => return Ended::Response(refuse(&settings, key, problem(key, why))),
            }
        }
        settlement @ (Settlement::Released | Settlement::Failed { .. }) => {
            transacted.roll_back().await;
            let outcome = match (&ended, settlement) {
                (Ended::Panic(_), _) => Outcome::Panicked,
                (_, Settlement::Released) => Outcome::Released,
                _ => Outcome::RolledBack,
            };
            (GoesOut::OwnAnswer, outcome)
        }
    };
    match goes_out {
        GoesOut::OwnAnswer => {
            count(key, outcome);
            ended
        }
        GoesOut::Answer(answer) => Ended::Superseded(answer),
        GoesOut::Refusal(refusal) => Ended::Response(refuse(&settings, key, Problem::refusal(&refusal))),
    }
}

/// What the client gets.
enum GoesOut {
    OwnAnswer,
    /// That of the attempt that was quicker.
    Answer(Answer),
    Refusal(idem_core::Refusal),
}

impl From<Concluded> for GoesOut {
    fn from(concluded: Concluded) -> Self {
        match concluded {
            Concluded::Done => Self::OwnAnswer,
            Concluded::Replay(answer) => Self::Answer(answer),
            Concluded::Refuse(refusal) => Self::Refusal(refusal),
        }
    }
}

impl From<InPlaceOfMine> for GoesOut {
    fn from(instead: InPlaceOfMine) -> Self {
        match instead {
            InPlaceOfMine::OwnAnswer => Self::OwnAnswer,
            InPlaceOfMine::Answer(answer) => Self::Answer(answer),
            InPlaceOfMine::Refuse(refusal) => Self::Refusal(refusal),
        }
    }
}

/// What is said in the place of an answer that would not be true.
fn problem(key: &ScopedKey, why: NotCommitted) -> Problem {
    let route = key.route().as_str();
    match why {
        NotCommitted::NeverTaken => {
            tracing::error!(
                route,
                "a handler has answered with success and never taken its transaction; nothing was committed. Take \
                 `Tx` in the handler, or protect the route under a claim by `IdempotencyLayer::new`"
            );
            Problem::not_committed(
                "The operation reported success without having used the transaction that would have been committed \
                 with it. Nothing was committed.",
            )
        }
        NotCommitted::StillLent => {
            tracing::error!(
                route,
                "a handler has answered and holds on to its transaction; it is rolled back once it is dropped. `Tx` \
                 must be dropped before the response is read to its end"
            );
            Problem::not_committed(
                "The operation ended before it had given its transaction back. What it wrote is rolled back.",
            )
        }
        NotCommitted::Store(error) if error.kind() == StoreErrorKind::Aborted => {
            let error = Causes(&error);
            tracing::error!(
                route,
                %error,
                "a handler has answered with success although the database had aborted its transaction; everything was \
                 rolled back. An error of a statement was passed over"
            );
            Problem::not_committed(
                "The operation reported success although the database had aborted its transaction. What it wrote was \
                 rolled back.",
            )
        }
        NotCommitted::Store(error) => {
            tracing::warn!(route, error = %Causes(&error), "the transaction of an attempt could not be committed");
            commit_failed(&error)
        }
    }
}
