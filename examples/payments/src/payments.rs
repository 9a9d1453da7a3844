//! The handlers.

use core::fmt;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use idem_tower::{Running, Streamed};
use serde::{Deserialize, Serialize};

use crate::auth::Caller;
use crate::bank::{self, BankError, Charge, Directions};
use crate::ledger::{Failure, Kind, Ledger, Page};
use crate::problem::Problem;

/// `POST /payments`
pub(crate) async fn pay(
    caller: Caller,
    directions: Directions,
    running: Running,
    page: Page,
    order: Order,
) -> Result<Response, Problem> {
    charge(Kind::Payment, "/payments", &caller, &directions, &running, page, &order).await
}

/// `POST /refunds`
pub(crate) async fn refund(
    caller: Caller,
    directions: Directions,
    running: Running,
    page: Page,
    order: Order,
) -> Result<Response, Problem> {
    charge(Kind::Refund, "/refunds", &caller, &directions, &running, page, &order).await
}

async fn charge(
    kind: Kind,
    collection: &str,
    caller: &Caller,
    directions: &Directions,
    running: &Running,
    mut page: Page,
    order: &Order,
) -> Result<Response, Problem> {
    // The same key on every attempt: a bank that looks at it charges once, even if this handler should run twice.
    let attempt = Some((running.epoch().number(), running.derive_key("charge-card")));
    let charged = bank::charge(Charge { kind, caller, order: Some(order), attempt }, directions, &mut page).await;
    let id = charged.map_err(|error| failed(error, Some(running), &page))?;
    let location = [(header::LOCATION, format!("{collection}/{id}"))];
    let receipt = Receipt { amount: Some(order.amount), currency: Some(order.currency), ..Receipt::of(id) };
    Ok((StatusCode::CREATED, location, answer(receipt, directions)).into_response())
}

/// `POST /likes/{post}`: with a key it counts once, without one as often as it comes. Worth a lease, and no open
/// transaction.
pub(crate) async fn like(
    State(ledger): State<Ledger>,
    Path(post): Path<String>,
    caller: Caller,
    directions: Directions,
    running: Option<Running>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    body.map_err(|rejection| unreadable(rejection.status(), rejection.body_text()))?;
    let running = running.as_ref();
    let attempt = running.map(|running| (running.epoch().number(), running.derive_key("like")));
    let charge = Charge { kind: Kind::Like, caller: &caller, order: None, attempt };
    let mut page = ledger.page();
    let charged = bank::charge(charge, &directions, &mut page).await;
    let id = charged.map_err(|error| failed(error, running, &page))?;
    Ok((StatusCode::CREATED, answer(Receipt { post: Some(post), ..Receipt::of(id) }, &directions)).into_response())
}

/// `GET /payments/{id}` and `GET /refunds/{id}`: what the `Location` of an answer leads to.
pub(crate) async fn receipt(
    State(ledger): State<Ledger>,
    Path(id): Path<String>,
    caller: Caller,
) -> Result<Json<Receipt>, Problem> {
    let entry = ledger.entry(&id, caller.name()).await.map_err(closed)?;
    let entry = entry.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "not-found", "You made no such charge."))?;
    Ok(Json(Receipt { amount: entry.amount, currency: entry.currency, ..Receipt::of(entry.id) }))
}

/// `GET /ledger`: the bank's own view, of every caller. A JSON array, one charge a line.
pub(crate) async fn ledger(State(ledger): State<Ledger>) -> Result<Response, Problem> {
    let charges = ledger.entries().await.map_err(closed)?.iter().map(to_json).collect::<Vec<_>>();
    let array = format!("[{}]", charges.join(",\n "));
    Ok(([(header::CONTENT_TYPE, "application/json")], array).into_response())
}

/// Whoever only looks may look again.
fn closed(failure: Failure) -> Problem {
    tracing::warn!(%failure, "the ledger cannot be read");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ledger-closed", "The ledger cannot be read right now.")
        .retry_after(1)
}

/// What a failure of the bank means for the key is said by the status, except where the handler knows better.
fn failed(error: BankError, running: Option<&Running>, page: &Page) -> Problem {
    match error {
        BankError::Declined => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "declined", "The bank declined. Nothing was charged.")
        }
        BankError::Busy => {
            let detail = "The bank takes no charges right now. Nothing was charged; retry with the same key.";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "bank-busy", detail).retry_after(1)
        }
        BankError::NotReached => {
            if let Some(running) = running {
                running.fail_without_effect();
            }
            Problem::new(StatusCode::BAD_GATEWAY, "bank-not-reached", "The bank was not reached. Nothing was charged.")
        }
        BankError::NoAnswer => {
            let detail = if page.is_undone_by_a_failure() {
                "The bank gave no answer, and whatever it has booked is undone. Nothing was charged; retry with the \
                 same key."
            } else {
                "The bank gave no answer. The charge may or may not have been made."
            };
            Problem::new(StatusCode::BAD_GATEWAY, "bank-gave-no-answer", detail)
        }
        BankError::Closed => {
            if let Some(running) = running {
                running.release();
            }
            let detail = "The bank could not open its books. Nothing was charged; retry with the same key.";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "bank-closed", detail).retry_after(1)
        }
    }
}

