//! The published suite, over the memory store on a clock that is moved by hand.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{Damage, Halt, Harness, Outage, Pace, Stranded, WrongClock, async_trait};
use idem_core::{KeyStore, ScopedKey};
use idem_memory::{ManualClock, MemoryStore};

struct Memory {
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
}

#[async_trait]
impl Harness for Memory {
    async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
        Ok(Arc::new(self.store.clone()))
    }

    async fn elapse(&self, time: Duration) {
        self.clock.advance(time);
    }

    fn pace(&self) -> Pace {
        Pace::Manual
    }

    async fn alone(&self) -> Result<(), Halt> {
        Ok(())
    }

    async fn damage(&self, _: &ScopedKey, _: Damage) -> Result<(), Halt> {
        Err(Halt::skip("records are kept as values: there are no bytes to be damaged and no format to be unknown"))
    }

    async fn strand(&self, _: Outage) -> Result<Stranded, Halt> {
        Err(Halt::skip("the store is part of the process: there is no server that could be missing"))
    }

    async fn open_with_wrong_clock(&self, _: WrongClock) -> Result<Arc<dyn KeyStore>, Halt> {
        Err(Halt::skip("store and application are one process and have one clock: there is no second one to be wrong"))
    }
}

fn main() -> ExitCode {
    idem_conformance::main(|| async {
        let clock = ManualClock::new();
        Ok(Memory { store: MemoryStore::with_clock(clock.clone()), clock })
    })
}
