//! The command line.

use core::error::Error;
use core::time::Duration;
use std::net::SocketAddr;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use idem_core::{Policy, PolicyError};

use crate::store::StoreUrl;

/// A payments API that refuses to charge twice.
///
/// Durations are written like 30s, 500ms or 24h; sizes in bytes, or like 64KiB and 1MiB.
#[derive(Clone, Debug, Parser)]
#[command(name = "payments", version)]
pub(crate) struct Options {
    /// Address to listen on; port 0 lets the system choose.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,

    /// Where idempotency records and ledger are kept: `memory:` for this process alone, or `postgres://user@host/db`.
    ///
    /// In Postgres, a charge and the record of its key are written in one transaction; `?mode=claim` holds the key by a
    /// lease instead. Other parameters are those of sqlx. The tables are made where they are missing. A password is
    /// better in PGPASSWORD or ~/.pgpass than here.
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,

    /// Connections of the ledger to its database. One less is how many charges run at once where each has a transaction
    /// of its own; the keys have 8 more.
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = clap::value_parser!(u32).range(2..=1000))]
    db_connections: u32,

    /// How long an attempt may be silent before it counts as abandoned.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    lease: Duration,

    /// How long an answer is kept for retries.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = humantime::parse_duration)]
    retention: Duration,

    /// Largest request body.
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = size)]
    max_body: usize,

    /// Largest response that is kept for retries; larger ones go out whole, and their retries are refused.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    max_response: usize,

    /// How long a request waits for a running one with its key, before it is answered 409.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    wait: Duration,

    /// How long a shutdown waits for what still runs.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    drain: Duration,
}

/// Options that fit together.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) store: StoreUrl,
    pub(crate) db_connections: u32,
    /// For money.
    pub(crate) strict: Policy,
    /// For likes.
    pub(crate) relaxed: Policy,
    pub(crate) max_body: usize,
    pub(crate) max_response: usize,
    pub(crate) wait: Option<Duration>,
    pub(crate) drain: Duration,
}

impl Options {
    /// Checks what no option can know alone.
    pub(crate) fn check(self) -> Result<Settings, clap::Error> {
        // Not left to clap, whose message would repeat the whole URL: it may hold a password.
        let store = self.store.parse().map_err(|error| unfit(&error))?;
        let strict = self.policy(Policy::strict()).map_err(|error| unfit(&error))?;
        let relaxed = self.policy(Policy::relaxed()).map_err(|error| unfit(&error))?;
        Ok(Settings {
            listen: self.listen,
            store,
            db_connections: self.db_connections,
            strict,
            relaxed,
            max_body: self.max_body,
            max_response: self.max_response,
            wait: Some(self.wait).filter(|wait| !wait.is_zero()),
            drain: self.drain,
        })
    }

    /// A preset with the lease and retention of the command line. What has no option of its own grows with them: a
    /// lease may be renewed for 15 min, or once where it is longer than that; an unsettled claim is remembered for
    /// 7 days, or as long as an answer where answers are kept longer.
    fn policy(&self, preset: Policy) -> Result<Policy, PolicyError> {
        let ceiling = preset.ceiling().max(self.lease);
        let unsettled_retention = preset.unsettled_retention().max(self.retention);
        preset
            .customize()
            .lease(self.lease)
            .ceiling(ceiling)
            .retention(self.retention)
            .unsettled_retention(unsettled_retention)
            .build()
    }
}

fn unfit(error: &dyn Error) -> clap::Error {
    Options::command().error(ErrorKind::ValueValidation, error)
}

/// Reads a number of bytes, with or without a unit.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("expected a number of bytes, or one with kB, MB, KiB, MiB or GiB".to_owned()),
    };
    let number: usize = number.parse().map_err(|_| "expected a number of bytes, such as 65536 or 64KiB".to_owned())?;
    match number.checked_mul(unit) {
        None => Err("more bytes than this machine can count".to_owned()),
        Some(0) => Err("nothing fits into 0 bytes".to_owned()),
        Some(size) => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [("1", 1), ("65536", 65_536), ("2kB", 2_000), ("64KiB", 65_536), ("3MB", 3_000_000)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "KiB", "-1", "1.5MiB", "1 MiB", "1mib", "0", "0KiB", "99999999999999999999", "18446744073709551615GiB"]
        {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_long_lease_and_a_long_retention_need_no_further_options() {
        let settings = Options::parse_from(["payments", "--lease", "20m", "--retention", "30days"]).check();
        let strict = settings.expect("they fit").strict;
        assert_eq!(strict.ceiling(), strict.lease());
        assert_eq!(strict.unsettled_retention(), strict.retention());
    }
}
