//! Which store keeps the idempotency records, by URL.

mod postgres;

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use idem_core::{KeyStore, StoreError};
use idem_memory::MemoryStore;
use idem_postgres::InTransaction;

pub(crate) use self::postgres::Mode;
use self::postgres::PostgresUrl;
use crate::ledger::{Book, Failure, Ledger};

/// The stores that this program is built with. A new one is a variant here, a scheme in `SCHEMES`, and an arm in each
/// of the functions below.
#[derive(Clone)]
pub(crate) enum StoreUrl {
    /// This process alone; gone with it.
    Memory,
    /// One database, for every process that has its URL.
    Postgres(PostgresUrl),
}

const SCHEMES: &str = "`memory:`, `postgres:`";

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        // Only the scheme is ever repeated: the rest of a URL may hold a password.
        let (scheme, rest) = url.split_once(':').ok_or(StoreUrlError::NoScheme)?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(StoreUrlError::MemoryTakesNothing),
            "postgres" | "postgresql" => PostgresUrl::parse(url).map(Self::Postgres),
            _ => Err(StoreUrlError::Unknown { scheme: scheme.to_owned() }),
        }
    }
}

/// What a URL leads to.
pub(crate) struct Opened {
    /// Records of claims with leases.
    pub(crate) claims: Arc<dyn KeyStore>,
    /// Records in the transactions of handlers, where that is the mode.
    pub(crate) transactions: Option<InTransaction>,
    pub(crate) ledger: Ledger,
}

impl StoreUrl {
    /// Connects, and makes what is missing of the tables.
    pub(crate) async fn open(&self, connections: u32) -> Result<Opened, OpenError> {
        match self {
            Self::Memory => Ok(Opened {
                claims: Arc::new(MemoryStore::default()),
                transactions: None,
                ledger: Ledger::Memory(Book::default()),
            }),
            Self::Postgres(url) => url.open(connections).await,
        }
    }
}

/// Names the store without what may be secret in its URL.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// Why a URL names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreUrlError {
    #[error("`--store` takes a URL; supported: {SCHEMES}")]
    NoScheme,
    #[error("nothing may follow `memory:`")]
    MemoryTakesNothing,
    #[error("there is no store with the scheme `{scheme}`; supported: {SCHEMES}")]
    Unknown { scheme: String },
    #[error("`mode` in the URL of a Postgres store is `transaction` or `claim`, and stands there once")]
    Mode,
    #[error("the URL of the Postgres store has a parameter that nobody knows, neither this program nor sqlx")]
    Parameter,
    #[error("the URL of a Postgres store begins like postgres://user@host/database")]
    NoPlace,
    #[error(
        "in the URL of a Postgres store, `/`, `?`, `#` and `@` of a name or password are written %2F, %3F, %23, %40"
    )]
    NotEncoded,
    #[error("the URL of the Postgres store cannot be read: {reason}")]
    Malformed { reason: String },
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Keys(#[from] StoreError),
    #[error("there is no ledger: {0}")]
    Ledger(#[from] Failure),
}
