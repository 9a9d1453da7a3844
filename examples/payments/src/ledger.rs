//! Every charge that the pretended bank has really made.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::payments::{Amount, Currency};

/// The bank's books, in the order in which money moved. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Entry>>>);

/// One charge.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) principal: String,
    pub(crate) amount: Option<Amount>,
    pub(crate) currency: Option<Currency>,
    /// Which attempt at its key made the charge; none where no key protected it.
    pub(crate) epoch: Option<u64>,
    /// The key that the bank was called with. Two charges under one key are the duplicate that a real bank would have
    /// caught.
    pub(crate) bank_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Payment,
    Refund,
    Like,
}

impl Ledger {
    pub(crate) fn enter(&self, entry: Entry) {
        // A thread that panicked between two pushes has broken nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
