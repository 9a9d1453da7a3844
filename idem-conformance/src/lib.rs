//! The suite that every [`KeyStore`](idem_core::KeyStore) must pass.
//!
//! A key store is the one part of idempotency that is allowed to be written by others, and a wrong answer from it is a
//! double charge. So its contract, ten promises long, is executable: one named case per situation, run against your
//! store over your server.
//!
//! # Using it
//!
//! Say how to open the store and how time passes for it, in a test target of your crate. `cargo test` and nextest
//! then show one test per case.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use idem_conformance::{Halt, Harness};
//! use idem_core::KeyStore;
//! # use idem_conformance::ReferenceStore as MyStore;
//! # trait Connect { async fn connect(url: &str) -> Result<MyStore, Halt>; }
//! # impl Connect for MyStore { async fn connect(_: &str) -> Result<MyStore, Halt> { Ok(MyStore::new()) } }
//!
//! struct MyHarness;
//!
//! #[idem_conformance::async_trait]
//! impl Harness for MyHarness {
//!     async fn open(&self) -> Result<Arc<dyn KeyStore>, Halt> {
//!         Ok(Arc::new(MyStore::connect("my://localhost").await?))
//!     }
//!
//!     async fn elapse(&self, time: Duration) {
//!         tokio::time::sleep(time).await;
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     idem_conformance::main(|| async { Ok(MyHarness) })
//! }
//! ```
//!
//! ```toml
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! Each case gets a harness, and keys, of its own; nothing is flushed, and all cases may share one server. A filter
//! picks cases by promise (`cargo test --test conformance promise_03`), by name, or leaves out those that wait for time
//! to pass (`-- --skip slow`). [`run_all`] does the same as a function and gives a [`Report`].
//!
//! # What a harness may add
//!
//! Some cases need a grip on the store that not every store has. A harness that does not offer it skips these cases:
//! they count as ignored, and each is named with the reason at the end of the run. **A skip is not a pass**; it is a
//! promise that nobody has tested.
//!
//! | method | needed by |
//! |---|---|
//! | [`Harness::damage`] | unreadable records and unknown versions, promises 7 and 10 |
//! | [`Harness::strand`] | a missing server, promise 8 |
//! | [`Harness::open_with_wrong_clock`] | an application whose clock is wrong, promise 4 |
//! | [`Harness::alone`] | counting what sweeps remove |
//!
//! A harness on a [manual clock](Pace::Manual) waits for nothing. On a real one, times whose *end* matters are as short
//! as [`Pace::Real`] says, times that must *not* end are minutes to days, and what passes is bounded by what was
//! measured: a slow machine makes a case take longer, not fail.
//!
//! # How exact
//!
//! Times are held to within 5 ms: the contract asks for a millisecond, and the machine may be slow to read its clock. A
//! store that rounds to seconds is most of a second off.
//!
//! # Does it notice?
//!
//! [`BrokenStore`] is the [`ReferenceStore`] with one [`Fault`], each of them a mistake that a backend can make. The
//! crate's own tests hold that the reference passes every case, that each broken store fails the cases that are listed
//! for its fault, and that no case is without a fault that only a working case can notice.
//!
//! # What it does not test
//!
//! Durability across a crash of the server, failover, cut connections, and what a server does that evicts records:
//! these need a server that can be killed, not a trait. A fault that shows once in a million races may not show in the
//! hundreds that are run here.

mod case;
mod cases;
mod expect;
mod faults;
mod halt;
mod harness;
mod promise;
mod reference;
mod report;
mod runner;
mod scene;

/// What a [`Harness`] is written with; here so that a harness needs no dependency of its own.
#[doc(no_inline)]
pub use async_trait::async_trait;
pub use case::Case;
pub use cases::cases;
pub use faults::{BrokenStore, Fault};
pub use halt::Halt;
pub use harness::{Damage, Harness, MakeHarness, Outage, Pace, Stranded, WrongClock};
pub use promise::Promise;
pub use reference::ReferenceStore;
pub use report::{CaseResult, Report};
pub use runner::{main, run_all, run_those};
