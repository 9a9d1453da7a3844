//! What a caller hears while the server is away, and what it may conclude.

use core::time::Duration;

use idem_core::{Certainty, KeyStore, Replaced, StoreError, StoreErrorKind};
use idem_postgres::PostgresConfig;
use idem_tests::postgres::Server;
use sqlx::PgTransaction;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinHandle;

use crate::scene::{
    Met, at_once, claim, completion, found, inserted, is_in_progress, key, keys, owner, record, replaced, run, there,
    until_somebody_waits,
};

/// A server of its own, with the table.
async fn server() -> (Server, PostgresConfig) {
    let server = Server::create().await;
    let config = PostgresConfig::new(&server.url("postgres")).unwrap();
    config.migrate().await.unwrap();
    (server, config)
}

fn is_unavailable(answer: Result<impl core::fmt::Debug, StoreError>) -> Certainty {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
    error.certainty()
}

/// Asks until the server is back for this store: what is left of connections from before fails first.
async fn once_back<T>(mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..100 {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}"),
        }
    }
    panic!("the server is there, and the store does not find it");
}

#[tokio::test]
async fn a_write_that_finds_no_server_is_certainly_not_written() {
    let (server, config) = server().await;
    let store = config.connect_timeout(Duration::from_millis(300)).connect_lazily();
    server.stop().await;
    let (name, mine) = (key("key-0001"), claim());

    assert_eq!(is_unavailable(store.insert(&name, &mine).await), Certainty::NotWritten);
    assert_eq!(is_unavailable(store.replace(&name, owner(&mine), &completion(&mine)).await), Certainty::NotWritten);
    is_unavailable(store.find(&name).await);
    is_unavailable(store.stats().await);
    is_unavailable(store.sweep(core::num::NonZeroU32::MIN).await);
}

#[tokio::test]
async fn a_store_outlives_the_restart_of_its_server() {
    let (server, config) = server().await;
    let store = config.connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());
    assert_eq!(inserted(store.insert(&name, &mine).await), Met::Done);

    server.restart().await;

    let seen = once_back(async || store.find(&name).await).await;
    assert_eq!(found(Ok(seen)), there(&mine));
    assert_eq!(replaced(store.replace(&name, owner(&mine), &completion(&mine)).await), Met::Done);
}

#[tokio::test]
async fn a_store_that_is_closed_keeps_no_connection_and_writes_nothing_more() {
    let (server, config) = server().await;
    let store = config.connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());
    assert_eq!(inserted(store.insert(&name, &mine).await), Met::Done);

    store.close().await;

    assert_eq!(store.pool().size(), 0);
    assert_eq!(is_unavailable(store.insert(&key("key-0002"), &claim()).await), Certainty::NotWritten);
    let store = PostgresConfig::new(&server.url("postgres")).unwrap().connect().await.unwrap();
    assert_eq!(found(store.find(&name).await), there(&mine));
    assert_eq!(found(store.find(&key("key-0002")).await), Met::Vacant);
}

#[tokio::test]
async fn a_store_that_opened_before_its_server_finds_it_later() {
    let (server, config) = server().await;
    server.stop().await;
    let store = config.connect_timeout(Duration::from_millis(300)).connect_lazily();
    is_unavailable(store.probe().await);

    server.start().await;

    once_back(async || store.probe().await).await;
    assert_eq!(inserted(store.insert(&key("key-0001"), &claim()).await), Met::Done);
}

/// One connection is there from before. Whatever is sent on it may have arrived; after that there is none.
#[tokio::test]
async fn a_killed_server_leaves_at_most_the_connections_from_before_in_doubt() {
    let (server, config) = server().await;
    let store = config.connect_timeout(Duration::from_millis(300)).connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());
    assert_eq!(inserted(store.insert(&name, &mine).await), Met::Done);

    server.kill().await;

    is_unavailable(store.insert(&key("key-0002"), &claim()).await);
    assert_eq!(is_unavailable(store.insert(&key("key-0003"), &claim()).await), Certainty::NotWritten);
    server.start().await;
    let seen = once_back(async || store.find(&name).await).await;
    assert_eq!(found(Ok(seen)), there(&mine));
}

#[tokio::test]
async fn a_write_under_way_when_the_server_is_killed_is_in_doubt() {
    let (server, config) = server().await;
    let config = config.command_timeout(Duration::from_secs(120));
    let (under_way, _stranger) = waits_at_the_server(&server, config).await;

    server.kill().await;

    assert_eq!(is_unavailable(under_way.await.unwrap()), Certainty::Unknown);
}

