//! One record with its times.

use std::time::Duration;

use idem_core::{Answer, Content, Found, Guard, Header, NewRecord, Record, Response, Revision, ScopedKey, State};

use crate::ENTRY_BYTES;

/// A key with its hash, computed once for each call.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) key: &'a ScopedKey,
    pub(crate) hash: u64,
}

/// A record as the store keeps it. Every time is the store's own.
pub(crate) struct Row {
    pub(crate) key: ScopedKey,
    pub(crate) hash: u64,
    pub(crate) revision: Revision,
    pub(crate) bytes: usize,
    record: Record,
    times: Times,
}

impl Row {
    pub(crate) fn new(key: Hashed<'_>, new: &NewRecord, bytes: usize, revision: Revision, now: Duration) -> Self {
        let times = Times::inserted(new, now);
        Self { key: key.key.clone(), hash: key.hash, revision, bytes, record: new.record().clone(), times }
    }

    pub(crate) fn found(&self, now: Duration) -> Found {
        Found {
            revision: self.revision,
            age: now.saturating_sub(self.times.claimed_at),
            lease_left: self.times.lease_until.saturating_sub(now),
            retention_left: self.times.expires_at.saturating_sub(now),
            content: Content::Readable(self.record.clone()),
        }
    }

    /// From this moment on the row is absent: a live lease keeps it, whatever the retention says.
    pub(crate) fn ends_at(&self) -> Duration {
        self.times.expires_at.max(self.times.lease_until)
    }

    pub(crate) fn is_live(&self, now: Duration) -> bool {
        now < self.ends_at()
    }

    pub(crate) fn is_claim(&self) -> bool {
        !self.record.state.is_settled()
    }

    pub(crate) fn satisfies(&self, guard: Guard) -> bool {
        match guard {
            Guard::Owner(token) => self.is_claim() && self.record.token == token,
            Guard::Unchanged(revision) => self.revision == revision,
        }
    }

    /// Puts another record in place of the one that is there, which the caller drops once it has let go of the lock.
    pub(crate) fn overwrite(&mut self, new: &NewRecord, bytes: usize, revision: Revision, now: Duration) -> Record {
        self.times = self.times.overwritten(new, now);
        self.bytes = bytes;
        self.revision = revision;
        core::mem::replace(&mut self.record, new.record().clone())
    }

    pub(crate) fn renew(&mut self, lease: Duration, retention: Duration, revision: Revision, now: Duration) {
        self.times.renew(lease, retention, now);
        self.revision = revision;
    }

    /// The same count as [`bytes_of`] has made of the record when it was written.
    #[cfg(test)]
    pub(crate) fn recount(&self) -> usize {
        bytes_of(&self.key, &self.record)
    }
}

#[derive(Clone, Copy)]
struct Times {
    claimed_at: Duration,
    lease_until: Duration,
    expires_at: Duration,
}

impl Times {
    fn inserted(new: &NewRecord, now: Duration) -> Self {
        Self {
            claimed_at: now,
            lease_until: now.saturating_add(new.lease()),
            expires_at: now.saturating_add(new.retention()),
        }
    }

    fn overwritten(self, new: &NewRecord, now: Duration) -> Self {
        let inserted = Self::inserted(new, now);
        if !new.record().state.is_settled() {
            return inserted;
        }
        // A client may retry for as long as it was promised at the claim, and an answer that came late is still there
        // for a while.
        let from_the_claim = self.claimed_at.saturating_add(new.retention());
        let from_now = now.saturating_add(new.retention() / 2);
        Self { claimed_at: self.claimed_at, expires_at: from_the_claim.max(from_now), ..inserted }
    }

    fn renew(&mut self, lease: Duration, retention: Duration, now: Duration) {
        self.lease_until = now.saturating_add(lease);
        if self.expires_at < now.saturating_add(retention / 2) {
            self.expires_at = now.saturating_add(retention);
        }
    }
}

/// What a record counts against the limit.
pub(crate) fn bytes_of(key: &ScopedKey, record: &Record) -> usize {
    let principal = key.principal().name().map_or(0, str::len);
    let texts = principal + key.route().as_str().len() + key.key().as_str().len();
    let answer = match &record.state {
        State::Completed(answer) => answer.size() + bookkeeping(answer),
        State::InProgress | State::Failed { .. } | State::Released => 0,
    };
    ENTRY_BYTES + texts + answer
}

/// Bytes of an answer that carry none of its own: a response of many empty headers is not free.
fn bookkeeping(answer: &Answer) -> usize {
    match answer {
        Answer::Response(response) => {
            size_of::<Response>() + (response.headers.len() + response.trailers.len()) * size_of::<Header>()
        }
        Answer::Value(_) | Answer::NotKept => 0,
    }
}
