use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

use event_listener::Event;

use crate::{Epoch, IdempotencyKey, ScopedKey};

/// What a handler sees of its attempt. It can look and say, not settle: only the driver settles.
///
/// Clones are cheap and are the same attempt.
#[derive(Clone)]
pub struct Running(Arc<Inner>);

struct Inner {
    key: ScopedKey,
    epoch: Epoch,
    lost: AtomicBool,
    on_lost: Event,
    directive: AtomicU8,
    do_not_keep: AtomicBool,
}

/// What a handler has declared of its own outcome. It comes before whatever its answer would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Nothing happened, and the next request may run.
    Release,
    /// The operation failed and nothing happened: a new key is safe.
    FailedWithoutEffect,
}

const NO_DIRECTIVE: u8 = 0;
const RELEASE: u8 = 1;
const FAILED_WITHOUT_EFFECT: u8 = 2;

impl Running {
    pub(super) fn new(key: ScopedKey, epoch: Epoch) -> Self {
        Self(Arc::new(Inner {
            key,
            epoch,
            lost: AtomicBool::new(false),
            on_lost: Event::new(),
            directive: AtomicU8::new(NO_DIRECTIVE),
            do_not_keep: AtomicBool::new(false),
        }))
    }

    /// The key that the attempt holds.
    #[must_use]
    pub fn key(&self) -> &ScopedKey {
        &self.0.key
    }

    /// The fencing token: grows with every attempt while a record remembers the key. [`Epoch::UNPROTECTED`] where no
    /// record protects this run.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// A key for a downstream call, the same on every attempt; see [`ScopedKey::derive_key`].
    #[must_use]
    pub fn derive_key(&self, label: &str) -> IdempotencyKey {
        self.0.key.derive_key(label)
    }

    /// Whether the attempt can no longer count on its lease: another may run.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::SeqCst)
    }

    /// Completes once the attempt can no longer count on its lease.
    ///
    /// *Cancellation*: nothing is lost; call it again.
    pub async fn lost(&self) {
        while !self.is_lost() {
            let listener = self.0.on_lost.listen();
            // It may have been signalled between the look and the listener.
            if self.is_lost() {
                return;
            }
            listener.await;
        }
    }

    /// Says that nothing happened and that the next request with this key may run. The last word counts.
    pub fn release(&self) {
        self.0.directive.store(RELEASE, Ordering::SeqCst);
    }

    /// Says that the operation failed and that nothing happened. The last word counts.
    pub fn fail_without_effect(&self) {
        self.0.directive.store(FAILED_WITHOUT_EFFECT, Ordering::SeqCst);
    }

    /// Says that the answer is not to be stored. Retries are then refused with *response not kept*.
    pub fn do_not_keep(&self) {
        self.0.do_not_keep.store(true, Ordering::SeqCst);
    }

    /// What the handler has declared of its outcome.
    #[must_use]
    pub fn directive(&self) -> Option<Directive> {
        match self.0.directive.load(Ordering::SeqCst) {
            RELEASE => Some(Directive::Release),
            FAILED_WITHOUT_EFFECT => Some(Directive::FailedWithoutEffect),
            _ => None,
        }
    }

    /// Whether the handler has declared that its answer is not to be stored.
    #[must_use]
    pub fn is_not_to_be_kept(&self) -> bool {
        self.0.do_not_keep.load(Ordering::SeqCst)
    }

    /// Tells the handler; says whether this was the first time.
    pub(super) fn signal_lost(&self) -> bool {
        let first = !self.0.lost.swap(true, Ordering::SeqCst);
        if first {
            self.0.on_lost.notify(usize::MAX);
        }
        first
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("key", &self.0.key)
            .field("epoch", &self.0.epoch)
            .field("lost", &self.is_lost())
            .field("directive", &self.directive())
            .finish_non_exhaustive()
    }
}
