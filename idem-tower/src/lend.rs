//! Lends the transaction of an attempt to its handler, and takes it back.

use core::any::type_name;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Extensions;

/// The transaction that the running attempt commits together with its record, lent to the handler; in axum, an
/// extractor.
///
/// It derefs to the transaction of the store, so that with sqlx `&mut **tx` is the connection. It goes back to the layer
/// when it is dropped, and the layer ends it by the handler's answer: see
/// [`IdempotencyLayer::one_transaction`](crate::IdempotencyLayer::one_transaction).
///
/// # Contract
///
/// - The handler neither commits nor rolls back, and puts no other transaction in its place. Savepoints are its own
///   business.
/// - It drops this before its response is read to its end. A transaction that went into another task, or into a body
///   that streams, is not back by then: nothing is committed, the client gets 500 `not-committed`, and everything is
///   rolled back once it is dropped.
/// - An error of the database may abort the whole transaction. A handler that passes over it and answers with success
///   gets its client 500 `not-committed`.
///
/// # Where it is missing
///
/// A request that passes the layer unprotected has none. As an axum extractor, `Tx` then answers 500 `misconfigured`,
/// as it does where another type of transaction is asked for, or the same one twice at once; `Option<Tx<T>>` takes
/// unprotected requests too.
///
/// # Example
///
/// Without axum, it comes out of the extensions of the request:
///
/// ```
/// use idem_tower::{NoTransaction, Tx};
///
/// # struct Transaction(Vec<u64>);
/// fn pay<B>(request: &http::Request<B>) -> Result<(), NoTransaction> {
///     let mut tx = Tx::<Transaction>::take(request.extensions())?;
///     tx.0.push(100);
///     Ok(())
/// }
///
/// assert_eq!(pay(&http::Request::new(())), Err(NoTransaction::Unprotected));
/// ```
pub struct Tx<T: Send + 'static> {
    /// `None` only while it is dropped.
    tx: Option<T>,
    slot: Slot<T>,
}

impl<T: Send + 'static> Tx<T> {
    /// Takes the transaction of the running attempt. Once it was dropped, it can be taken again.
    ///
    /// # Errors
    ///
    /// Where there is none, or none to be had; the answer to the client should be a 500.
    pub fn take(extensions: &Extensions) -> Result<Self, NoTransaction> {
        let Some(slot) = extensions.get::<Slot<T>>() else {
            return Err(match extensions.get::<Lends>() {
                Some(Lends(lent)) => NoTransaction::OfAnotherType { lent, asked: type_name::<T>() },
                None => NoTransaction::Unprotected,
            });
        };
        slot.lend()
    }
}

impl<T: Send + 'static> Deref for Tx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.tx.as_ref().expect("only a drop takes it out")
    }
}

impl<T: Send + 'static> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.tx.as_mut().expect("only a drop takes it out")
    }
}

impl<T: Send + 'static> Drop for Tx<T> {
    fn drop(&mut self) {
        if let Some(tx) = self.tx.take() {
            self.slot.give_back(tx);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Tx<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tx").field(&type_name::<T>()).finish()
    }
}

/// Why a handler gets no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoTransaction {
    /// No layer in the one-transaction mode protects the request: none covers it, or its key is optional and not there.
    Unprotected,
    /// The layer lends another type of transaction.
    OfAnotherType {
        /// What the layer lends.
        lent: &'static str,
        /// What was asked for.
        asked: &'static str,
    },
    /// It is lent already, and not back yet.
    Lent,
    /// The attempt is over, and the transaction with it.
    Over,
}

impl fmt::Display for NoTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprotected => f.write_str(
                "the request has no transaction: no idempotency layer in the one-transaction mode covers it, or it \
                 has no key",
            ),
            Self::OfAnotherType { lent, asked } => {
                write!(f, "the idempotency layer lends transactions of the type {lent}, and not {asked}")
            }
            Self::Lent => f.write_str("the transaction of the request is lent already; take it once"),
            Self::Over => f.write_str("the attempt is over, and its transaction with it"),
        }
    }
}

impl core::error::Error for NoTransaction {}

/// What the layer lends, by name, for whoever asks for something else.
#[derive(Clone)]
struct Lends(&'static str);

/// Where the transaction is, seen by whoever may take it.
struct Slot<T>(Arc<Mutex<Place<T>>>);

enum Place<T> {
    Here {
        tx: T,
        was_lent: bool,
    },
    Lent,
    /// The attempt has ended: what comes back now is rolled back.
    Over,
}

impl<T: Send + 'static> Slot<T> {
    fn lend(&self) -> Result<Tx<T>, NoTransaction> {
        let mut place = self.place();
        match core::mem::replace(&mut *place, Place::Lent) {
            Place::Here { tx, .. } => Ok(Tx { tx: Some(tx), slot: self.clone() }),
            Place::Lent => Err(NoTransaction::Lent),
            Place::Over => {
                *place = Place::Over;
                Err(NoTransaction::Over)
            }
        }
    }

    fn give_back(&self, tx: T) {
        let mut place = self.place();
        if let Place::Lent = *place {
            *place = Place::Here { tx, was_lent: true };
        } else {
            drop(place);
            drop(tx);
        }
    }

    /// The place is never left half-way, whatever panicked while it was locked.
    fn place(&self) -> MutexGuard<'_, Place<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The layer's side of a lent transaction. Dropped, it rolls back what was given back, and what will be.
pub(crate) struct Lender<T: Send + 'static>(Slot<T>);

/// What has come back at the end.
pub(crate) enum Returned<T> {
    /// The handler has had it, and it is back.
    Used(T),
    /// Nobody has asked for it.
    NeverTaken(T),
    /// Somebody holds it still.
    StillLent,
}

impl<T: Send + 'static> Lender<T> {
    pub(crate) fn new(tx: T) -> Self {
        Self(Slot(Arc::new(Mutex::new(Place::Here { tx, was_lent: false }))))
    }

    pub(crate) fn lend(&self, extensions: &mut Extensions) {
        extensions.insert(self.0.clone());
        extensions.insert(Lends(type_name::<T>()));
    }

    /// Takes the transaction back for good: nobody gets it any more.
    pub(crate) fn end(&self) -> Returned<T> {
        match core::mem::replace(&mut *self.0.place(), Place::Over) {
            Place::Here { tx, was_lent: true } => Returned::Used(tx),
            Place::Here { tx, was_lent: false } => Returned::NeverTaken(tx),
            Place::Lent | Place::Over => Returned::StillLent,
        }
    }
}

impl<T: Send + 'static> Drop for Lender<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}
