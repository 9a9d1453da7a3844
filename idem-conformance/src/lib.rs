//! The suite that every key store must pass.
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

pub use case::Case;
pub use cases::cases;
pub use faults::{BrokenStore, Fault};
pub use halt::Halt;
pub use harness::{Damage, Harness, MakeHarness, Outage, Pace, Stranded, WrongClock};
pub use promise::Promise;
pub use reference::ReferenceStore;
pub use report::{CaseResult, Report};
pub use runner::{main, run_all, run_those};
