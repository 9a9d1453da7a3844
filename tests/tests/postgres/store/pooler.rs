//! `PgBouncer` in transaction mode: what works, and what is refused aloud.

use core::error::Error;

use idem_core::{Certainty, KeyStore, StoreErrorKind};
use idem_postgres::{PostgresConfig, PostgresStore, Unfit};
use idem_tests::postgres::PgBouncer;
use sqlx::{Connection, PgConnection};

use crate::scene::{Met, Scene, claim, completed, completion, found, inserted, key, owner, replaced, there};

fn through(bouncer: &PgBouncer) -> PostgresConfig {
    PostgresConfig::new(bouncer.url()).unwrap().behind_transaction_pooler()
}

#[tokio::test]
async fn a_store_that_does_not_know_of_its_pooler_is_refused_and_told_why() {
    let scene = Scene::new().await;
    let bouncer = PgBouncer::create(scene.database.url()).await;

    let error = PostgresStore::connect(bouncer.url()).await.unwrap_err();

    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("unsupported startup parameter"), "{cause}");
}

#[tokio::test]
async fn a_migration_does_not_go_through_a_pooler() {
    let scene = Scene::without_table().await;
    let bouncer = PgBouncer::create(scene.database.url()).await;

    let error = through(&bouncer).migrate().await.unwrap_err();

    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&Unfit::MigratesThroughPooler));
}

#[tokio::test]
async fn a_migration_that_does_not_know_of_its_pooler_is_refused_as_well() {
    let scene = Scene::without_table().await;
    let bouncer = PgBouncer::create(scene.database.url()).await;

    let error = PostgresConfig::new(bouncer.url()).unwrap().migrate().await.unwrap_err();

    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");
    assert_eq!(scene.number("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'idempotency%'").await, 0);
}

/// The application and the store share the only connection to the server.
#[tokio::test]
async fn what_the_store_sets_is_not_left_to_the_next_user_of_the_connection() {
    let scene = Scene::new().await;
    let bouncer = PgBouncer::create_with(scene.database.url(), &[("default_pool_size", "1")]).await;
    let store = through(&bouncer).connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());

    assert_eq!(inserted(store.insert(&name, &mine).await), Met::Done);
    assert_eq!(replaced(store.replace(&name, owner(&mine), &completion(&mine)).await), Met::Done);

    let mut application = PgConnection::connect(bouncer.url()).await.unwrap();
    let settings = "SELECT current_setting('enable_seqscan') || current_setting('lock_timeout')
                           || current_setting('statement_timeout') || current_setting('plan_cache_mode')";
    let settings = sqlx::query_scalar::<_, String>(settings).persistent(false);
    assert_eq!(settings.fetch_one(&mut application).await.unwrap(), "on00auto");
    assert_eq!(found(store.find(&name).await), there(&completed(&mine, "paid")));
}

#[tokio::test]
async fn a_store_through_a_pooler_and_one_without_see_the_same_records() {
    let scene = Scene::new().await;
    let bouncer = PgBouncer::create(scene.database.url()).await;
    let pooled = through(&bouncer).connect().await.unwrap();
    let direct = scene.config().connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());

    assert_eq!(inserted(pooled.insert(&name, &mine).await), Met::Done);

    assert_eq!(inserted(direct.insert(&name, &claim()).await), there(&mine));
    assert_eq!(replaced(direct.replace(&name, owner(&mine), &completion(&mine)).await), Met::Done);
    assert_eq!(found(pooled.find(&name).await), there(&completed(&mine, "paid")));
}
