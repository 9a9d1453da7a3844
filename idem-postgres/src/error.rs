//! What the database's errors say: why it could not, and whether anything was written.

use core::time::Duration;

use idem_core::{StoreError, StoreErrorKind};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// How far a statement had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There was no connection to send it on.
    Connecting,
    /// It may have reached the server, in a transaction that nobody has asked to commit.
    Uncommitted,
    /// It may have reached the server, and taken effect.
    Sent,
}

/// The client's own bound was reached before an answer came.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum TimedOut {
    #[error("no connection to Postgres within {0:?}")]
    Connecting(Duration),
    #[error("no answer from Postgres within {0:?}")]
    Answer(Duration),
    #[error("no turn in a group within {0:?}")]
    Waiting(Duration),
}

pub(crate) fn store_error(error: sqlx::Error, stage: Stage) -> StoreError {
    let kind = kind(&error);
    if stage != Stage::Sent || wrote_nothing(&error) {
        StoreError::not_written(kind, error)
    } else {
        StoreError::unknown(kind, error)
    }
}

/// Whether the statement was certainly rolled back.
///
/// An ordinary error of the server ends its transaction. One that ends the connection may come after the commit, and so
/// may what a pooler says in the server's place, whatever severity it gives it.
pub(crate) fn wrote_nothing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(_) => database(error).is_some_and(was_rolled_back),
        // Nothing of it was sent.
        sqlx::Error::Encode(_)
        | sqlx::Error::InvalidArgument(_)
        | sqlx::Error::Configuration(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed => true,
        _ => false,
    }
}

/// Whether the connection is as good as before: the next statement may go over it.
pub(crate) fn spares_the_connection(error: &sqlx::Error) -> bool {
    match error {
        // A primary that is one no more, and a server without resources, are better looked for anew.
        sqlx::Error::Database(_) => database(error).is_some_and(|error| {
            let code = error.code();
            was_rolled_back(error) && code != "25006" && !code.starts_with("53")
        }),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => true,
        _ => false,
    }
}

fn was_rolled_back(error: &PgDatabaseError) -> bool {
    error.severity() == PgSeverity::Error && !is_of_the_connection(error.code())
}

/// Connection exceptions, and operator intervention other than a statement that was cancelled.
fn is_of_the_connection(code: &str) -> bool {
    code.starts_with("08") || (code.starts_with("57") && code != "57014")
}

/// The same error of a look, after a write that certainly did nothing.
pub(crate) fn after_no_write(error: StoreError) -> StoreError {
    StoreError::not_written(error.kind(), error)
}

/// Whether the error is that of one row of a group, so that the others may go on without it.
pub(crate) fn is_of_one_row(error: &StoreError) -> bool {
    error.certainty() == idem_core::Certainty::NotWritten
        && matches!(error.kind(), StoreErrorKind::Locked | StoreErrorKind::Contended | StoreErrorKind::Other)
}

fn kind(error: &sqlx::Error) -> StoreErrorKind {
    let Some(error) = database(error) else {
        return match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => StoreErrorKind::Unavailable,
            sqlx::Error::Configuration(_) => StoreErrorKind::Misconfigured,
            _ => StoreErrorKind::Other,
        };
    };
    // https://www.postgresql.org/docs/current/errcodes-appendix.html
    match error.code() {
        // lock_not_available
        "55P03" => StoreErrorKind::Locked,
        // serialization_failure, deadlock_detected
        "40001" | "40P01" => StoreErrorKind::Contended,
        // in_failed_sql_transaction
        "25P02" => StoreErrorKind::Aborted,
        // disk_full
        "53100" => StoreErrorKind::Full,
        // query_canceled, read_only_sql_transaction (a primary that is one no more), cannot_connect_now
        "57014" | "25006" | "57P03" => StoreErrorKind::Unavailable,
        // undefined_table, undefined_column, undefined_function, insufficient_privilege
        "42P01" | "42703" | "42883" | "42501" => StoreErrorKind::Misconfigured,
        // A pooler that keeps no settings of sessions. Under this code it also says that it does not reach its server.
        "08P01" if error.message().starts_with("unsupported startup parameter") => StoreErrorKind::Misconfigured,
        code => match code.get(..2) {
            // connection exception, insufficient resources, operator intervention
            Some("08" | "53" | "57") => StoreErrorKind::Unavailable,
            // invalid authorization, invalid catalog or schema name
            Some("28" | "3D" | "3F") => StoreErrorKind::Misconfigured,
            _ => StoreErrorKind::Other,
        },
    }
}

fn database(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}
