//! Idempotency keys in Postgres.
