//! One part of the store: the rows behind one lock.

use std::time::Duration;

use hashbrown::HashTable;
use idem_core::Revision;

use crate::expiry::Expiry;
use crate::row::{Hashed, Row};

/// Rows, the table that finds them by key, and the heap that finds them by their end.
///
/// The rows lie densely in a vector; table and heap hold indexes into it. Every change of the vector passes through
/// [`push`](Self::push) and [`remove`](Self::remove), which keep the three in step.
///
/// # Panics, and locks that they poison
///
/// No change here runs code of others: keys are hashed before the lock is taken, what is removed is handed to the caller
/// to be dropped after it, and the clock is read before the first change. So a panic under the lock, which can only be
/// the clock's, leaves a consistent shard behind, and a poisoned lock is taken as if nothing had happened.
pub(crate) struct Shard {
    rows: Vec<Row>,
    table: HashTable<usize>,
    expiry: Expiry,
    next_revision: u64,
    revision_step: u64,
}

/// A shard keeps what it has allocated below this many rows.
const LEAST_CAPACITY: usize = 64;

impl Shard {
    /// The shard number `index` of `count`.
    ///
    /// The shards deal out the revisions in turn, so that none comes twice and no two of them share a counter.
    pub(crate) fn new(index: u64, count: u64) -> Self {
        Self {
            rows: Vec::new(),
            table: HashTable::new(),
            expiry: Expiry::default(),
            next_revision: index,
            revision_step: count,
        }
    }

    pub(crate) fn next_revision(&mut self) -> Revision {
        self.next_revision += self.revision_step;
        Revision::from_number(self.next_revision)
    }

    /// Where the row of a key lies, be it expired or not.
    pub(crate) fn position(&self, key: Hashed<'_>) -> Option<usize> {
        self.table.find(key.hash, |&at| self.rows[at].key == *key.key).copied()
    }

    /// Where the row of a key lies, if it has not expired.
    pub(crate) fn live(&self, key: Hashed<'_>, now: Duration) -> Option<usize> {
        self.position(key).filter(|&at| self.rows[at].is_live(now))
    }

    pub(crate) fn row(&self, at: usize) -> &Row {
        &self.rows[at]
    }

    /// Changes a row, and moves its deadline along.
    pub(crate) fn change<T>(&mut self, at: usize, change: impl FnOnce(&mut Row) -> T) -> T {
        let row = &mut self.rows[at];
        let before = row.ends_at();
        let changed = change(row);
        if row.ends_at() != before {
            self.expiry.set(at, row.ends_at());
        }
        changed
    }

    /// Adds the row of a key that has none.
    pub(crate) fn push(&mut self, row: Row) {
        let rows = &self.rows;
        self.table.insert_unique(row.hash, rows.len(), |&at| rows[at].hash);
        self.expiry.push(row.ends_at());
        self.rows.push(row);
    }

    /// Takes a row out.
    pub(crate) fn remove(&mut self, at: usize) -> Row {
        let last = self.rows.len() - 1;
        // The last row is about to take the place of this one, in the vector and in what points there.
        if let Ok(entry) = self.table.find_entry(self.rows[at].hash, |&index| index == at) {
            entry.remove();
        }
        if at != last
            && let Some(index) = self.table.find_mut(self.rows[last].hash, |&index| index == last)
        {
            *index = at;
        }
        self.expiry.swap_remove(at);
        let row = self.rows.swap_remove(at);
        self.give_back_capacity();
        row
    }

    /// Takes the row out that has been expired for the longest time.
    pub(crate) fn remove_due(&mut self, now: Duration) -> Option<Row> {
        self.expiry.first_due(now).map(|at| self.remove(at))
    }

    /// How long the oldest expired row has been expired; `None` where no row is.
    pub(crate) fn overdue(&self, now: Duration) -> Option<Duration> {
        self.expiry.first_at().and_then(|at| now.checked_sub(at))
    }

    pub(crate) fn count_due(&self, now: Duration) -> usize {
        self.expiry.count_due(now)
    }

    /// A wave of keys that is over does not hold its memory for ever. Halving at a quarter costs O(1) a removal.
    fn give_back_capacity(&mut self) {
        let rows = self.rows.len();
        if self.rows.capacity() > LEAST_CAPACITY && rows < self.rows.capacity() / 4 {
            let capacity = (2 * rows).max(LEAST_CAPACITY);
            self.rows.shrink_to(capacity);
            self.expiry.shrink_to(capacity);
            let rows = &self.rows;
            self.table.shrink_to(capacity, |&at| rows[at].hash);
        }
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    #[cfg(test)]
    pub(crate) fn assert_in_step(&self) {
        assert_eq!(self.table.len(), self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            assert_eq!(self.position(Hashed { key: &row.key, hash: row.hash }), Some(at));
        }
        self.expiry.assert_in_step(self.rows.iter().map(Row::ends_at));
        assert!(self.rows.capacity() <= LEAST_CAPACITY.max(4 * self.rows.len()));
    }
}

#[cfg(test)]
#[path = "shard_tests.rs"]
mod tests;
