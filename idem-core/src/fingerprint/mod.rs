//! What makes two requests the same request.

mod body;
mod encode;
mod form;
mod json;
mod keyed;
mod media;
mod members;
mod multipart;
mod operation;
mod pointer;
mod profile;
mod request;

use core::fmt;

pub use pointer::PointerRule;
pub use profile::{Profile, ProfileBuilder, ProfileError};
pub use request::{Fingerprinter, RequestFingerprint, RequestParts};

/// Names how a digest was made: algorithm version, member selection, HMAC key id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProfileId(u64);

impl ProfileId {
    /// Takes the 64 bits as a store has kept them.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Gives the 64 bits for a store to keep.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ProfileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileId({:016x})", self.0)
    }
}

/// The profile and the SHA-256 digest of one request.
///
/// Two fingerprints say something about each other only under one profile; see [`RequestIdentity::compare`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    profile: ProfileId,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Puts together what a store has kept.
    #[must_use]
    pub const fn from_parts(profile: ProfileId, digest: [u8; 32]) -> Self {
        Self { profile, digest }
    }

    /// The profile that the digest was made under.
    #[must_use]
    pub const fn profile(&self) -> ProfileId {
        self.profile
    }

    /// The SHA-256 digest.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:016x}:", self.profile.0)?;
        for byte in &self.digest[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…)")
    }
}

/// What the comparison of a request with a recorded fingerprint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same request.
    Same,
    /// Another request.
    Differs,
    /// The record was written under a profile that is not configured here: nothing can be said.
    UnknownProfile,
}

/// A request that knows its fingerprint, and can be held against one that was recorded earlier.
///
/// `compare` exists beside `fingerprint` because a record may have been written under a previous profile: a request
/// then computes its digest under *that* profile, so that a deploy that changes the profile refuses no honest retry.
pub trait RequestIdentity: Send + Sync {
    /// The fingerprint under the current profile, as a new claim records it.
    fn fingerprint(&self) -> Fingerprint;

    /// Holds the request against a recorded fingerprint, under the profile that the record names.
    fn compare(&self, recorded: &Fingerprint) -> Comparison;
}

/// A bare fingerprint knows its own profile only.
impl RequestIdentity for Fingerprint {
    fn fingerprint(&self) -> Fingerprint {
        *self
    }

    fn compare(&self, recorded: &Fingerprint) -> Comparison {
        if self.profile != recorded.profile {
            Comparison::UnknownProfile
        } else if same_digest(&self.digest, &recorded.digest) {
            Comparison::Same
        } else {
            Comparison::Differs
        }
    }
}

/// Looks at every byte, wherever the first difference is: under an HMAC profile, how long a comparison takes must not
/// help to guess a digest.
fn same_digest(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
