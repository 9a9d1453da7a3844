//! Every charge that the pretended bank has really made, and where it is entered.

mod table;

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use idem_postgres::sqlx::PgTransaction;
use idem_tower::{NoTransaction, Tx};
use serde::Serialize;

pub(crate) use self::table::{Failure, Table, pool};
use crate::payments::{Amount, Currency};
use crate::store::Mode;

/// The bank's books, in the order in which money moved. Clones share them.
#[derive(Clone)]
pub(crate) enum Ledger {
    /// In this process, and gone with it.
    Memory(Book),
    /// In the database that has the idempotency records, too.
    Postgres(Table, Mode),
}

/// One charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// For a charge that is there once it is entered, whatever becomes of its request.
    pub(crate) fn page(&self) -> Page {
        match self {
            Self::Memory(book) => Page::Memory(book.clone()),
            Self::Postgres(table, _) => Page::OfItsOwn(table.clone()),
        }
    }

    /// Every charge, in order.
    pub(crate) async fn entries(&self) -> Result<Vec<Entry>, Failure> {
        match self {
            Self::Memory(book) => Ok(book.read(<[_]>::to_vec)),
            Self::Postgres(table, _) => table.entries().await,
        }
    }

    /// One charge of this caller.
    pub(crate) async fn entry(&self, id: &str, principal: &str) -> Result<Option<Entry>, Failure> {
        let is_asked_for = |entry: &&Entry| entry.id == id && entry.principal == principal;
        match self {
            Self::Memory(book) => Ok(book.read(|entries| entries.iter().find(is_asked_for).cloned())),
            Self::Postgres(table, _) => table.entry(id, principal).await,
        }
    }
}

/// Where one charge is entered.
pub(crate) enum Page {
    Memory(Book),
    /// By a statement of its own.
    OfItsOwn(Table),
    /// By the transaction that the idempotency layer commits together with the record of the key.
    WithItsKey(Tx<PgTransaction<'static>>),
}

/// The page for a charge under a key. A handler takes its page, and writes the same lines in every mode.
impl FromRequestParts<Ledger> for Page {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, ledger: &Ledger) -> Result<Self, NoTransaction> {
        match ledger {
            Ledger::Postgres(_, Mode::Transaction) => Tx::take(&parts.extensions).map(Self::WithItsKey),
            Ledger::Postgres(_, Mode::Claim) | Ledger::Memory(_) => Ok(ledger.page()),
        }
    }
}

/// Why a charge is not known to be in the ledger.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotEntered {
    /// It is not there, and will not be.
    #[error("nothing was entered into the ledger: {0}")]
    Certainly(#[source] Failure),
    /// It is there or it is not.
    #[error("it is unknown whether the ledger took the entry: {0}")]
    Perhaps(#[source] Failure),
}

impl Page {
    pub(crate) async fn enter(&mut self, entry: Entry) -> Result<(), NotEntered> {
        match self {
            Self::Memory(book) => {
                book.enter(entry);
                Ok(())
            }
            Self::OfItsOwn(table) => table.enter(&entry).await,
            // Whatever happened to the statement, nobody has asked to commit it.
            Self::WithItsKey(tx) => table::enter(tx, &entry).await.map_err(NotEntered::Certainly),
        }
    }

    /// Whether a charge that was entered here is undone where the request fails afterwards.
    pub(crate) const fn is_undone_by_a_failure(&self) -> bool {
        matches!(self, Self::WithItsKey(_))
    }
}

/// The ledger in memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Vec<Entry>>>);

impl Book {
    fn enter(&self, entry: Entry) {
        // A thread that panicked between two pushes has broken nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    fn read<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> T {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
