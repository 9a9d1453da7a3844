//! The reference store on a clock that nobody moves.

use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{
    Damage, Halt, Harness, Outage, Pace, ReferenceStore, Stranded, WrongClock, async_trait, cases, run_those,
};
use idem_core::{KeyStore, ScopedKey};

/// The reference store in real time, with times as long as a machine needs.
struct RealTime {
    store: ReferenceStore,
    unit: Duration,
}

#[async_trait]
impl Harness for RealTime {
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
        self.store.open().await
    }

    async fn elapse(&self, time: Duration) {
        self.store.elapse(time).await;
    }

    fn pace(&self) -> Pace {
        Pace::Real { unit: self.unit }
    }

    async fn damage(&self, key: &ScopedKey, damage: Damage) -> Result<(), Halt> {
        Harness::damage(&self.store, key, damage).await
    }

    async fn strand(&self, outage: Outage) -> Result<Stranded, Halt> {
        self.store.strand(outage).await
    }

    async fn open_with_wrong_clock(&self, wrong: WrongClock) -> Result<Arc<dyn KeyStore>, Halt> {
        self.store.open_with_wrong_clock(wrong).await
    }

    async fn alone(&self) -> Result<(), Halt> {
        self.store.alone().await
    }
}

/// A case may say that the machine was too slow to tell; then it is asked again, with longer times, until it tells.
#[test]
fn the_reference_store_passes_every_case_in_real_time_and_skips_none() {
    let mut left: Vec<_> = cases().iter().map(|case| case.name()).collect();
    for unit in [40, 200, 1_000].map(Duration::from_millis) {
        let make = move || async move { Ok(RealTime { store: ReferenceStore::real_time(), unit }) };
        let report = crate::block_on(run_those(make, |case| left.contains(&case.name())));
        assert_eq!(report.results().len(), left.len());
        assert_eq!(report.failed().count(), 0, "{report}");
        assert!(report.skipped().all(|(_, reason)| reason.contains("too slow to tell")), "{report}");
        left = report.skipped().map(|(case, _)| case.name()).collect();
        if left.is_empty() {
            return;
        }
        println!("again, with times five times as long: {left:?}");
    }
    panic!("however long the times, these cannot tell: {left:?}");
}
