//! What the store holds, counted against its limits.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::{Limits, StoreFull};

/// Records and bytes of all shards together.
///
/// The counters order no other memory: what they count is guarded by the shards' locks.
pub(crate) struct Usage {
    limits: Limits,
    entries: AtomicUsize,
    bytes: AtomicUsize,
}

impl Usage {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, entries: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    pub(crate) const fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries.load(Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Sets room for one record aside; it is given back unless [kept](Room::keep).
    ///
    /// Counting up only where the sum stays within the limit, in one step, no two threads get the last place.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Room<'_>, StoreFull> {
        let (most_entries, most_bytes) = (self.limits.entries(), self.limits.bytes());
        add_up_to(&self.entries, 1, most_entries).map_err(|_| StoreFull::Entries { limit: most_entries })?;
        match add_up_to(&self.bytes, bytes, most_bytes) {
            Ok(()) => Ok(Room { usage: self, bytes }),
            Err(used) => {
                self.entries.fetch_sub(1, Relaxed);
                Err(StoreFull::Bytes { limit: most_bytes, used, needed: bytes })
            }
        }
    }

    /// A record that is held has another size now: no limit stands against that.
    pub(crate) fn resize(&self, before: usize, after: usize) {
        if after > before {
            self.bytes.fetch_add(after - before, Relaxed);
        } else if before > after {
            self.bytes.fetch_sub(before - after, Relaxed);
        }
    }

    /// A record is gone.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.entries.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

fn add_up_to(counter: &AtomicUsize, more: usize, limit: usize) -> Result<(), usize> {
    counter.fetch_update(Relaxed, Relaxed, |now| now.checked_add(more).filter(|sum| *sum <= limit)).map(|_| ())
}

/// Room for one record.
pub(crate) struct Room<'a> {
    usage: &'a Usage,
    bytes: usize,
}

impl Room<'_> {
    /// The record is in its place; from now on it is the record that holds the room.
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.usage.give_back(self.bytes);
    }
}
