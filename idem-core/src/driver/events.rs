use crate::{ScopedKey, StoreError};

/// What happens that no answer to the client shows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An attempt found at its renewal or settling that the key is no longer its own.
    LeaseLost,
    /// An attempt's renewals got no answer until its lease was as good as over; the handler was signalled.
    LeaseSilent,
    /// The store did not take a settling write; it will be tried again.
    SettlingRetried(StoreError),
    /// An owed write was given up: too many are owed, or it was tried for a whole retention. The claim stays.
    OwedWriteGivenUp,
    /// The reply to the commit of a transaction was lost; what became of it is being looked up.
    CommitUnknown(StoreError),
    /// An answer whose transaction was rolled back could not be written; a retry runs again.
    NotRemembered(StoreError),
    /// The policy let a request run without protection, because the store is down.
    RanUnprotected(StoreError),
}

/// Is told of [`Event`]s. Called inline: it must be quick and must not panic.
pub trait Observer: Send + Sync {
    /// Takes note of one event.
    fn observe(&self, key: &ScopedKey, event: &Event);
}

/// Takes note of nothing.
impl Observer for () {
    fn observe(&self, _: &ScopedKey, _: &Event) {}
}

impl<F: Fn(&ScopedKey, &Event) + Send + Sync> Observer for F {
    fn observe(&self, key: &ScopedKey, event: &Event) {
        self(key, event);
    }
}
