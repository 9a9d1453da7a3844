use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use super::source::Source;
use crate::servers::random::unlike_any_other;

/// A database that only one test has: new, empty, in `UTF8`, with the locale `C`.
///
/// Where the server outlives the test run, the database is removed when this is dropped, and so are those that killed
/// runs left a day ago or earlier. It is removed even where somebody is still connected.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    source: &'static Source,
}

impl Database {
    /// Creates a database on the server of this test run.
    pub async fn create() -> Self {
        let source = Source::of_this_process().await;
        let name = format!("{PREFIX}{}_{:016x}", unix_time(), unlike_any_other());
        let mut connection = connect(&source.url).await;
        create(&mut connection, &name).await;
        Self { url: url_of(&source.url, &name), name, source }
    }

    /// Its URL: `postgres://…`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name, as in `ALTER DATABASE`; it needs no quotes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.source.outlives_the_run {
            return;
        }
        let (url, name) = (self.source.url.clone(), self.name.clone());
        // The runtime that this is dropped in cannot be waited for from within.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = connect(&url).await;
                let _ = run(&mut connection, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
            });
        });
        // The next run removes what this one could not.
        let _ = removal.join();
    }
}

const PREFIX: &str = "idem_test_";
const DAY: u64 = 24 * 60 * 60;

/// Removes what runs that were killed left a day ago or earlier, where nobody uses it.
pub(super) async fn remove_leftovers(connection: &mut PgConnection) {
    let names = sqlx::query_scalar::<_, String>("SELECT datname::text FROM pg_database");
    for name in names.fetch_all(&mut *connection).await.unwrap() {
        if made_at(&name).is_some_and(|time| time + DAY <= unix_time()) {
            let _ = run(connection, format!("DROP DATABASE IF EXISTS {name}")).await;
        }
    }
}

/// When a database of ours was made, from its name.
fn made_at(name: &str) -> Option<u64> {
    let (time, random) = name.strip_prefix(PREFIX)?.split_once('_')?;
    let is_ours = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_ours { time.parse().ok() } else { None }
}

/// Creates a database that does not depend on what the server's owner did to `template1`, nor on who is connected to it.
pub(super) async fn create(connection: &mut PgConnection, name: &str) {
    let sql = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
    run(connection, sql).await.unwrap_or_else(|error| panic!("a database for the test: {error}"));
}

pub(super) async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap_or_else(|error| panic!("no connection to the server at {url}: {error}"))
}

async fn run(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(drop)
}

fn unix_time() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

/// The URL of another database of the same server.
pub(super) fn url_of(server: &str, database: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, None), |(address, query)| (address, Some(query)));
    let (scheme, rest) = address.split_once("://").unwrap_or_else(|| panic!("no URL of a server: {server}"));
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}/{database}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_of_a_server_has_its_name_in_the_path_and_all_else_of_the_url() {
        assert_eq!(url_of("postgres://me@db:1/old", "new"), "postgres://me@db:1/new");
        assert_eq!(url_of("postgres://me:a%2Fb@db", "new"), "postgres://me:a%2Fb@db/new");
        assert_eq!(url_of("postgresql:///old?host=/run&user=me", "new"), "postgresql:///new?host=/run&user=me");
    }

    #[test]
    fn only_databases_with_the_whole_name_of_ours_have_an_age() {
        assert_eq!(made_at("idem_test_1700000000_0123456789abcdef"), Some(1_700_000_000));
        assert_eq!(made_at("idem_test_1700000000_mine"), None);
        assert_eq!(made_at("idem_test_mine_0123456789abcdef"), None);
        assert_eq!(made_at("postgres"), None);
    }
}
