//! What operators count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::{Answer, Policy, Settlement, StoreErrorKind};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use crate::store::{paying, robbed};
use crate::support::{App, Broken, Fault, Order, charged, payment, request, status};

/// Adds everything up by name and labels.
#[derive(Clone, Default)]
pub(crate) struct Totals(Arc<Mutex<BTreeMap<String, f64>>>);

struct Cell(Totals, String);

impl Cell {
    fn add(&self, value: f64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.add(value);
        // The gauge is back at zero when all is over; this remembers that it was not.
        Cell(self.0.clone(), format!("{} seen", self.1)).add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {}
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        assert!((0.0..10.0).contains(&value), "{value} s");
        self.add(1.0);
    }
}

impl Totals {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Cell(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    pub(crate) fn take(&self) -> BTreeMap<String, f64> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Recorder for Totals {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

/// Outcomes that were counted, by name.
pub(crate) fn outcomes(totals: &Totals) -> Vec<(String, f64)> {
    let prefix = "idempotency_requests_total{route=payments,outcome=";
    let totals = totals.take().into_iter();
    totals.filter_map(|(name, n)| Some((name.strip_prefix(prefix)?.trim_end_matches('}').to_owned(), n))).collect()
}

#[tokio::test(start_paused = true)]
async fn every_request_is_counted_once_by_route_and_outcome() {
    let totals = Totals::default();
    let _recording = metrics::set_default_local_recorder(&totals);
    let one = |outcome: &str| vec![(outcome.to_owned(), 1.0)];

    let app = App::charging();
    app.pay().await;
    assert_eq!(outcomes(&totals), one("completed"));
    app.pay().await;
    assert_eq!(outcomes(&totals), one("replayed"));
    app.send(request("other")).await;
    assert_eq!(outcomes(&totals), one("key-reused"));
    let mut without_key = payment();
    without_key.headers_mut().remove("idempotency-key");
    app.send(without_key).await;
    assert_eq!(outcomes(&totals), one("missing-key"));

    App::answering(|| status(429)).pay().await;
    assert_eq!(outcomes(&totals), one("released"));
    App::answering(|| status(500)).pay().await;
    assert_eq!(outcomes(&totals), one("failed"));
    App::charging().set(|layer| layer.max_response(0)).pay().await;
    assert_eq!(outcomes(&totals), one("completed-not-kept"));
    assert!(App::new(async |_| Err(Broken)).try_send(payment()).await.is_err());
    assert_eq!(outcomes(&totals), one("failed"));
    let panicking = App::new(async |_| panic!("a handler panics"));
    assert!(tokio::spawn(async move { panicking.pay().await }).await.is_err());
    assert_eq!(outcomes(&totals), one("panicked"));

    let down = App::charging();
    down.store.set_down(Some(Fault::Refused(StoreErrorKind::Unavailable)));
    down.pay().await;
    assert_eq!(outcomes(&totals), one("store-unavailable"));
    down.set(|layer| layer.policy(Policy::relaxed())).pay().await;
    assert_eq!(outcomes(&totals), one("unprotected"));
}

#[tokio::test(start_paused = true)]
async fn store_calls_attempts_and_retried_completions_are_measured() {
    let totals = Totals::default();
    let _recording = metrics::set_default_local_recorder(&totals);
    let app = App::charging();
    app.store.next_replace([Fault::Refused(StoreErrorKind::Unavailable)]);
    app.pay().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let totals = totals.take();
    for (name, total) in [
        ("idempotency_store_seconds{operation=insert}", 1.0),
        ("idempotency_store_seconds{operation=replace}", 2.0),
        ("idempotency_completion_retries_total{}", 1.0),
        ("idempotency_in_flight{}", 0.0),
        ("idempotency_in_flight{} seen", 1.0),
    ] {
        assert_eq!(totals.get(name), Some(&total), "{name} in {totals:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_counted() {
    let totals = Totals::default();
    let _recording = metrics::set_default_local_recorder(&totals);
    let app = App::new(async |order: Order| {
        order.running().lost().await;
        Ok(charged(order.run))
    });
    app.store.next_replace(vec![Fault::Lost; 200]);
    app.pay().await;
    assert_eq!(totals.take().get("idempotency_lease_lost_total{}"), Some(&1.0));
}

#[tokio::test]
async fn an_attempt_whose_answer_is_anothers_is_counted_once_as_lease_lost() {
    let totals = Totals::default();
    let _recording = metrics::set_default_local_recorder(&totals);
    let theirs = Settlement::Completed(Answer::from(idem_core::Response { status: 202, ..Default::default() }));
    let app = robbed(Some(theirs), paying());
    app.pay().await;
    assert_eq!(outcomes(&totals), [("lease-lost".to_owned(), 1.0)]);
    app.pay().await;
    assert_eq!(outcomes(&totals), [("replayed".to_owned(), 1.0)]);
}
