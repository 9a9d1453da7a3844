//! Which store keeps the idempotency records, by URL.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use idem_core::KeyStore;
use idem_memory::MemoryStore;

/// The stores that this program is built with. A new one is a variant here, a scheme in `SCHEMES`, and an arm in each
/// of the two functions below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// This process alone; gone with it.
    Memory,
}

const SCHEMES: &str = "`memory:`";

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        // Only the scheme is ever repeated: the rest of a URL may hold a password.
        let (scheme, rest) = url.split_once(':').ok_or(StoreUrlError::NoScheme)?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(StoreUrlError::MemoryTakesNothing),
            _ => Err(StoreUrlError::Unknown { scheme: scheme.to_owned() }),
        }
    }
}

impl StoreUrl {
    pub(crate) fn open(&self) -> Arc<dyn KeyStore> {
        match self {
            Self::Memory => Arc::new(MemoryStore::default()),
        }
    }
}

/// Names the store without what may be secret in its URL.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
        }
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
}
