//! What waits travels together.

use core::pin::pin;
use core::time::Duration;

use futures_util::future::join_all;
use idem_core::{Change, KeyStore, NewRecord, ScopedKey};
use idem_postgres::{PostgresConfig, PostgresStore};
use idem_tests::postgres::Server;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::scene::{
    Met, Scene, at_once, claim, completed, completion, found, inserted, key, keys, owner, renewal, replaced, there,
};

/// Asks for all of these at once: none of them can be sent before the last is asked for, because the queue works in a
/// task of its own, and this runtime has one thread.
async fn claim_all(store: &PostgresStore, claims: &[(ScopedKey, NewRecord)]) -> Vec<Met> {
    at_once(claims.iter().map(async |(key, claim)| inserted(store.insert(key, claim).await))).await
}

async fn complete_all(store: &PostgresStore, claims: &[(ScopedKey, NewRecord)]) -> Vec<Met> {
    let complete = async |(key, claim): &(ScopedKey, NewRecord)| {
        replaced(store.replace(key, owner(claim), &completion(claim)).await)
    };
    at_once(claims.iter().map(complete)).await
}

fn claims(count: usize) -> Vec<(ScopedKey, NewRecord)> {
    keys(count).into_iter().map(|key| (key, claim())).collect()
}

/// Rows written by one statement have one transaction. How many rows each transaction wrote, and how many bytes of
/// answers.
async fn statements(stranger: &PgPool) -> Vec<(i64, i64)> {
    let written = sqlx::query_as(
        "SELECT count(*), coalesce(sum(octet_length(answer)), 0)::bigint FROM idempotency_keys GROUP BY xmin::text",
    );
    written.fetch_all(stranger).await.unwrap()
}

/// A server that can stand still, so that whoever asks meanwhile has to wait.
struct Halting {
    server: Server,
    stranger: PgPool,
    store: PostgresStore,
}

impl Halting {
    async fn new(group_size: usize) -> Self {
        let server = Server::create().await;
        let url = server.url("postgres");
        let long = Duration::from_secs(120);
        let config = PostgresConfig::new(&url).unwrap();
        config.migrate().await.unwrap();
        let config = config.connect_timeout(long).command_timeout(long).lock_timeout(long);
        let store = config.group_size(group_size).connect().await.unwrap();
        Self { server, stranger: PgPoolOptions::new().connect(&url).await.unwrap(), store }
    }

    /// Asks while the server stands still, and has it go on once all has been asked for.
    async fn meanwhile<T>(&self, asks: impl Future<Output = T>) -> T {
        let mut asks = pin!(asks);
        self.server.pause();
        assert!(futures_util::poll!(&mut asks).is_pending());
        self.server.resume();
        asks.await
    }
}

#[tokio::test]
async fn what_is_asked_for_at_once_takes_few_statements_and_each_caller_gets_his_own_answer() {
    let halting = Halting::new(128).await;
    let store = &halting.store;
    let claims = claims(100);
    let (first, others) = claims.split_first().unwrap();
    assert_eq!(inserted(store.insert(&first.0, &first.1).await), Met::Done);

    let mut asked = others.to_vec();
    asked.insert(50, (first.0.clone(), claim()));
    let mut met = halting.meanwhile(claim_all(store, &asked)).await;

    assert_eq!(met.remove(50), there(&first.1));
    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");

    let met = halting.meanwhile(complete_all(store, &claims)).await;

    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");
    // Two find nobody to wait for.
    let written = statements(&halting.stranger).await;
    assert!(written.len() <= 3, "{written:?}");
    for (key, claim) in &claims {
        assert_eq!(found(store.find(key).await), there(&completed(claim, "paid")));
    }
}

#[tokio::test]
async fn no_group_is_larger_than_its_bound_and_all_of_a_crowd_are_answered() {
    let halting = Halting::new(8).await;
    let claims = claims(100);

    let met = halting.meanwhile(claim_all(&halting.store, &claims)).await;

    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");
    let written = statements(&halting.stranger).await;
    assert!(written.iter().all(|(rows, _)| *rows <= 8), "{written:?}");

    let met = halting.meanwhile(complete_all(&halting.store, &claims)).await;

    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");
    let written = statements(&halting.stranger).await;
    assert!(written.iter().all(|(rows, _)| *rows <= 8), "{written:?}");
    assert!(written.len() <= 15, "{written:?}");
}

#[tokio::test]
async fn no_group_has_more_bytes_than_its_bound_unless_it_is_one_write() {
    // Of the answers; their headers and lengths come on top.
    const BOUND: i64 = (4 << 20) + 1024;
    let halting = Halting::new(128).await;
    let store = &halting.store;
    let claims = claims(12);
    claim_all(store, &claims).await;

    let large = |number: usize| vec![7_u8; if number == 5 { 6 << 20 } else { 1 << 20 }];
    let completions = claims.iter().enumerate().map(async |(number, (key, claim))| {
        let change = Change::Record(completed(claim, large(number)));
        replaced(store.replace(key, owner(claim), &change).await)
    });
    let met = halting.meanwhile(at_once(completions)).await;

    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");
    let written = statements(&halting.stranger).await;
    assert!(written.iter().all(|(rows, bytes)| *rows == 1 || *bytes <= BOUND), "{written:?}");
    assert!(written.iter().any(|(rows, _)| *rows > 1), "{written:?}");
    for (number, (key, claim)) in claims.iter().enumerate() {
        assert_eq!(found(store.find(key).await), there(&completed(claim, large(number))));
    }
}

