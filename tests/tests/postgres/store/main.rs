//! What the published suite cannot see of the store over Postgres: how it meets its server, and strangers there.
#![expect(clippy::panic, clippy::unwrap_used, reason = "that is how a test fails")]

mod groups;
mod hot;
mod migrations;
mod outage;
mod plans;
mod pooler;
mod probe;
mod scene;
mod strangers;
mod sweeps;
