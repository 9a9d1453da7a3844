//! What the look at the server says before the first request.

use core::error::Error;
use core::fmt::Write;

use idem_core::{Certainty, KeyStore, StoreError, StoreErrorKind};
use idem_postgres::{PostgresConfig, Unfit};
use idem_tests::postgres::Server;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use crate::scene::{Met, Scene, claim, inserted, key, run};

/// Why the store does not open.
async fn unfit(config: PostgresConfig) -> Unfit {
    let error = config.connect().await.expect_err("it is not fit for use");
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");
    cause(&error).clone()
}

fn cause(error: &StoreError) -> &Unfit {
    error.source().and_then(|source| source.downcast_ref()).unwrap_or_else(|| panic!("{error:?}"))
}

/// All that a log would show of it.
fn text(error: &dyn Error) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(error) = next {
        write!(text, " / {error}").unwrap();
        next = error.source();
    }
    text
}

#[tokio::test]
async fn a_missing_table_is_named_with_what_to_do() {
    let scene = Scene::without_table().await;

    let unfit = unfit(scene.config()).await;

    assert_eq!(unfit, Unfit::NoTable);
    assert!(unfit.to_string().contains("PostgresConfig::migrate"), "{unfit}");
}

#[tokio::test]
async fn a_table_off_the_search_path_is_a_missing_table() {
    let scene = Scene::new().await;
    scene.sql("CREATE SCHEMA elsewhere; ALTER TABLE idempotency_keys SET SCHEMA elsewhere").await;

    assert_eq!(unfit(scene.config()).await, Unfit::NoTable);
}

#[tokio::test]
async fn a_missing_column_is_named() {
    for column in ["claimed_at", "epoch", "answer"] {
        let scene = Scene::new().await;
        scene.sql(format!("ALTER TABLE idempotency_keys DROP COLUMN {column}")).await;

        let unfit = unfit(scene.config()).await;

        assert_eq!(unfit, Unfit::NoColumn { column: column.to_owned() });
        assert!(unfit.to_string().contains(column), "{unfit}");
    }
}

#[tokio::test]
async fn a_table_that_lets_two_claims_win_is_refused() {
    let ways = [
        "ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey",
        "ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey, ADD PRIMARY KEY (principal, route, key, token)",
        "ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey;
         CREATE UNIQUE INDEX ON idempotency_keys (principal, route, key) WHERE state = 2",
    ];
    for way in ways {
        let scene = Scene::new().await;
        scene.sql(way).await;

        assert_eq!(unfit(scene.config()).await, Unfit::NotUnique, "{way}");
    }
}

#[tokio::test]
async fn a_table_that_a_crash_empties_is_refused() {
    let scene = Scene::new().await;
    scene.sql("ALTER TABLE idempotency_keys SET UNLOGGED").await;

    assert_eq!(unfit(scene.config()).await, Unfit::Unlogged);
}

#[tokio::test]
async fn a_missing_function_is_named() {
    let scene = Scene::new().await;
    scene.sql("DROP FUNCTION idempotency_lock_and_find").await;

    assert_eq!(unfit(scene.config()).await, Unfit::NoFunction);
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_named() {
    let scene = Scene::new().await;
    scene.sql(format!("ALTER DATABASE {} SET default_transaction_read_only = on", scene.database.name())).await;

    assert_eq!(unfit(scene.config()).await, Unfit::ReadOnly);
}

#[tokio::test]
async fn a_database_that_cannot_hold_every_name_is_named() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let server = Server::create().await;
        let mut connection = PgConnection::connect(&server.url("postgres")).await.unwrap();
        let create =
            format!("CREATE DATABASE other TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
        run(&mut connection, create).await;

        let config = PostgresConfig::new(&server.url("other")).unwrap();

        assert_eq!(unfit(config).await, Unfit::Encoding { encoding: encoding.to_owned() });
    }
}

#[tokio::test]
async fn a_server_that_may_forget_a_claim_is_refused_unless_that_is_allowed_by_name() {
    let scene = Scene::new().await;
    scene.sql(format!("ALTER DATABASE {} SET synchronous_commit = off", scene.database.name())).await;

    assert_eq!(unfit(scene.config()).await, Unfit::ForgetsClaims);

    let store = scene.config().allow_losing_acknowledged_claims_in_a_crash().connect().await.unwrap();
    assert_eq!(inserted(store.insert(&key("key-0001"), &claim()).await), Met::Done);
}

#[tokio::test]
async fn a_store_that_was_opened_without_a_look_can_look_later() {
    let scene = Scene::without_table().await;
    let store = scene.config().connect_lazily();

    let error = store.probe().await.unwrap_err();
    assert_eq!(cause(&error), &Unfit::NoTable);
    let error = store.insert(&key("key-0001"), &claim()).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");

    scene.config().migrate().await.unwrap();
    store.probe().await.unwrap();
    assert_eq!(inserted(store.insert(&key("key-0001"), &claim()).await), Met::Done);
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_and_not_repeated() {
    for url in [
        "postgres://payments:kept-secret@db.internal:port/payments",
        "postgres://payments:kept-secret@db.internal/payments?sslmode=sometimes",
        "mysql://payments:kept-secret@db.internal/payments",
        "payments:kept-secret@db.internal",
        "",
    ] {
        let error = PostgresConfig::new(url).expect_err(url);

        assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{url}");
        assert!(!text(&error).contains("kept-secret"), "{}", text(&error));
    }
}

#[tokio::test]
async fn settings_and_stores_show_no_password() {
    let url = "postgres://payments:kept-secret@db.internal/payments";

    let config = PostgresConfig::new(url).unwrap();

    assert!(!format!("{config:?}").contains("kept-secret"), "{config:?}");
    let store = config.connect_lazily();
    assert!(!format!("{store:?}").contains("kept-secret"), "{store:?}");
}

#[tokio::test]
async fn a_login_that_is_not_known_is_a_wrong_setting() {
    let scene = Scene::new().await;
    let options: PgConnectOptions = scene.database.url().parse().unwrap();
    let options = options.username("nobody-of-this-name").password("kept-secret");

    let error = PostgresConfig::with_options(options).connect().await.unwrap_err();

    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Misconfigured, Certainty::NotWritten), "{error:?}");
    assert!(!text(&error).contains("kept-secret"), "{}", text(&error));
}