#[tokio::test]
async fn two_claims_of_one_key_at_once_have_one_winner_whom_the_other_sees() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let mut twice = claims(40);
    let others: Vec<_> = twice.iter().map(|(key, _)| (key.clone(), claim())).collect();
    twice.extend(others);

    let met = claim_all(&store, &twice).await;

    let (ones, others) = twice.split_at(40);
    for (number, (one, other)) in ones.iter().zip(others).enumerate() {
        let answers = (&met[number], &met[number + 40]);
        let one_won = answers == (&Met::Done, &there(&one.1));
        let other_won = answers == (&there(&other.1), &Met::Done);
        assert!(one_won || other_won, "{answers:?}");
        let winner = if one_won { &one.1 } else { &other.1 };
        assert_eq!(found(store.find(&one.0).await), there(winner));
    }
}

#[tokio::test]
async fn a_renewal_and_a_completion_of_one_key_at_once_are_answered_as_if_one_came_first() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let claims = claims(40);
    claim_all(&store, &claims).await;

    let both = claims.iter().enumerate().map(async |(number, (key, claim))| {
        let (renew, complete) = (renewal(), completion(claim));
        let renewed = store.replace(key, owner(claim), &renew);
        let settled = store.replace(key, owner(claim), &complete);
        if number % 2 == 0 {
            tokio::join!(renewed, settled)
        } else {
            let (settled, renewed) = tokio::join!(settled, renewed);
            (renewed, settled)
        }
    });
    let answers = at_once(both).await;

    for ((key, claim), (renewed, settled)) in claims.iter().zip(answers) {
        let settled_record = completed(claim, "paid");
        assert_eq!(replaced(settled), Met::Done);
        let renewed = replaced(renewed);
        assert!(renewed == Met::Done || renewed == there(&settled_record), "{renewed:?}");
        assert_eq!(found(store.find(key).await), there(&settled_record));
    }
}

/// As from several processes, and each asks in another order.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_many_stores_over_the_same_keys_give_each_key_to_one() {
    let scene = Scene::new().await;
    let keys = keys(200);
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(scene.config().groups_in_flight(4).connect().await.unwrap());
    }

    let of_each = stores.iter().enumerate().map(|(number, store)| {
        let mut asked: Vec<_> = keys.iter().map(|key| (key.clone(), claim())).collect();
        asked.rotate_left(number * 50);
        if number % 2 == 1 {
            asked.reverse();
        }
        let store = store.clone();
        tokio::spawn(async move {
            let met = claim_all(&store, &asked).await;
            let mut met: Vec<_> = asked.into_iter().zip(met).collect();
            met.sort_by(|((a, _), _), ((b, _), _)| a.key().as_str().cmp(b.key().as_str()));
            met
        })
    });
    let met: Vec<Vec<_>> = join_all(of_each).await.into_iter().map(Result::unwrap).collect();

    for number in 0..keys.len() {
        let of_key: Vec<_> = met.iter().map(|of_store| &of_store[number]).collect();
        let winners: Vec<_> = of_key.iter().filter(|(_, met)| *met == Met::Done).collect();
        let [((_, winner), _)] = winners[..] else { panic!("{} winners of {number}", winners.len()) };
        let losers = of_key.iter().filter(|(_, met)| *met != Met::Done);
        losers.for_each(|(_, met)| assert_eq!(*met, there(winner)));
    }
}

/// While a statement is under way, nothing of what waits is sent yet; who has gone by then is left out.
#[tokio::test]
async fn a_write_whose_caller_has_gone_while_it_waited_is_not_sent_and_the_others_are() {
    let halting = Halting::new(128).await;
    let store = &halting.store;
    let claims = claims(2);
    let (gone, stays, record) = (key("key-that-is-given-up"), key("key-that-stays"), claim());

    let met = halting
        .meanwhile(async {
            let mut under_way = pin!(claim_all(store, &claims));
            assert!(futures_util::poll!(&mut under_way).is_pending());
            let mut given_up = Box::pin(store.insert(&gone, &record));
            let mut waits = pin!(store.insert(&stays, &record));
            assert!(futures_util::poll!(&mut given_up).is_pending());
            assert!(futures_util::poll!(&mut waits).is_pending());
            drop(given_up);
            tokio::join!(under_way, waits)
        })
        .await;

    assert_eq!((met.0, inserted(met.1)), (vec![Met::Done, Met::Done], Met::Done));
    assert_eq!(found(store.find(&gone).await), Met::Vacant);
}
