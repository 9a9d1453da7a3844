//! What a sweep takes, what it leaves, and what the statistics say of it.

use core::num::NonZeroU32;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use idem_core::{KeyStore, Swept};
use idem_postgres::{PostgresConfig, PostgresStore};
use idem_tests::postgres::Server;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool, query_scalar};

use crate::scene::{
    Met, RETENTION, Scene, at_once, claim, completion, found, inserted, key, keys, owner, replaced, run, there,
};

const MANY: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);

/// SQL that makes all that is written of these rows so much older.
fn older(by: &str, of: &str) -> String {
    format!(
        "UPDATE idempotency_keys
         SET claimed_at = claimed_at - interval '{by}', sweep_at = sweep_at - interval '{by}',
             lease_until = lease_until - interval '{by}', expires_at = expires_at - interval '{by}'
         WHERE key LIKE '{of}'"
    )
}

async fn insert_all(store: &PostgresStore, count: usize) {
    let met = at_once(keys(count).iter().map(async |key| inserted(store.insert(key, &claim()).await))).await;
    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");
}

#[tokio::test]
async fn a_sweep_leaves_a_row_that_somebody_holds_and_the_next_one_takes_it() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    insert_all(&store, 3).await;
    scene.sql(older("8 days", "%")).await;
    let mut stranger = scene.stranger.begin().await.unwrap();
    run(&mut *stranger, "SELECT FROM idempotency_keys WHERE key = 'key-000001' FOR UPDATE").await;

    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 2, more: false });

    stranger.rollback().await.unwrap();
    assert_eq!(scene.number("SELECT count(*) FROM idempotency_keys WHERE key = 'key-000001'").await, 1);
    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 1, more: false });
}

#[tokio::test]
async fn a_sweep_leaves_a_row_that_an_open_transaction_makes_live_longer() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let (name, mine) = (key("key-000001"), claim());
    store.insert(&name, &mine).await.unwrap();
    scene.sql(older("8 days", "%")).await;
    let mut stranger = scene.stranger.begin().await.unwrap();
    run(&mut *stranger, "UPDATE idempotency_keys SET expires_at = clock_timestamp() + interval '1 day'").await;

    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 0, more: false });

    stranger.commit().await.unwrap();
    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 0, more: false });
    assert_eq!(found(store.find(&name).await), there(&mine));
}

/// A server of its own, whose rows can be held up between the sweep's look and its lock: a policy is asked about each.
struct Gate {
    _server: Server,
    stranger: PgPool,
    gate: PgConnection,
    store: PostgresStore,
}

impl Gate {
    /// The gate is shut for the row of `key-000001`.
    async fn shut() -> Self {
        let server = Server::create().await;
        let url = server.url("postgres");
        PostgresConfig::new(&url).unwrap().migrate().await.unwrap();
        let stranger = PgPoolOptions::new().max_connections(3).connect(&url).await.unwrap();
        run(
            &stranger,
            "CREATE FUNCTION gate(key text) RETURNS boolean LANGUAGE plpgsql AS $$
             BEGIN
                 IF key = 'key-000001' THEN PERFORM pg_advisory_xact_lock(1); END IF;
                 RETURN true;
             END $$;
             CREATE ROLE app LOGIN;
             GRANT ALL ON idempotency_keys TO app;
             ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
             CREATE POLICY gate ON idempotency_keys USING (gate(key)) WITH CHECK (true)",
        )
        .await;
        let long = Duration::from_secs(120);
        let config = PostgresConfig::new(&url.replace("postgres@", "app@")).unwrap();
        let store = config.lock_timeout(long).command_timeout(long).connect().await.unwrap();
        insert_all(&store, 3).await;
        run(&stranger, older("8 days", "%")).await;
        let mut gate = PgConnection::connect(&url).await.unwrap();
        run(&mut gate, "SELECT pg_advisory_lock(1)").await;
        Self { _server: server, stranger, gate, store }
    }

    /// What a sweep does that has seen the row as it was when `meanwhile` was done to it.
    async fn sweeps_while(&mut self, meanwhile: &str) -> Swept {
        let store = self.store.clone();
        let sweep = tokio::spawn(async move { store.sweep(MANY).await.unwrap() });
        idem_tests::eventually("the sweep is at the gate", async || {
            let at_gate = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            query_scalar::<_, i64>(at_gate).fetch_one(&self.stranger).await.unwrap() == 1
        })
        .await;
        run(&self.stranger, meanwhile).await;
        run(&mut self.gate, "SELECT pg_advisory_unlock(1)").await;
        sweep.await.unwrap()
    }

    async fn rows(&self) -> BTreeSet<String> {
        let rows = query_scalar("SELECT key FROM idempotency_keys").fetch_all(&self.stranger).await.unwrap();
        rows.into_iter().collect()
    }
}

#[tokio::test]
async fn a_sweep_spares_a_row_that_was_renewed_between_its_look_and_its_lock() {
    let mut gate = Gate::shut().await;

    let swept = gate
        .sweeps_while(
            "UPDATE idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour', revision = 1
             WHERE key = 'key-000001'",
        )
        .await;

    assert_eq!(swept.removed, 2);
    assert_eq!(gate.rows().await, ["key-000001".to_owned()].into());
}

#[tokio::test]
async fn a_sweep_spares_a_row_that_was_completed_between_its_look_and_its_lock() {
    let mut gate = Gate::shut().await;

    let swept = gate
        .sweeps_while(
            "UPDATE idempotency_keys SET state = 3, revision = 1, expires_at = clock_timestamp() + interval '1 day'
             WHERE key = 'key-000001'",
        )
        .await;

    assert_eq!(swept.removed, 2);
    assert_eq!(gate.rows().await, ["key-000001".to_owned()].into());
}

