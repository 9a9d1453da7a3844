//! A database that keeps the idempotency records and the ledger.

use core::fmt;
use std::sync::Arc;

use idem_postgres::PostgresConfig;
use idem_postgres::sqlx;
use idem_postgres::sqlx::postgres::PgConnectOptions;

use super::{OpenError, Opened, StoreUrlError};
use crate::ledger::{self, Ledger, Table};

/// A URL as sqlx takes it, with one parameter more.
#[derive(Clone)]
pub(crate) struct PostgresUrl {
    options: Box<PgConnectOptions>,
    mode: Mode,
}

/// What holds the key of a charge while its handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The transaction that ledger and record are written in.
    Transaction,
    /// A claim with a lease; the ledger is written before the answer, in a transaction of its own.
    Claim,
}

impl PostgresUrl {
    /// Takes `mode` out of the URL and leaves the rest to sqlx. Errors do not repeat it: in a URL that is written
    /// wrongly, a password may stand anywhere.
    pub(super) fn parse(url: &str) -> Result<Self, StoreUrlError> {
        let (address, query) = url.split_once('?').unwrap_or((url, ""));
        let (_, place) = address.split_once("://").ok_or(StoreUrlError::NoPlace)?;
        let database = place.split_once('/').map_or("", |(_, database)| database);
        if url.contains('#') || database.contains('@') {
            return Err(StoreUrlError::NotEncoded);
        }
        let mut mode = None;
        let mut others = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("mode", value) => {
                    let earlier = mode.replace(Mode::parse(value)?);
                    earlier.map_or(Ok(()), |_| Err(StoreUrlError::Mode))?;
                }
                (name, _) if is_known(name) => others.push(parameter),
                _ => return Err(StoreUrlError::Parameter),
            }
        }
        let options: Result<_, sqlx::Error> = format!("{address}?{}", others.join("&")).parse();
        let options = options.map_err(|error| StoreUrlError::Malformed { reason: error.to_string() })?;
        Ok(Self { options: Box::new(options), mode: mode.unwrap_or(Mode::Transaction) })
    }

    pub(super) async fn open(&self, connections: u32) -> Result<Opened, OpenError> {
        let config = PostgresConfig::with_options(PgConnectOptions::clone(&self.options));
        config.migrate().await?;
        let store = config.connect().await?;
        let pool = ledger::pool(&self.options, connections);
        let table = Table::create(pool.clone()).await?;
        let transactions = match self.mode {
            Mode::Transaction => Some(store.in_transaction(pool)),
            Mode::Claim => None,
        };
        Ok(Opened { claims: Arc::new(store), transactions, ledger: Ledger::Postgres(table, self.mode) })
    }
}

/// Without user and password, and without what else may be secret.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        let host = options.get_socket().map_or(options.get_host().into(), |folder| folder.to_string_lossy());
        write!(f, "postgres://{host}:{}", options.get_port())?;
        let database = options.get_database().unwrap_or(options.get_username());
        write!(f, "/{database}?mode={}", self.mode.name())
    }
}

impl Mode {
    const ALL: [Self; 2] = [Self::Transaction, Self::Claim];

    fn parse(name: &str) -> Result<Self, StoreUrlError> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or(StoreUrlError::Mode)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::Claim => "claim",
        }
    }
}

/// Whether sqlx takes this parameter. What it does not take, it passes over: a misspelt `sslmode` would be a connection
/// without TLS.
fn is_known(name: &str) -> bool {
    const KNOWN: [&str; 17] = [
        "sslmode",
        "ssl-mode",
        "sslrootcert",
        "ssl-root-cert",
        "ssl-ca",
        "sslcert",
        "ssl-cert",
        "sslkey",
        "ssl-key",
        "statement-cache-capacity",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "application_name",
    ];
    // Also `options[search_path]`, with its brackets coded or not.
    KNOWN.contains(&name) || name.starts_with("options")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> PostgresUrl {
        PostgresUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn the_mode_is_taken_from_the_url_and_all_else_goes_on() {
        for (url, mode) in [
            ("postgres://me@db/pay", Mode::Transaction),
            ("postgres://me@db/pay?mode=transaction", Mode::Transaction),
            ("postgres://me@db/pay?mode=claim", Mode::Claim),
            ("postgresql://db/pay?sslmode=require&mode=claim&options[search_path]=money", Mode::Claim),
        ] {
            assert_eq!(parsed(url).mode, mode, "{url}");
        }
        let options = parsed("postgres://me:pw@db:7/pay?sslmode=require&mode=claim&application_name=till").options;
        assert!(matches!(options.get_ssl_mode(), sqlx::postgres::PgSslMode::Require));
        assert_eq!(options.get_application_name(), Some("till"));
        assert_eq!((options.get_username(), options.get_host(), options.get_port()), ("me", "db", 7));
        assert_eq!(options.get_database(), Some("pay"));
        let options = parsed("postgres://db/pay?mode=claim&options%5Bsearch_path%5D=money").options;
        assert_eq!(options.get_options(), Some("-c search_path=money"));
    }

    #[test]
    fn neither_a_name_nor_an_error_repeats_a_password() {
        for (url, name) in [
            ("postgres://me:hunter2@db:7/pay", "postgres://db:7/pay?mode=transaction"),
            ("postgres://me@db:7/pay?password=hunter2&mode=claim", "postgres://db:7/pay?mode=claim"),
            ("postgres:///pay?host=/run/hunter&user=me", "postgres:///run/hunter:5432/pay?mode=transaction"),
        ] {
            assert_eq!(parsed(url).to_string(), name);
        }
        for url in [
            "postgres://me:hunter2@db/pay?mode=hunter2",
            "postgres://me:hunter2@db/pay?mode=",
            "postgres://me:hunter2@db/pay?mode",
            "postgres://me:hunter2@db/pay?mode=claim&mode=claim",
            "postgres://me:hunter2@db/pay?Mode=claim",
            "postgres://me:hunter2@db/pay?sslmod=require",
            "postgres://me:hunter2@db/pay?port=hunter2",
            "postgres://me:1?hunter2@db/pay",
            "postgres://me:1#hunter2@db/pay",
            "postgres://me:x/hunter2@db/pay",
            "postgres://me:hunter2@d b/pay",
            "postgres://me:1/hunter2@db/pay",
            "postgres:hunter2",
        ] {
            match PostgresUrl::parse(url) {
                Ok(taken) => panic!("{url}: {taken}"),
                Err(error) => assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}: {error}"),
            }
        }
    }
}
