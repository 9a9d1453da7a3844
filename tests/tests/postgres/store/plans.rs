//! Every statement that names a key looks into an index, and looks there for this key alone, whatever the server knows
//! about the table: a plan that was made for an empty table is kept.

use idem_core::KeyStore;
use idem_postgres::{PostgresConfig, PostgresStore};
use idem_tests::postgres::Server;
use serde_json::Value;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row, raw_sql};

use crate::scene::{claim, key, run};

const STATEMENTS: [(&str, &str); 7] = [
    ("claim", include_str!("../../../../idem-postgres/queries/claim.sql")),
    ("claim_many", include_str!("../../../../idem-postgres/queries/claim_many.sql")),
    ("find", include_str!("../../../../idem-postgres/queries/find.sql")),
    ("insert", include_str!("../../../../idem-postgres/queries/insert.sql")),
    ("replace", include_str!("../../../../idem-postgres/queries/replace.sql")),
    ("replace_many", include_str!("../../../../idem-postgres/queries/replace_many.sql")),
    ("sweep", include_str!("../../../../idem-postgres/queries/sweep.sql")),
];

/// The table without its load on disk and log, which no plan depends on.
struct Table {
    server: Server,
    application: PgPool,
    store: PostgresStore,
}

impl Table {
    async fn empty() -> Self {
        let server = Server::create_with(&[
            ("shared_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "0"),
            ("auto_explain.log_nested_statements", "on"),
            // Statistics as each test makes them, and no others.
            ("autovacuum", "off"),
        ])
        .await;
        let url = server.url("postgres");
        let config = PostgresConfig::new(&url).unwrap();
        config.migrate().await.unwrap();
        let application = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        let store = config.connect().await.unwrap();
        run(&application, "ALTER TABLE idempotency_keys SET UNLOGGED").await;
        Self { server, application, store }
    }

    async fn run(&self, text: &str) {
        run(&self.application, text).await;
    }

    async fn has_index_plans(&self, when: &str) {
        self.statements_have(when).await;
        self.the_function_has(when).await;
    }

    /// Under the settings of the store's own connections.
    async fn statements_have(&self, when: &str) {
        let mut connection = self.store.pool().acquire().await.unwrap();
        for (name, text) in STATEMENTS {
            let plan = generic_plan(&mut connection, text).await;
            let mut looks = 0;
            each_node(&plan["Plan"], &mut |node| looks += looks_into_index(node, name, when));
            assert!(looks > 0 || name == "insert", "{name}, {when}: no look at all:\n{plan:#}");
        }
    }

    /// Under the settings of an application's connection, as the server has it.
    async fn the_function_has(&self, when: &str) {
        let before = self.server.log().len();
        self.run("SELECT * FROM idempotency_lock_and_find(1, '', '/pay', 'key-000001')").await;
        let log = || self.server.log()[before..].to_owned();
        idem_tests::eventually("the plan is in the log", async || log().contains("on idempotency_keys")).await;
        let log = log();
        assert!(!log.contains("Seq Scan"), "{when}:\n{log}");
        let (_, look) = log.split_once("Index Scan using idempotency_keys_pkey").unwrap_or_else(|| panic!("{log}"));
        let condition = look.lines().nth(1).unwrap();
        for column in ["principal", "route", "key"] {
            assert!(condition.contains("Index Cond") && condition.contains(column), "{when}:\n{log}");
        }
    }
}

/// The plan for arguments that nobody knows yet.
async fn generic_plan(connection: &mut PgConnection, statement: &str) -> Value {
    let last = (1..100).take_while(|number| statement.contains(&format!("${number}"))).count();
    let nothing = vec!["NULL"; last].join(", ");
    run(&mut *connection, format!("PREPARE explained AS {statement}")).await;
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE explained({nothing})");
    let row = raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *connection).await.unwrap();
    run(&mut *connection, "DEALLOCATE explained").await;
    let plan: Value = serde_json::from_str(row.try_get_unchecked(0).unwrap()).unwrap();
    plan[0].clone()
}

fn each_node(node: &Value, visit: &mut impl FnMut(&Value)) {
    visit(node);
    for below in node["Plans"].as_array().into_iter().flatten() {
        each_node(below, visit);
    }
}

/// Whether this node looks into an index of the table, and then only for what is asked for. The other ways to touch the
/// table are to write it, and to go to a place that another node has found.
fn looks_into_index(node: &Value, name: &str, when: &str) -> usize {
    if node["Relation Name"] != "idempotency_keys" {
        return 0;
    }
    let kind = node["Node Type"].as_str().unwrap();
    if matches!(kind, "ModifyTable" | "Tid Scan") {
        return 0;
    }
    assert_eq!(kind, "Index Scan", "{name}, {when}:\n{node:#}");
    let condition = node["Index Cond"].as_str().unwrap_or_else(|| panic!("{name}, {when}: all of it:\n{node:#}"));
    let columns: &[&str] = match node["Index Name"].as_str().unwrap() {
        "idempotency_keys_sweep_at" => &["sweep_at"],
        "idempotency_keys_pkey" => &["principal", "route", "key"],
        other => panic!("{name}, {when}: {other}"),
    };
    assert!(columns.iter().all(|column| condition.contains(column)), "{name}, {when}:\n{node:#}");
    1
}

#[tokio::test]
async fn plans_are_index_plans_from_the_first_row_to_the_millionth_and_right_after_a_truncate() {
    let table = Table::empty().await;
    table.has_index_plans("while the table is empty and nothing is known of it").await;

    table.store.insert(&key("key-000001"), &claim()).await.unwrap();
    table.run("ANALYZE idempotency_keys").await;
    table.has_index_plans("where one row is known").await;

    table
        .run(
            "ALTER TABLE idempotency_keys SET (fillfactor = 100);
             INSERT INTO idempotency_keys
             SELECT claimed_at, sweep_at, profile, epoch, token, principal, route, 'other-' || i, digest, revision,
                    lease_until, expires_at, format, state, answer
             FROM idempotency_keys, generate_series(1, 1000000) AS i",
        )
        .await;
    table.has_index_plans("where a million rows are there and one is known").await;
    table.run("ANALYZE idempotency_keys").await;
    table.has_index_plans("where a million rows are known").await;

    table.run("TRUNCATE idempotency_keys").await;
    table.has_index_plans("right after a truncate").await;
    table.store.insert(&key("key-000001"), &claim()).await.unwrap();
    table.has_index_plans("with the first row after a truncate").await;
}
