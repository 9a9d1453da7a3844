//! The one-transaction mode: a shop that writes into the ledger of a database, which holds the records too.

mod at_once;
mod lend;
mod lost;
mod operation;
mod rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use idem_core::{Answer, Begin, Idempotency, Record, RequestIdentity, Route, Settlement, State};
use idem_tower::{IdempotencyLayer, IdempotencyService, Tx, fixed_route};
use tokio::task::JoinHandle;
use tower::{Layer, ServiceExt};

use crate::database::{Database, Op, Transaction};
use crate::support::{
    Broken, Held, Order, Seen, Shop, Steps, caller, charged, first_charge, key, payment, see, status,
};

/// A layer in the one-transaction mode around a shop, and the database beneath both.
#[derive(Clone)]
struct Bank {
    shop: Shop,
    service: IdempotencyService<Shop>,
    layer: IdempotencyLayer,
    database: Database,
    runs: Arc<AtomicUsize>,
}

impl Bank {
    fn new<A>(handler: impl Fn(Order) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Result<Response<Steps>, Broken>> + Send + 'static,
    {
        Self::over(Database::new(), handler)
    }

    fn over<A>(database: Database, handler: impl Fn(Order) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Result<Response<Steps>, Broken>> + Send + 'static,
    {
        let route = fixed_route(Route::new("payments").unwrap());
        let layer = IdempotencyLayer::one_transaction(database.clone(), caller, route);
        let (shop, runs) = Shop::new(handler);
        Self { service: layer.layer(shop.clone()), shop, layer, database, runs }
    }

    /// Writes "charge 1" in its transaction, and answers like this.
    fn answering(response: impl Fn() -> Response<Steps> + Send + Sync + 'static) -> Self {
        Self::new(move |order| {
            charge(&order);
            std::future::ready(Ok(response()))
        })
    }

    /// Writes "charge 1" in its transaction, and answers 201.
    fn charging() -> Self {
        Self::new(|order| {
            charge(&order);
            std::future::ready(Ok(charged(order.run)))
        })
    }

    /// A first run that says that it runs, and goes on once it is let. Later runs are quick.
    fn slow_first(database: Database) -> (Self, Arc<Held>) {
        let held = Arc::new(Held::default());
        let in_handler = Arc::clone(&held);
        let bank = Self::over(database, move |order: Order| {
            let held = Arc::clone(&in_handler);
            async move {
                let mut tx = take(&order);
                tx.write(format!("charge {}", order.run));
                if order.run == 1 {
                    held.begun.notify_one();
                    held.go_on.notified().await;
                }
                Ok(charged(order.run))
            }
        });
        (bank, held)
    }

    fn set(mut self, change: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Self {
        self.layer = change(self.layer);
        self.service = self.layer.layer(self.shop.clone());
        self
    }

    async fn send(&self, request: Request<Steps>) -> Seen {
        self.try_send(request).await.unwrap()
    }

    async fn try_send(&self, request: Request<Steps>) -> Result<Seen, Broken> {
        Ok(see(self.service.clone().oneshot(request).await?).await)
    }

    async fn pay(&self) -> Seen {
        self.send(payment()).await
    }

    fn client(&self, request: Request<Steps>) -> JoinHandle<Seen> {
        let bank = self.clone();
        tokio::spawn(async move { bank.send(request).await })
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    async fn record(&self) -> Option<Record> {
        self.database.record(&key()).await
    }

    async fn state(&self) -> Option<State> {
        self.record().await.map(|record| record.state)
    }

    /// Nothing of the operation is there, nothing is open, and nothing is recorded.
    #[track_caller]
    fn has_nothing(&self) -> impl Future<Output = ()> {
        assert_eq!((self.database.ledger(), self.database.open_now()), (vec![], 0));
        async { assert_eq!(self.record().await, None) }
    }
}

/// Takes the key of the payment under a claim, and settles it or leaves it in progress.
async fn used_under_a_claim(database: &Database, settlement: Option<Settlement>) {
    let claims = Idempotency::new(database.behind().clone(), tokio::time::sleep);
    let request = identity();
    let Begin::Run(attempt) = claims.begin(&key(), &request).await.unwrap() else { panic!("the key is vacant") };
    if let Some(settlement) = settlement {
        assert_eq!(attempt.settle(settlement).await, idem_core::Settled::Done);
    }
}

/// What the layer compares the payment of these tests by.
fn identity() -> impl RequestIdentity {
    let parts = idem_core::RequestParts::new("POST", "/payments", r#"{"amount":"1.00"}"#)
        .content_type(Some(b"application/json".as_slice()));
    idem_core::Fingerprinter::default().fingerprint(parts)
}

fn their_answer() -> Settlement {
    let headers = vec![idem_core::Header { name: "location".into(), value: "/theirs".into() }];
    let response = idem_core::Response { status: 202, headers, body: "theirs".into(), ..Default::default() };
    Settlement::Completed(Answer::from(response))
}

fn theirs() -> Seen {
    crate::support::seen(202, &[("location", "/theirs")], "theirs").replayed()
}

fn take(order: &Order) -> Tx<Transaction> {
    Tx::take(&order.parts.extensions).unwrap()
}

/// Writes into the ledger, in the transaction of the order.
fn charge(order: &Order) {
    take(order).write(format!("charge {}", order.run));
}

fn with_key(key: &str) -> Request<Steps> {
    let mut request = payment();
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

/// Calls of the store, but for those that only look.
fn writes(bank: &Bank) -> Vec<Op> {
    bank.database.calls().into_iter().filter(|op| *op != Op::Find).collect()
}

#[tokio::test]
async fn a_retry_gets_the_same_answer_and_money_moved_once() {
    let bank = Bank::charging();
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!((writes(&bank), bank.database.ledger()), (vec![Op::Open, Op::Commit], vec!["charge 1".to_owned()]));
    assert_eq!(bank.pay().await, first_charge().replayed());
    assert_eq!((bank.runs(), bank.database.ledger()), (1, vec!["charge 1".to_owned()]));
    assert_eq!(bank.database.open_now(), 0);
    bank.send(crate::support::request("another order")).await.is_problem(422, "key-reused");
    assert_eq!(status(200).status(), 200);
}
