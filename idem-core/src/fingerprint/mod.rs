//! What makes two requests the same request.
//!
//! A client that never saw the answer sends its request again, and not always byte for byte: a mobile client builds the
//! body anew, with its members in another order. A client with a mistake sends another request under the same key, and
//! must not get the answer to the first. The fingerprint tells the two apart: equal for every spelling of one request,
//! different for every other.
//!
//! # What is inside
//!
//! Method, path and query as they came; the media type without its parameters; the content coding; and the body, read as
//! its media type says. Every field is written behind its length, so that none runs into the next.
//!
//! | body | what counts |
//! |---|---|
//! | `application/json`, any `…/…+json` | the values. Numbers are exact decimals of any size, never rounded: `1`, `1.0` and `10e-1` are one number, `9007199254740993` and `9007199254740992` are two |
//! | `application/x-www-form-urlencoded` | the decoded pairs, in their order |
//! | `multipart/*` | headers and bytes of each part, in their order |
//! | anything else, and every body with a `Content-Encoding` | the bytes |
//!
//! # What is ignored
//!
//! In JSON: the order of members, white space between tokens, and how strings and numbers are spelled. Strings are
//! compared as they are, without Unicode normalisation, and `null` is not absent. In multipart: the boundary, what stands
//! before the first and after the last, and the case and order of header names. In a `Content-Type`: its parameters.
//! Beyond that a [`Profile`] ignores what it is told to, such as a client's clock or a trace id.
//!
//! # What falls back to its bytes
//!
//! A body that cannot be read in one way only counts byte by byte, marked as such: it never equals one that could be
//! read, and an honest retry of the same bytes still matches. That is JSON that is not RFC 8259 in UTF-8, or has a name
//! twice in one object (also in what is ignored), a lone surrogate, or more than 128 levels; a form with a broken escape;
//! and multipart that is not RFC 2046, with more than 32 headers on a part, or with two names for one part. Refusing
//! such bodies is for whoever parses them.
//!
//! # Changing a profile
//!
//! A record carries the [`ProfileId`] that it was written under, and a request is compared under that profile. So a
//! changed profile goes live together with the one before it, as [`Fingerprinter::previous`], which stays for one
//! retention: by then no record names it any more. Without it, a retry of a request from before the change cannot be
//! compared and is refused.
//!
//! # Keyed hashes
//!
//! A digest of a body with few possible values, such as a vote, can be guessed back by whoever reads the store.
//! [`ProfileBuilder::hmac`] hashes with a secret. Its key id is part of the profile, so rotating the secret is a change of
//! profile like any other.
//!
//! # Example
//!
//! ```
//! use idem_core::{Comparison, Fingerprinter, Profile, RequestIdentity, RequestParts};
//!
//! fn payment(body: &'static str) -> RequestParts<'static> {
//!     RequestParts::new("POST", "/payments", body).content_type(b"application/json".as_slice())
//! }
//!
//! let profile = Profile::builder().ignore(["/sent_at"]).build()?;
//! let fingerprinter = Fingerprinter::new(profile);
//! let recorded = fingerprinter.fingerprint(payment(r#"{"amount": 12.50, "to": "Zo\u00eb", "sent_at": 1}"#)).fingerprint();
//!
//! let retry = fingerprinter.fingerprint(payment(r#"{"sent_at":2,"to":"Zoë","amount":12.5}"#));
//! let mistake = fingerprinter.fingerprint(payment(r#"{"amount": 125.0, "to": "Zoë", "sent_at": 1}"#));
//!
//! assert_eq!(retry.compare(&recorded), Comparison::Same);
//! assert_eq!(mistake.compare(&recorded), Comparison::Differs);
//! # Ok::<(), idem_core::ProfileError>(())
//! ```

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