/// It may be the stranger whom the server ends first; then the completion does not wait any more.
#[tokio::test]
async fn a_write_under_way_when_the_server_shuts_down_is_written_or_in_doubt() {
    let (server, config) = server().await;
    let config = config.command_timeout(Duration::from_secs(120));
    let again = config.clone();
    let (under_way, _stranger) = waits_at_the_server(&server, config).await;

    server.stop().await;

    match under_way.await.unwrap() {
        Err(error) => assert_eq!(is_unavailable(Err::<Replaced, _>(error)), Certainty::Unknown),
        Ok(written) => {
            assert_eq!(replaced(Ok(written)), Met::Done);
            server.start().await;
            let found = again.connect().await.unwrap().find(&key("key-0001")).await.unwrap().unwrap();
            assert!(!is_in_progress(&record(found)));
        }
    }
}

#[tokio::test]
async fn a_write_under_way_when_the_server_falls_silent_is_in_doubt_once_its_time_is_over() {
    let (server, config) = server().await;
    // Longer than it takes to get there.
    let config = config.command_timeout(Duration::from_secs(8));
    let (under_way, _stranger) = waits_at_the_server(&server, config).await;

    server.pause();

    assert_eq!(is_unavailable(under_way.await.unwrap()), Certainty::Unknown);
}

/// A completion that has reached the server, which waits there for a stranger.
async fn waits_at_the_server(
    server: &Server,
    config: PostgresConfig,
) -> (JoinHandle<Result<Replaced, StoreError>>, PgTransaction<'static>) {
    let store = config.lock_timeout(Duration::from_secs(120)).connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());
    assert_eq!(inserted(store.insert(&name, &mine).await), Met::Done);
    let scene = PgPoolOptions::new().max_connections(2).connect(&server.url("postgres")).await.unwrap();
    let mut stranger = scene.begin().await.unwrap();
    run(&mut *stranger, "SELECT FROM idempotency_keys FOR UPDATE").await;
    let under_way = tokio::spawn(async move { store.replace(&name, owner(&mine), &completion(&mine)).await });
    until_somebody_waits(&scene).await;
    (under_way, stranger)
}

/// Within the bounds that were set, and with the right doubt: a statement was sent, a connection was not.
#[tokio::test]
async fn a_server_that_stands_still_is_unavailable_and_what_was_sent_to_it_is_in_doubt() {
    let (server, config) = server().await;
    let bound = Duration::from_millis(300);
    let store = config.connect_timeout(bound).command_timeout(bound).groups_in_flight(1).connect().await.unwrap();
    let (name, mine) = (key("key-0001"), claim());
    once_back(async || store.find(&name).await).await;
    server.pause();

    // The connection from before is used again, unless this machine was so slow that it is asked first.
    is_unavailable(store.insert(&name, &mine).await);
    assert_eq!(is_unavailable(store.insert(&key("key-0002"), &claim()).await), Certainty::NotWritten);
    is_unavailable(store.find(&name).await);

    server.resume();
    // The claim may have landed. Whoever asks again with its token learns it.
    let again = once_back(async || store.insert(&name, &mine).await).await;
    let again = inserted(Ok(again));
    assert!(again == Met::Done || again == there(&mine), "{again:?}");
    assert_eq!(found(store.find(&name).await), there(&mine));
    assert_eq!(inserted(store.insert(&key("key-0003"), &claim()).await), Met::Done);
}

#[tokio::test]
async fn a_claim_in_a_group_under_way_when_the_server_stands_still_is_in_doubt_and_one_that_waits_is_not() {
    let (server, config) = server().await;
    let bound = Duration::from_millis(300);
    let store = config.connect_timeout(bound).command_timeout(bound).groups_in_flight(1).connect().await.unwrap();
    once_back(async || store.find(&key("key-0001")).await).await;
    server.pause();

    let keys = keys(300);
    let asked = keys.iter().map(async |key| is_unavailable(store.insert(key, &claim()).await));
    let answers = at_once(asked).await;

    server.resume();
    let written = once_back(async || store.stats().await).await.records.unwrap();
    let in_doubt = answers.iter().filter(|certainty| **certainty == Certainty::Unknown).count();
    assert!(written <= in_doubt as u64, "{written} of {in_doubt} in doubt");
}
