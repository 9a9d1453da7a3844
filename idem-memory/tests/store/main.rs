//! The memory store against the promises of `KeyStore`, on a clock that the tests move.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod expiry;
mod forwarders;
mod full;
mod model;
mod races;
mod scene;
mod sweep;
mod writes;
