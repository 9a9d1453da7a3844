//! Idempotency keys without a framework.

mod fingerprint;

pub use fingerprint::{
    Comparison, Fingerprint, Fingerprinter, PointerRule, Profile, ProfileBuilder, ProfileError, ProfileId,
    RequestFingerprint, RequestIdentity, RequestParts,
};
