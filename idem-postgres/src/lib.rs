//! Idempotency keys in Postgres.

mod claim;
mod config;
mod error;
mod group;
mod probe;
mod queries;
mod replace;
mod row;
mod session;
mod store;
mod transaction;
mod writer;

pub use config::PostgresConfig;
pub use probe::Unfit;
pub use sqlx;
pub use store::PostgresStore;
pub use transaction::{InTransaction, Locked};
