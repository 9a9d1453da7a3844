//! How the calls of a race find each other, so that a fault shows on an idle machine and on a loaded one.

use core::time::Duration;

use idem_core::{Revision, ScopedKey};

use super::BrokenStore;
use super::store::{Shared, lock};

/// The calls that are under way.
#[derive(Default)]
pub(super) struct Crowd {
    now: usize,
    /// As many as there have been at once since there was none.
    pub(super) most: usize,
    /// Inserts that were written since there was none, in the store that loses the others.
    pub(super) written: usize,
}

impl Crowd {
    /// Gives the number of calls that were there before.
    pub(super) fn enter(&mut self) -> usize {
        self.now += 1;
        self.most = self.most.max(self.now);
        self.now - 1
    }

    pub(super) fn leave(&mut self) {
        self.now -= 1;
        if self.now == 0 {
            *self = Self::default();
        }
    }
}

/// Turns that a call waits for others: counted, because a machine that stands still keeps both sides from going on.
const TOGETHER: usize = 1_000;
/// The same while no other call is under way, so that cases that race nothing are not held up.
const ALONE: usize = 250;

/// Lets others have theirs.
pub(super) async fn turn() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

impl Shared {
    /// Waits until the others are where the fault shows; gives up, and says so, where they do not come.
    pub(super) async fn until(&self, there: impl Fn() -> bool) -> bool {
        let mut turns = 0;
        while !there() {
            let patience = if lock(&self.crowd).now > 1 { TOGETHER } else { ALONE };
            if turns >= patience {
                return false;
            }
            turns += 1;
            turn().await;
        }
        true
    }
}

pub(super) fn revision(store: &BrokenStore, key: &ScopedKey) -> Option<Revision> {
    store.inner.state().rows.get(key).map(|row| row.revision)
}

/// Waits, between look and write, until somebody else has looked too or has written.
pub(super) async fn meet(store: &BrokenStore, key: &ScopedKey, seen: Option<Revision>) {
    let here = Looked::at(store, key);
    store.shared.until(|| here.is_one_of_several() || revision(store, key) != seen).await;
}

/// A call that has looked at a key and waits to write.
struct Looked<'a>(&'a Shared, &'a ScopedKey);

impl<'a> Looked<'a> {
    fn at(store: &'a BrokenStore, key: &'a ScopedKey) -> Self {
        *lock(&store.shared.looked).entry(key.clone()).or_default() += 1;
        Self(&store.shared, key)
    }

    fn is_one_of_several(&self) -> bool {
        lock(&self.0.looked).get(self.1).is_some_and(|calls| *calls > 1)
    }
}

impl Drop for Looked<'_> {
    fn drop(&mut self) {
        if let Some(calls) = lock(&self.0.looked).get_mut(self.1) {
            *calls -= 1;
        }
    }
}
