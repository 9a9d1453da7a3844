//! Every statement that the store sends, each a constant of its own.

pub(crate) const CLAIM: &str = include_str!("../queries/claim.sql");
pub(crate) const CLAIM_MANY: &str = include_str!("../queries/claim_many.sql");
pub(crate) const FIND: &str = include_str!("../queries/find.sql");
pub(crate) const INSERT: &str = include_str!("../queries/insert.sql");
pub(crate) const LOCK_AND_FIND: &str = include_str!("../queries/lock_and_find.sql");
pub(crate) const PROBE: &str = include_str!("../queries/probe.sql");
pub(crate) const REPLACE: &str = include_str!("../queries/replace.sql");
pub(crate) const REPLACE_MANY: &str = include_str!("../queries/replace_many.sql");
pub(crate) const STATS: &str = include_str!("../queries/stats.sql");
pub(crate) const SWEEP: &str = include_str!("../queries/sweep.sql");