#[tokio::test]
async fn a_sweep_spares_a_row_that_was_inserted_anew_between_its_look_and_its_lock() {
    let mut gate = Gate::shut().await;

    let swept = gate
        .sweeps_while(
            "WITH gone AS (DELETE FROM idempotency_keys WHERE key = 'key-000001' RETURNING *)
             SELECT * INTO anew FROM gone;
             INSERT INTO idempotency_keys SELECT * FROM anew;
             UPDATE idempotency_keys SET expires_at = clock_timestamp() + interval '1 day' WHERE key = 'key-000001'",
        )
        .await;

    assert_eq!(swept.removed, 2);
    assert_eq!(gate.rows().await, ["key-000001".to_owned()].into());
}

/// It was planned for the end of a settled record, and nobody settled it.
#[tokio::test]
async fn a_claim_that_is_alive_when_its_look_is_due_is_looked_at_again_at_its_end() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let (name, mine) = (key("key-000001"), claim().expecting(RETENTION));
    store.insert(&name, &mine).await.unwrap();
    scene.sql(older("25 hours", "%")).await;
    let due = "SELECT count(*) FROM idempotency_keys WHERE sweep_at <= clock_timestamp()";
    assert_eq!(scene.number(due).await, 1);

    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 0, more: false });

    assert_eq!(found(store.find(&name).await), there(&mine));
    let at_its_end = "SELECT count(*) FROM idempotency_keys WHERE sweep_at = greatest(expires_at, lease_until)";
    assert_eq!((scene.number(due).await, scene.number(at_its_end).await), (0, 1));
    scene.sql(older("6 days", "%")).await;
    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 1, more: false });
}

#[tokio::test]
async fn a_record_that_ends_sooner_than_its_claim_would_have_is_looked_at_sooner() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let (name, mine) = (key("key-000001"), claim());
    store.insert(&name, &mine).await.unwrap();
    scene.sql("UPDATE idempotency_keys SET sweep_at = clock_timestamp()").await;

    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 0, more: false });
    assert_eq!(replaced(store.replace(&name, owner(&mine), &completion(&mine)).await), Met::Done);
    scene.sql(older("25 hours", "%")).await;

    assert_eq!(found(store.find(&name).await), Met::Vacant);
    assert_eq!(store.sweep(MANY).await.unwrap(), Swept { removed: 1, more: false });
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeps_of_several_processes_at_once_remove_each_row_once_and_no_live_one() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    insert_all(&store, 600).await;
    scene.sql(older("8 days", "key-000%")).await;
    // Alive, and due to be looked at.
    scene.sql("UPDATE idempotency_keys SET expires_at = now() + interval '1 day' WHERE key LIKE '%7'").await;

    let mut sweepers = Vec::new();
    for _ in 0..6 {
        let store = scene.config().connect().await.unwrap();
        sweepers.push(tokio::spawn(async move {
            let mut removed = 0;
            loop {
                let swept = store.sweep(NonZeroU32::MIN.saturating_add(19)).await.unwrap();
                removed += swept.removed;
                if !swept.more {
                    break removed;
                }
            }
        }));
    }
    let removed: u32 = join_all(sweepers).await.into_iter().map(Result::unwrap).sum();

    let last = store.sweep(MANY).await.unwrap();
    assert_eq!(removed + last.removed, 540);
    assert_eq!(scene.number("SELECT count(*) FROM idempotency_keys WHERE key LIKE '%7'").await, 60);
    assert_eq!(scene.number("SELECT count(*) FROM idempotency_keys").await, 60);
}

#[tokio::test]
async fn statistics_count_what_is_there_and_what_waits_for_a_sweep() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    insert_all(&store, 5).await;
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.records, stats.expired, stats.oldest_expired), (Some(5), Some(0), None));
    scene.sql(older("7 days 1 hour", "key-000001")).await;
    scene.sql(older("9 days", "key-000002")).await;

    let ended =
        "SELECT (extract(epoch FROM clock_timestamp() - min(expires_at)) * 1000000)::bigint FROM idempotency_keys";
    let before = scene.number(ended).await;
    let stats = store.stats().await.unwrap();
    let after = scene.number(ended).await;

    assert_eq!((stats.records, stats.expired), (Some(5), Some(2)));
    let bytes = scene.number("SELECT pg_total_relation_size('idempotency_keys')").await;
    assert_eq!(stats.bytes, u64::try_from(bytes).ok());
    let oldest = i64::try_from(stats.oldest_expired.unwrap().as_micros()).unwrap();
    assert!((before..=after).contains(&oldest), "{before} {oldest} {after}");
}

#[tokio::test]
async fn statistics_of_a_large_table_are_an_estimate_that_takes_no_scan() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    insert_all(&store, 1).await;
    scene
        .sql(
            "INSERT INTO idempotency_keys
             SELECT claimed_at - interval '9 days', sweep_at - interval '9 days', profile, epoch, token, principal, route,
                    'other-' || i, digest, revision, lease_until - interval '9 days', expires_at - interval '9 days',
                    format, state, answer
             FROM idempotency_keys, generate_series(1, 25000) AS i",
        )
        .await;
    scene.sql("ANALYZE idempotency_keys").await;

    let stats = store.stats().await.unwrap();

    // Counted up to 10,000.
    assert_eq!(stats.expired, Some(10_000));
    let records = stats.records.unwrap();
    assert!((24_000..=26_000).contains(&records), "{records}");
    assert!(stats.oldest_expired.unwrap() > Duration::from_secs(24 * 3600), "{stats:?}");
}
