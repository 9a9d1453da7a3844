use std::hash::{BuildHasher, RandomState};

/// A number that no other call in any process gets, but for a chance of 2^-64.
pub(super) fn unlike_any_other() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
