//! The pretended bank, and what the `X-Bank` header makes it do.
//!
//! It does **not** look at the key that it is called with. A real bank would: the key is the same on every attempt, and
//! a second charge under it would be the first one's answer again. This one books whatever it is told, so that a charge
//! made twice shows in the ledger instead of being put right here.
//!
//! It books on the page that it is handed: whether a charge stays where the request fails afterwards is the page's.
//!
//! | directive | what happens |
//! |---|---|
//! | `slow=MS` | the bank takes that many milliseconds, then goes on |
//! | `declined` | 422, nothing booked |
//! | `busy` | 429, nothing booked |
//! | `no-effect` | 502, nothing booked, and the handler knows it: the bank was never reached |
//! | `down` | 502, nothing booked, but the handler cannot know that |
//! | `charged-then-502` | booked, then 502: to the handler the same as `down` |
//! | `panic` | booked, then the handler panics |
//! | `abort` | booked, then the whole process is gone |
//! | `big=BYTES` | booked, and the answer is padded to that size |
//! | `stream` | booked, and the answer is marked as a stream |
//!
//! Several are separated by commas: `slow=2000, big=10000`.

use core::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use idem_core::IdempotencyKey;

use crate::auth::Caller;
use crate::ledger::{Entry, Kind, NotEntered, Page};
use crate::payments::Order;
use crate::problem::Problem;

/// What the caller wants the bank to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directions {
    slow: Duration,
    ending: Option<Ending>,
    /// Size of the answer, in bytes.
    pub(crate) big: Option<usize>,
    /// The answer is a stream.
    pub(crate) stream: bool,
}

/// How a charge ends that does not simply succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Declined,
    Busy,
    NoEffect,
    Down,
    ChargedThen502,
    Panic,
    Abort,
}

/// Why there is no receipt, as far as a caller of the bank can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BankError {
    /// The bank says no.
    Declined,
    /// The bank did not look at it.
    Busy,
    /// The bank was never reached: nothing can have happened.
    NotReached,
    /// No answer came: the money has moved or it has not.
    NoAnswer,
    /// The bank could not open its books: nothing has happened, and a retry may find them open.
    Closed,
}

/// What to charge, and for whom.
pub(crate) struct Charge<'a> {
    pub(crate) kind: Kind,
    pub(crate) caller: &'a Caller,
    pub(crate) order: Option<&'a Order>,
    /// Which attempt this is, and the key that a real bank would know a second one by.
    pub(crate) attempt: Option<(u64, IdempotencyKey)>,
}

/// Has the bank charge, and gives the id of the charge.
pub(crate) async fn charge(charge: Charge<'_>, directions: &Directions, page: &mut Page) -> Result<String, BankError> {
    if !directions.slow.is_zero() {
        tokio::time::sleep(directions.slow).await;
    }
    match directions.ending {
        None => book(charge, page).await,
        Some(Ending::Declined) => Err(BankError::Declined),
        Some(Ending::Busy) => Err(BankError::Busy),
        Some(Ending::NoEffect) => Err(BankError::NotReached),
        Some(Ending::Down) => Err(BankError::NoAnswer),
        Some(Ending::ChargedThen502) => {
            book(charge, page).await?;
            Err(BankError::NoAnswer)
        }
        Some(Ending::Panic) => {
            book(charge, page).await?;
            #[expect(clippy::panic, reason = "it was asked for")]
            {
                panic!("the bank was told to panic after the charge");
            }
        }
        Some(Ending::Abort) => {
            book(charge, page).await?;
            std::process::abort();
        }
    }
}

async fn book(charge: Charge<'_>, page: &mut Page) -> Result<String, BankError> {
    let prefix = match charge.kind {
        Kind::Payment => "pay",
        Kind::Refund => "ref",
        Kind::Like => "like",
    };
    let random = getrandom::u64().expect("the operating system gives random bytes");
    let id = format!("{prefix}_{random:016x}");
    let (epoch, bank_key) = charge.attempt.unzip();
    let entry = Entry {
        id: id.clone(),
        kind: charge.kind,
        principal: charge.caller.name().to_owned(),
        amount: charge.order.map(|order| order.amount),
        currency: charge.order.map(|order| order.currency),
        epoch,
        bank_key: bank_key.map(|key| key.as_str().to_owned()),
    };
    page.enter(entry).await.map_err(|error| {
        tracing::warn!(%id, epoch, %error, "the bank could not book");
        match error {
            NotEntered::Certainly(_) => BankError::Closed,
            NotEntered::Perhaps(_) => BankError::NoAnswer,
        }
    })?;
    tracing::info!(%id, epoch, "the bank charged");
    Ok(id)
}

/// More than any demonstration needs.
const SLOWEST: Duration = Duration::from_secs(600);
const BIGGEST: usize = 64 << 20;

impl Directions {
    fn parse(headers: &HeaderMap) -> Result<Self, String> {
        let mut directions = Self::default();
        for value in headers.get_all("x-bank") {
            let text = value.to_str().map_err(|_| "X-Bank is not visible ASCII.".to_owned())?;
            for directive in text.split(',') {
                directions.take(directive.trim())?;
            }
        }
        if directions.ending.is_some() && (directions.big.is_some() || directions.stream) {
            return Err("X-Bank: `big` and `stream` shape the answer to a charge that succeeds.".to_owned());
        }
        Ok(directions)
    }

    fn take(&mut self, directive: &str) -> Result<(), String> {
        let (name, value) = match directive.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (directive, None),
        };
        let ending = match (name, value) {
            ("slow", Some(value)) => {
                let slow = value.parse().ok().map(Duration::from_millis).filter(|slow| *slow <= SLOWEST);
                self.slow = slow.ok_or_else(|| format!("X-Bank: `slow` takes 0 to {} ms.", SLOWEST.as_millis()))?;
                return Ok(());
            }
            ("big", Some(value)) => {
                let big = value.parse().ok().filter(|big| *big <= BIGGEST);
                self.big = Some(big.ok_or_else(|| format!("X-Bank: `big` takes 0 to {BIGGEST} bytes."))?);
                return Ok(());
            }
            ("stream", None) => {
                self.stream = true;
                return Ok(());
            }
            ("declined", None) => Ending::Declined,
            ("busy", None) => Ending::Busy,
            ("no-effect", None) => Ending::NoEffect,
            ("down", None) => Ending::Down,
            ("charged-then-502", None) => Ending::ChargedThen502,
            ("panic", None) => Ending::Panic,
            ("abort", None) => Ending::Abort,
            _ => {
                return Err("X-Bank takes slow=MS, declined, busy, no-effect, down, charged-then-502, panic, abort, \
                            big=BYTES and stream, separated by commas."
                    .to_owned());
            }
        };
        match self.ending.replace(ending) {
            None => Ok(()),
            Some(_) => Err("X-Bank: a charge ends in one way only.".to_owned()),
        }
    }
}

/// Reads the header. Stands outside the idempotency layer: a misspelt directive is a mistake of the experiment, not an
/// answer to the operation, and must not be stored as one.
pub(crate) async fn direct(mut request: Request, next: Next) -> Response {
    match Directions::parse(request.headers()) {
        Ok(directions) => {
            request.extensions_mut().insert(directions);
            next.run(request).await
        }
        Err(detail) => Problem::new(StatusCode::BAD_REQUEST, "unknown-directive", detail).into_response(),
    }
}

impl<S: Sync> FromRequestParts<S> for Directions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::internal)
    }
}
