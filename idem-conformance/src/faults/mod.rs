//! Stores that break one promise each, to show that the suite would notice.

mod answers;
mod bytes;
mod claims;
mod crowd;
mod list;
mod replacing;
mod scope;
mod server;
mod store;
mod sweeping;
mod times;

pub use list::Fault;
pub use store::BrokenStore;
