//! Idempotency keys without a framework.
//!
//! A `POST` times out, the client sends it again, and the money moves twice. With this crate the server remembers
//! *(principal, route, key)* together with a fingerprint of the request, runs the operation once, and answers every
//! retry with the same bytes.
//!
//! ```
//! # use idem_memory::MemoryStore;
//! use idem_core::{Fingerprint, Handled, IdempotencyKey, Idempotency, Outcome, Principal, Route, ScopedKey};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let idem = Idempotency::new(MemoryStore::default(), tokio::time::sleep);
//!
//! let key = IdempotencyKey::parse("8e03978e-40d5-43dd-bc93-6894a57f9324")?;
//! let key = ScopedKey::new(Principal::new("alice")?, Route::new("/payments")?, key);
//! let pay = async |body: &[u8]| {
//!     let request = Fingerprint::json("POST /payments", body);
//!     idem.run(&key, &request, async |_| Handled::<_, String>::Complete("paid".to_owned())).await
//! };
//!
//! assert_eq!(pay(br#"{"amount":"100.00"}"#).await?, Outcome::Completed("paid".to_owned()));
//! // The retry, spelled differently by another JSON encoder, is the same request.
//! assert_eq!(pay(br#"{ "amount": "100.00" }"#).await?, Outcome::Replayed("paid".to_owned()));
//! // Another amount under the same key is not.
//! assert!(matches!(pay(br#"{"amount":"900.00"}"#).await?, Outcome::Refused(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The rooms
//!
//! | module | what is decided there |
//! |---|---|
//! | [`key`], [`scope`] | whose key it is, and for which operation: parsed once, cannot be invalid afterwards |
//! | [`fingerprint`] | what makes two requests the same request |
//! | [`machine`] | the protocol, as a pure table: what is found and what is asked decide what happens |
//! | [`store`], [`transaction`] | what a backend promises: one conditional write at a time |
//! | [`record`], [`wire`] | what is kept, and its versioned bytes |
//! | [`policy`] | the choices that the protocol leaves |
//! | [`driver`] | carries decisions out: claims, renews, settles, with every wait bounded |
//! | [`refusal`], [`problem`] | why a request was not run, as a value and as problem details (RFC 9457) |
//!
//! # What it is not for
//!
//! Duplicates that a person made with two different keys; consistency between several services; the final status of
//! an operation that was only accepted; a key that comes back after its retention, which is a new request.
//!
//! # Purity
//!
//! The crate has no runtime, no clock, and reads no environment: time, randomness and policy are arguments.

mod answer;
pub mod driver;
mod error;
pub mod fingerprint;
mod hex;
pub mod key;
pub mod machine;
pub mod policy;
pub mod problem;
pub mod record;
pub mod refusal;
pub mod scope;
pub mod store;
mod token;
pub mod transaction;
pub mod wire;

pub use answer::{Answer, Header, Response};
pub use driver::{
    Attempt, Begin, Concluded, Directive, Event, Handled, Idempotency, Joined, Look, Observer, OneTransaction, Outcome,
    Resolved, Running, Settled, Task, Timer, TransactionAttempt, TransactionBegin,
};
pub use error::{Certainty, StoreError, StoreErrorKind};
pub use fingerprint::{
    Comparison, Fingerprint, Fingerprinter, PointerRule, Profile, ProfileBuilder, ProfileError, ProfileId,
    RequestFingerprint, RequestIdentity, RequestParts,
};
pub use key::{IdempotencyKey, KeyError, KeyFormat, KeyFormatError};
pub use machine::InPlaceOfMine;
pub use policy::{Abandoned, AfterFailure, KeyPresence, Policy, PolicyBuilder, PolicyError, StoreDown};
pub use problem::Problem;
pub use record::{Change, Content, Found, Guard, NewRecord, Record, Settlement, State, Unreadable};
pub use refusal::Refusal;
pub use scope::{Principal, Route, ScopeError, ScopedKey};
pub use store::{Inserted, KeyStore, Replaced, StoreStats, Swept};
pub use token::{Epoch, OsTokens, Revision, Token, TokenError, TokenSource};
pub use transaction::{Committed, Opened, TransactionalStore};

use hex::hex;
