//! Which row ends first.

use std::time::Duration;

/// One deadline for each row: a binary heap that knows where each row stands in it.
///
/// A row is named by its index in the shard's vector, and the two are kept in step: `push` and `swap_remove` here mirror
/// the same calls there. Since a deadline is moved and never left behind, there are no stale entries to mistake for a
/// live record, and the heap is exactly as long as the vector.
///
/// *Cost*: O(log n), but a deadline later than most, as every new one is, moves past hardly any other.
#[derive(Default)]
pub(crate) struct Expiry {
    heap: Vec<Deadline>,
    places: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Duration,
    row: usize,
}

impl Expiry {
    /// The row that ends first, if it has ended.
    pub(crate) fn first_due(&self, now: Duration) -> Option<usize> {
        self.heap.first().filter(|first| first.at <= now).map(|first| first.row)
    }

    /// When the first row ends.
    pub(crate) fn first_at(&self) -> Option<Duration> {
        self.heap.first().map(|first| first.at)
    }

    /// Counts the rows that have ended. *Cost*: looks at those and at their neighbours in the heap only.
    pub(crate) fn count_due(&self, now: Duration) -> usize {
        let mut count = 0;
        let mut open = vec![0];
        while let Some(place) = open.pop() {
            if self.heap.get(place).is_some_and(|deadline| deadline.at <= now) {
                count += 1;
                open.extend([2 * place + 1, 2 * place + 2]);
            }
        }
        count
    }

    /// Gives the next row its deadline.
    pub(crate) fn push(&mut self, at: Duration) {
        let next = self.heap.len();
        self.heap.push(Deadline { at, row: next });
        self.places.push(next);
        self.rise(next);
    }

    /// Moves the deadline of a row.
    pub(crate) fn set(&mut self, row: usize, at: Duration) {
        let place = self.places[row];
        self.heap[place].at = at;
        self.rise(place);
        self.sink(self.places[row]);
    }

    /// Forgets a row; the last row takes its index.
    pub(crate) fn swap_remove(&mut self, row: usize) {
        let place = self.places[row];
        self.swap(place, self.heap.len() - 1);
        self.heap.pop();
        if place < self.heap.len() {
            let moved = self.heap[place].row;
            self.rise(place);
            self.sink(self.places[moved]);
        }
        self.places.swap_remove(row);
        if let Some(&place) = self.places.get(row) {
            self.heap[place].row = row;
        }
    }

    pub(crate) fn shrink_to(&mut self, capacity: usize) {
        self.heap.shrink_to(capacity);
        self.places.shrink_to(capacity);
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].at <= self.heap[place].at {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let Some(mut child) = self.heap.get(left).map(|_| left) else { break };
            if self.heap.get(right).is_some_and(|deadline| deadline.at < self.heap[left].at) {
                child = right;
            }
            if self.heap[place].at <= self.heap[child].at {
                break;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.places[self.heap[a].row] = a;
        self.places[self.heap[b].row] = b;
    }

    /// The deadlines are those of the rows, in heap order.
    #[cfg(test)]
    pub(crate) fn assert_in_step(&self, ends: impl ExactSizeIterator<Item = Duration>) {
        assert_eq!((self.heap.len(), self.places.len()), (ends.len(), ends.len()));
        for (row, end) in ends.enumerate() {
            let place = self.places[row];
            assert_eq!((self.heap[place].row, self.heap[place].at), (row, end));
            assert!(place == 0 || self.heap[(place - 1) / 2].at <= end);
        }
    }
}
