//! Completions stay on the page of their claim and touch no index.

use std::time::Duration;

use idem_core::{Change, KeyStore, NewRecord, OsTokens, ScopedKey, TokenSource};
use idem_postgres::PostgresStore;

use crate::scene::{Met, Scene, at_once, claim, completed, inserted, keys, owner, replaced};

const KEYS: usize = 400;

/// Bytes that no compression makes fewer.
fn random(length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        bytes.extend(OsTokens.draw().unwrap().to_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Nobody analyzes the table meanwhile: a snapshot keeps dead versions on their page for as long as it lasts.
async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.sql("ALTER TABLE idempotency_keys SET (autovacuum_enabled = off)").await;
    scene
}

async fn claim_one(store: &PostgresStore, key: &ScopedKey) -> NewRecord {
    let claim = claim().expecting(Duration::from_secs(24 * 3600));
    assert_eq!(inserted(store.insert(key, &claim).await), Met::Done);
    claim
}

async fn complete(store: &PostgresStore, key: &ScopedKey, claim: &NewRecord, bytes: usize) {
    let change = Change::Record(completed(claim, random(bytes)));
    assert_eq!(replaced(store.replace(key, owner(claim), &change).await), Met::Done);
}

/// Of all updates of the table, how many in a hundred were HOT. Ends the store: a session tells its counts as it ends.
async fn hot_share(scene: &Scene, store: PostgresStore) -> i64 {
    drop(store);
    let updates = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'";
    let all = i64::try_from(KEYS).unwrap();
    idem_tests::eventually("all updates are counted", async || scene.number(updates).await == all).await;
    scene
        .number("SELECT 100 * n_tup_hot_upd / n_tup_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'")
        .await
}

#[tokio::test]
async fn completions_right_after_their_claims_are_hot() {
    for bytes in [256, 4096] {
        let scene = scene().await;
        let store = scene.config().connect().await.unwrap();

        for key in keys(KEYS) {
            let claim = claim_one(&store, &key).await;
            complete(&store, &key, &claim, bytes).await;
        }

        let share = hot_share(&scene, store).await;
        assert!(share >= 95, "{bytes} bytes: {share} %");
    }
}

#[tokio::test]
async fn completions_long_after_their_claims_are_hot() {
    for bytes in [256, 4096] {
        let scene = scene().await;
        let store = scene.config().connect().await.unwrap();
        let mut claims = Vec::new();
        for key in keys(KEYS) {
            claims.push(claim_one(&store, &key).await);
        }

        for (key, claim) in keys(KEYS).iter().zip(&claims) {
            complete(&store, key, claim, bytes).await;
        }

        let share = hot_share(&scene, store).await;
        assert!(share >= 95, "{bytes} bytes: {share} %");
    }
}

#[tokio::test]
async fn most_completions_of_a_group_are_hot() {
    let scene = scene().await;
    let store = scene.config().connect().await.unwrap();
    let keys = keys(KEYS);
    let claims = at_once(keys.iter().map(|key| claim_one(&store, key))).await;

    at_once(keys.iter().zip(&claims).map(|(key, claim)| complete(&store, key, claim, 256))).await;

    let share = hot_share(&scene, store).await;
    assert!(share >= 80, "{share} %");
}
