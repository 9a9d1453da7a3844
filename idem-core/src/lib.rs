//! Idempotency keys without a framework.

mod fingerprint;

pub use fingerprint::{Comparison, Fingerprint, ProfileId, RequestIdentity};
