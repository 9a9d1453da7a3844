//! Requests, and how they go through the driver.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use idem_core::{
    Answer, Begin, Event, Fingerprint, Idempotency, IdempotencyKey, Observer, OneTransaction, Policy, Principal,
    ProfileId, Record, Refusal, Route, ScopedKey, Settled, Settlement, State, Timer, TransactionAttempt,
    TransactionBegin, machine,
};
use tokio::time::Instant;

use crate::database::{Database, Transaction};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Longer than the lease.
pub(crate) const LEASE: Duration = Duration::from_secs(31);

pub(crate) fn key() -> ScopedKey {
    let (principal, route) = (Principal::new("alice").unwrap(), Route::new("/payments").unwrap());
    ScopedKey::new(principal, route, IdempotencyKey::parse("order-4711").unwrap())
}

pub(crate) fn request() -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(1), [7; 32])
}

pub(crate) fn other_request() -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(1), [8; 32])
}

pub(crate) fn value(text: &'static str) -> Answer {
    Answer::Value(Bytes::from_static(text.as_bytes()))
}

pub(crate) fn strict(database: &Database) -> OneTransaction<Database, impl Timer + use<>> {
    OneTransaction::new(database.clone(), tokio::time::sleep)
}

pub(crate) fn relaxed(database: &Database) -> OneTransaction<Database, impl Timer + use<>> {
    strict(database).policy(Policy::relaxed())
}

/// The other mode over the same records, as another process has it.
pub(crate) fn claims(database: &Database) -> Idempotency<impl Timer + use<>> {
    Idempotency::new(database.behind().clone(), tokio::time::sleep)
}

/// Settles the key, or leaves a claim on it, in the other mode.
pub(crate) async fn used_under_a_claim(database: &Database, request: &Fingerprint, settlement: Option<Settlement>) {
    let Begin::Run(attempt) = claims(database).begin(&key(), request).await.unwrap() else { panic!("vacant") };
    if let Some(settlement) = settlement {
        assert_eq!(attempt.settle(settlement).await, Settled::Done);
    }
}

pub(crate) async fn begin<T: Timer>(driver: &OneTransaction<Database, T>) -> TransactionBegin<Database, T> {
    driver.begin(&key(), &request()).await.unwrap()
}

/// Begins, and has to run.
pub(crate) async fn runs<T: Timer>(
    driver: &OneTransaction<Database, T>,
) -> (TransactionAttempt<Database, T>, Transaction) {
    match begin(driver).await {
        TransactionBegin::Run(attempt, tx) => (attempt, tx),
        other => panic!("the request has to run: {other:?}"),
    }
}

/// Begins, and has to run; pays this much in its transaction.
pub(crate) async fn pays<T: Timer>(
    driver: &OneTransaction<Database, T>,
    amount: &str,
) -> (TransactionAttempt<Database, T>, Transaction) {
    let (attempt, mut tx) = runs(driver).await;
    tx.write(amount);
    (attempt, tx)
}

/// What a request gets that must not run.
pub(crate) async fn gets<T: Timer>(driver: &OneTransaction<Database, T>, request: &Fingerprint) -> Given {
    match driver.begin(&key(), request).await.unwrap() {
        TransactionBegin::Replay(answer) => Given::Replay(answer),
        TransactionBegin::Refuse(refusal) => Given::Refuse(refusal),
        run @ TransactionBegin::Run(..) => panic!("the request must not run: {run:?}"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Replay(Answer),
    Refuse(Refusal),
}

/// In progress, for nobody knows how long.
pub(crate) fn in_progress() -> Given {
    Given::Refuse(machine::locked())
}

/// What is recorded of the key.
pub(crate) async fn state(database: &Database) -> Option<State> {
    record(database).await.map(|record| record.state)
}

pub(crate) async fn record(database: &Database) -> Option<Record> {
    database.record(&key()).await
}

/// A retry runs, pays and commits: whatever happened before, the ledger has this one entry.
pub(crate) async fn the_retry_runs_once(database: &Database) {
    let driver = strict(database);
    let (attempt, tx) = pays(&driver, "by the retry").await;
    assert_eq!(attempt.commit(tx, value("by the retry")).await.unwrap(), idem_core::Concluded::Done);
    assert_eq!(database.ledger(), ["by the retry"]);
    assert_eq!(gets(&driver, &request()).await, Given::Replay(value("by the retry")));
}

/// How long something took.
pub(crate) async fn timed<R>(what: impl Future<Output = R>) -> (R, Duration) {
    let start = Instant::now();
    (what.await, start.elapsed())
}

/// What the observer was told, in words.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<&'static str>>>);

impl Told {
    pub(crate) fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Told {
    fn observe(&self, _: &ScopedKey, event: &Event) {
        self.0.lock().unwrap().push(match event {
            Event::CommitUnknown(_) => "commit unknown",
            Event::NotRemembered(_) => "not remembered",
            _ => "something else",
        });
    }
}
