//! The driver, over a store that fails on request. Time is tokio's, paused: no test waits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod cancel;
mod claim;
mod joined;
mod operator;
mod owed;
mod renew;
mod run;
mod settle;
mod support;
mod wait;
