//! Idempotency records in the memory of one process.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! use idem_core::{Fingerprint, Handled, Idempotency, IdempotencyKey, Outcome, Principal, Route, ScopedKey};
//! use idem_memory::MemoryStore;
//!
//! let idem = Idempotency::new(MemoryStore::default(), tokio::time::sleep);
//! let key = IdempotencyKey::parse("8e03978e-40d5-43dd-bc93-6894a57f9324")?;
//! let key = ScopedKey::new(Principal::new("alice")?, Route::new("/payments")?, key);
//! let request = Fingerprint::json("POST /payments", br#"{"amount":"100.00"}"#);
//!
//! let mut charged = 0;
//! let first = idem.run(&key, &request, async |_| {
//!     charged += 1;
//!     Handled::<_, String>::Complete("receipt 1".to_owned())
//! });
//! assert_eq!(first.await?, Outcome::Completed("receipt 1".to_owned()));
//! let retry = idem.run(&key, &request, async |_| {
//!     charged += 1;
//!     Handled::<_, String>::Complete("receipt 2".to_owned())
//! });
//! assert_eq!(retry.await?, Outcome::Replayed("receipt 1".to_owned()));
//! assert_eq!(charged, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not promise
//!
//! - **One process only.** A second instance of the service has records of its own, and a retry that reaches it runs
//!   again. Two replicas behind a load balancer need a shared store.
//! - **Gone with the process.** A restart, a crash or a deploy forgets every claim and every answer; a retry after it
//!   runs again. *Durable* means here: until the process ends.
//!
//! It is for tests, for a tool that is one process by design, and for operations whose repetition after a restart is
//! harmless.
//!
//! # Bounds
//!
//! [`Limits`] bound the number of records and the bytes that they take; the default is one million records and
//! 256 MiB. **Nothing that is alive is ever dropped to make room**: a full store refuses *new* keys, with an error of
//! kind [`Full`](idem_core::StoreErrorKind::Full) whose source is a [`StoreFull`], and goes on to replay, renew, take
//! over and settle the keys that it has. An insert that finds the store full first removes expired records, a bounded
//! number of them; then it is refused.
//!
//! - *Records*: never more than [`Limits::entries`], however many threads insert at once.
//! - *Bytes*: no insert takes the count past [`Limits::bytes`]. Settling a claim may: its answer is kept, whatever its
//!   size. So the count never passes the limit by more than the answers that were written since the last insert was
//!   done: one for each claim that was in flight then or was taken over since. New keys are refused until expiry has
//!   brought the count back.
//!
//! For each record the count has its key texts, its answer (every header's name, value and bookkeeping, and the body)
//! and [`ENTRY_BYTES`] for all the rest. It is a count, not a reading of the allocator: a text shared between keys
//! counts once for each key, and a body that is a slice of a larger buffer counts with its own length only.
//!
//! # Time
//!
//! Expired records are absent to every call, swept or not. [`sweep`](idem_core::KeyStore::sweep) gives their memory
//! back; call it every now and then, or leave it to the inserts of a full store. Tests pass a [`ManualClock`] to
//! [`MemoryStore::with_clock`] and move it:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # use idem_core::{Epoch, Fingerprint, IdempotencyKey, NewRecord, Principal, Route, ScopedKey, Token};
//! use std::time::Duration;
//!
//! use idem_core::KeyStore;
//! use idem_memory::{ManualClock, MemoryStore};
//!
//! # let key = ScopedKey::new(Principal::shared(), Route::new("ship")?, IdempotencyKey::parse("order-4711")?);
//! # let (lease, retention) = (Duration::from_secs(30), Duration::from_secs(3600));
//! # let fingerprint = Fingerprint::json("ship", b"{}");
//! # let claim = NewRecord::claim(fingerprint, Token::from_bytes([1; 16]), Epoch::FIRST, lease, retention);
//! let clock = ManualClock::new();
//! let store = MemoryStore::with_clock(clock.clone());
//! store.insert(&key, &claim).await?; // kept for an hour
//!
//! clock.advance(Duration::from_secs(3599));
//! assert!(store.find(&key).await?.is_some());
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(store.find(&key).await?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod config;
mod expiry;
mod row;
mod shard;
mod store;
mod usage;

pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{ENTRY_BYTES, Limits, LimitsError, StoreFull};
pub use store::MemoryStore;
