//! Business writes and key in one transaction, and the joined form: one test for each row of the matrix in the docs of
//! `idem-postgres`. Each looks at the record, at the business table, and at what the client and its retry see.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod joined;
mod mixed;
mod one_transaction;
mod proxy;
mod scene;
