//! The table is made once, whoever makes it, and where the search path says.

use futures_util::future::join_all;
use idem_core::{Certainty, KeyStore, StoreErrorKind};
use idem_postgres::{PostgresConfig, PostgresStore};
use sqlx::query_scalar;

use crate::scene::{Met, Scene, claim, found, inserted, key, there};

/// The tables of the database, with their schemas.
async fn tables(scene: &Scene) -> Vec<String> {
    let tables = "SELECT schemaname || '.' || tablename FROM pg_tables
                  WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1";
    query_scalar(tables).fetch_all(&scene.stranger).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_that_start_at_once_all_find_one_table() {
    let scene = Scene::without_table().await;

    let starts = (0..8).map(|_| {
        let config = scene.config();
        tokio::spawn(async move {
            config.migrate().await?;
            config.connect().await
        })
    });
    for started in join_all(starts).await {
        started.unwrap().unwrap();
    }

    assert_eq!(tables(&scene).await, ["public.idempotency_keys", "public.idempotency_migrations"]);
    assert_eq!(scene.number("SELECT count(*) FROM idempotency_migrations").await, 1);
}

#[tokio::test]
async fn a_second_run_changes_nothing() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());
    store.insert(&name, &mine).await.unwrap();

    scene.config().migrate().await.unwrap();

    assert_eq!(found(store.find(&name).await), there(&mine));
}

/// Its versions would say that ours are done, or that ours have changed.
#[tokio::test]
async fn the_applications_own_migrations_are_none_of_ours() {
    let scene = Scene::without_table().await;
    scene
        .sql(
            "CREATE TABLE _sqlx_migrations (
                 version bigint PRIMARY KEY, description text NOT NULL, installed_on timestamptz NOT NULL,
                 success boolean NOT NULL, checksum bytea NOT NULL, execution_time bigint NOT NULL);
             INSERT INTO _sqlx_migrations VALUES (1, 'theirs', now(), true, '\\x00', 0)",
        )
        .await;

    scene.config().migrate().await.unwrap();

    scene.config().connect().await.unwrap();
    let theirs =
        "SELECT count(*) FROM _sqlx_migrations WHERE (version, description, checksum) = (1, 'theirs', '\\x00')";
    assert_eq!(scene.number(theirs).await, 1);
    assert_eq!(scene.number("SELECT count(*) FROM _sqlx_migrations").await, 1);
}

#[tokio::test]
async fn the_table_is_in_the_schema_that_the_database_says() {
    let scene = Scene::without_table().await;
    let set = format!("ALTER DATABASE {} SET search_path = keys, public", scene.database.name());
    scene.sql(format!("CREATE SCHEMA keys; {set}")).await;

    scene.config().migrate().await.unwrap();

    let store = scene.config().connect().await.unwrap();
    assert_eq!(inserted(store.insert(&key("key-0001"), &claim()).await), Met::Done);
    assert_eq!(scene.number("SELECT count(*) FROM keys.idempotency_keys").await, 1);
    assert_eq!(tables(&scene).await, ["keys.idempotency_keys", "keys.idempotency_migrations"]);
}

#[tokio::test]
async fn two_schemas_of_one_database_are_two_stores() {
    let scene = Scene::without_table().await;
    scene.sql("CREATE SCHEMA one; CREATE SCHEMA other").await;
    let mut stores = Vec::new();
    for schema in ["one", "other"] {
        let url = format!("{}?options=-c%20search_path%3D{schema}", scene.database.url());
        PostgresConfig::new(&url).unwrap().migrate().await.unwrap();
        stores.push(PostgresStore::connect(&url).await.unwrap());
    }
    let (name, in_one, in_other) = (key("key-0001"), claim(), claim());

    assert_eq!(inserted(stores[0].insert(&name, &in_one).await), Met::Done);
    assert_eq!(inserted(stores[1].insert(&name, &in_other).await), Met::Done);

    assert_eq!(found(stores[0].find(&name).await), there(&in_one));
    assert_eq!(found(stores[1].find(&name).await), there(&in_other));
}

/// As during a rolling deploy: the new version was here before.
#[tokio::test]
async fn an_older_version_leaves_what_a_newer_one_did() {
    let scene = Scene::new().await;
    scene
        .sql(
            "ALTER TABLE idempotency_keys ADD COLUMN note text;
             INSERT INTO idempotency_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'a later one', true, '\\x00', 0)",
        )
        .await;

    scene.config().migrate().await.unwrap();

    let store = scene.config().connect().await.unwrap();
    assert_eq!(inserted(store.insert(&key("key-0001"), &claim()).await), Met::Done);
    assert_eq!(scene.number("SELECT count(*) FROM idempotency_migrations WHERE version = 9999").await, 1);
    assert_eq!(scene.number("SELECT count(*) FROM pg_attribute WHERE attname = 'note' AND NOT attisdropped").await, 1);
}

#[tokio::test]
async fn a_migration_that_is_not_what_was_run_is_refused() {
    let scene = Scene::new().await;
    scene.sql("UPDATE idempotency_migrations SET checksum = '\\x00'").await;

    let error = scene.config().migrate().await.unwrap_err();

    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_and_can_be_run_again() {
    let scene = Scene::without_table().await;
    scene.sql("CREATE TABLE idempotency_keys_sweep_at ()").await;

    let error = scene.config().migrate().await.unwrap_err();

    assert_eq!(error.certainty(), Certainty::NotWritten, "{error:?}");
    assert_eq!(tables(&scene).await, ["public.idempotency_keys_sweep_at", "public.idempotency_migrations"]);
    scene.sql("DROP TABLE idempotency_keys_sweep_at").await;
    scene.config().migrate().await.unwrap();
    scene.config().connect().await.unwrap();
}