/// What the caller gets for a charge.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Receipt {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<Currency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    post: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding: Option<String>,
}

impl Receipt {
    fn of(id: String) -> Self {
        Self { id, ..Self::default() }
    }
}

fn to_json(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("plain data, and members that are named by text")
}

/// A receipt, padded or streamed as the directions say.
fn answer(mut receipt: Receipt, directions: &Directions) -> Response {
    if let Some(size) = directions.big {
        receipt.padding = Some(String::new());
        let missing = size.saturating_sub(to_json(&receipt).len());
        receipt.padding = Some("x".repeat(missing));
    }
    if !directions.stream {
        return Json(receipt).into_response();
    }
    let bytes = Bytes::from(to_json(&receipt));
    let middle = bytes.len() / 2;
    let chunks = [bytes.slice(..middle), bytes.slice(middle..)];
    let body = Body::from_stream(stream::iter(chunks).map(Ok::<_, core::convert::Infallible>));
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    // Marks the response for the layer: forward as it comes, keep nothing.
    response.extensions_mut().insert(Streamed);
    response
}

/// What is to be paid. Members that are not known here are left alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Order {
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
}

impl<S: Send + Sync> FromRequest<S> for Order {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match Json::<Self>::from_request(request, state).await {
            Ok(Json(order)) => Ok(order),
            Err(JsonRejection::JsonDataError(error)) => {
                Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-payment", error.body_text()))
            }
            Err(rejection) => Err(unreadable(rejection.status(), rejection.body_text())),
        }
    }
}

fn unreadable(status: StatusCode, detail: String) -> Problem {
    let slug = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "body-too-large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "json-expected",
        _ => "malformed-body",
    };
    Problem::new(status, slug, detail)
}

/// A positive amount of at most twelve digits before the point, and two after it. Money is never a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Amount {
    hundredths: u64,
}

const NO_AMOUNT: &str = "amount must be a positive decimal string such as \"100.00\", \
                         with at most 12 digits before the point and 2 after it";

impl TryFrom<String> for Amount {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(whole, rest)| (whole, Some(rest)));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, 12) || fraction.is_some_and(|fraction| !digits(fraction, 2)) {
            return Err(NO_AMOUNT);
        }
        // At most 14 digits: far inside a u64.
        let hundredths = format!("{whole}{:0<2}", fraction.unwrap_or_default()).parse().map_err(|_| NO_AMOUNT)?;
        if hundredths == 0 { Err(NO_AMOUNT) } else { Ok(Self { hundredths }) }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.hundredths / 100, self.hundredths % 100)
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

/// Three upper-case letters, as in ISO 4217. Whether there is such a currency is for the bank to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Currency([u8; 3]);

impl TryFrom<String> for Currency {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let letters =
            text.as_bytes().try_into().ok().filter(|letters: &[u8; 3]| letters.iter().all(u8::is_ascii_uppercase));
        letters.map(Self).ok_or("currency must be three upper-case letters such as \"RUB\"")
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&letter| write!(f, "{}", char::from(letter)))
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_positive_and_bounded() {
        for (text, shown) in [
            ("100.00", "100.00"),
            ("0.01", "0.01"),
            ("7", "7.00"),
            ("7.5", "7.50"),
            ("007", "7.00"),
            ("999999999999.99", "999999999999.99"),
        ] {
            assert_eq!(
                Amount::try_from(text.to_owned()).map(|amount| amount.to_string()),
                Ok(shown.to_owned()),
                "{text}"
            );
        }
        let long = "1".repeat(13);
        for text in ["", "0", "0.00", "-1", "+1", "1.", ".5", "1.005", "1e2", "1,00", " 1", "١", "NaN", "1.1.1", &long]
        {
            assert_eq!(Amount::try_from(text.to_owned()), Err(NO_AMOUNT), "{text}");
        }
    }

    #[test]
    fn currencies_are_three_upper_case_letters() {
        assert_eq!(Currency::try_from("RUB".to_owned()).map(|currency| currency.to_string()), Ok("RUB".to_owned()));
        for text in ["", "RU", "RUBL", "rub", "R1B", "RÜ"] {
            assert!(Currency::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
