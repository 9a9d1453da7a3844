//! One transaction for business and key.

use idem_core::{Certainty, TransactionalStore};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idem_postgres::sqlx::{query, query_scalar};

use crate::proxy::{Cut, Proxy};
use crate::scene::{Scene, key, once_free, paid};

#[tokio::test]
async fn a_payment_and_its_key_are_there_together_and_a_retry_gets_the_same_bytes() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment"));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment").replayed());
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["payment".into()], Some("completed")));
    let other = service.pay_amount("key-00000001", "pays", "900.00").await;
    assert_eq!(other.problem(), (422, "key-reused"));
}

#[tokio::test]
async fn a_key_costs_one_row_version() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    service.pay("key-00000001", "pays").await;
    let xids: Vec<String> =
        query_scalar("SELECT xmin::text FROM idempotency_keys UNION ALL SELECT xmin::text FROM ledger")
            .fetch_all(&scene.pool)
            .await
            .unwrap();
    assert!(xids.len() == 2 && xids[0] == xids[1], "record and payment are of one transaction: {xids:?}");
    let place: String = query_scalar("SELECT ctid::text FROM idempotency_keys").fetch_one(&scene.pool).await.unwrap();
    assert_eq!(place, "(0,1)", "the first version of the row is the only one");
}

#[tokio::test]
async fn a_business_error_is_remembered_and_its_writes_are_not() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    let refused = service.pay("key-00000001", "refuses").await;
    assert_eq!((refused.status, refused.body.as_str()), (422, "no funds"));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec![], Some("completed")));
    assert_eq!(service.pay("key-00000001", "pays").await, refused.replayed());
}

#[tokio::test]
async fn a_failure_leaves_nothing_and_its_retry_runs() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    for (key, does, status) in [("key-0000fail", "fails", 502), ("key-0000busy", "asks to come back", 429)] {
        assert_eq!(service.pay(key, does).await.status, status);
        assert_eq!(scene.state(key).await, None);
    }
    assert!(scene.ledger().await.is_empty());
    let panicked = service.paying("key-000panic", "panics").await;
    assert!(panicked.is_err_and(|error| error.is_panic()), "a panic goes on to whoever polls");
    assert!(scene.ledger().await.is_empty());
    for key in ["key-0000fail", "key-0000busy", "key-000panic"] {
        assert_eq!(service.pay(key, "pays").await, paid("payment"));
    }
    assert_eq!(scene.ledger().await.len(), 3);
}

#[tokio::test]
async fn a_success_over_an_aborted_transaction_is_a_500_and_its_retry_runs() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    let seen = service.pay("key-00000001", "passes over an error").await;
    assert_eq!(seen.problem(), (500, "not-committed"));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec![], None));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment"));
}

#[tokio::test]
async fn a_success_without_the_transaction_is_a_500_and_its_retry_runs() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    let seen = service.pay("key-00000001", "never takes the transaction").await;
    assert_eq!(seen.problem(), (500, "not-committed"));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec![], None));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment"));
}

async fn through(scene: &Scene) -> (Proxy, PgConnectOptions) {
    let options = scene.options();
    let proxy = Proxy::before(options.get_port()).await;
    let options = options.host("127.0.0.1").port(proxy.port());
    (proxy, options)
}

#[tokio::test]
async fn a_crash_before_the_commit_leaves_nothing_and_frees_the_key() {
    let scene = Scene::new().await;
    let (proxy, options) = through(&scene).await;
    let crashing = scene.service(options).await;
    let request = crashing.paying("key-00000001", "waits");
    crashing.gates.is_inside.notified().await;
    proxy.die();
    let survivor = scene.plain_service().await;
    assert_eq!(once_free(&survivor, "key-00000001", "pays").await, paid("payment"));
    crashing.gates.may_go_on.notify_one();
    let seen = request.await.unwrap();
    assert!(seen.status >= 500, "no success goes out for what did not happen: {seen:?}");
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["payment".into()], Some("completed")));
}

#[tokio::test]
async fn a_crash_after_the_commit_loses_no_answer() {
    let scene = Scene::new().await;
    let (proxy, options) = through(&scene).await;
    let crashing = scene.service(options).await;
    let request = crashing.paying("key-00000001", "waits");
    crashing.gates.is_inside.notified().await;
    proxy.cut_once(Cut::AfterCommit);
    crashing.gates.may_go_on.notify_one();
    let survivor = scene.plain_service().await;
    // The client is gone with its process; its retry comes elsewhere.
    assert_eq!(once_free(&survivor, "key-00000001", "pays").await, paid("payment").replayed());
    request.abort();
    proxy.die();
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["payment".into()], Some("completed")));
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_is_looked_up_and_its_client_gets_the_answer() {
    let scene = Scene::new().await;
    let (proxy, options) = through(&scene).await;
    let service = scene.service(options).await;
    proxy.cut_once(Cut::AfterCommit);
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment"));
    assert_eq!((scene.ledger().await, scene.state("key-00000001").await), (vec!["payment".into()], Some("completed")));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment").replayed());
}

#[tokio::test]
async fn a_commit_that_never_reached_the_server_is_a_503_and_its_retry_runs() {
    let scene = Scene::new().await;
    let (proxy, options) = through(&scene).await;
    let service = scene.service(options).await;
    proxy.cut_once(Cut::BeforeCommit);
    assert_eq!(service.pay("key-00000001", "pays").await.problem(), (503, "store-unavailable"));
    assert_eq!(once_free(&service, "key-00000001", "pays").await, paid("payment"));
    assert_eq!(scene.ledger().await, ["payment"]);
}

#[tokio::test]
async fn a_duplicate_is_in_progress_at_once_and_holds_no_connection() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    let first = service.paying("key-00000001", "waits");
    service.gates.is_inside.notified().await;
    // More of them than the pool has connections: one that waited would be the last that is answered.
    for _ in 0..20 {
        assert_eq!(service.pay("key-00000001", "pays").await.problem(), (409, "in-progress"));
    }
    assert_eq!(service.pay("key-00000002", "pays").await, paid("payment"));
    service.gates.may_go_on.notify_one();
    assert_eq!(first.await.unwrap(), paid("payment"));
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment").replayed());
    assert_eq!(scene.ledger().await.len(), 2);
}

/// Keys that several processes race for.
const KEYS: usize = 150;

async fn race(scene: &Scene, options: PgConnectOptions) {
    let services =
        [scene.service(options.clone()).await, scene.service(options.clone()).await, scene.service(options).await];
    for number in 0..KEYS {
        let key: &'static str = format!("key-of-race-{number}").leak();
        let racers = services.each_ref().map(|service| service.paying(key, "pays"));
        let mut ran = 0;
        for racer in racers {
            let seen = racer.await.unwrap();
            ran += usize::from(seen == paid("payment"));
            let is_refused = [(409, "in-progress"), (503, "store-unavailable")].contains(&seen.problem());
            assert!(seen.status == 201 || is_refused, "{seen:?}");
        }
        assert!(ran <= 1, "{ran} ran with {key}");
        // Whatever they got, a retry gets it done, and done once.
        let seen = once_free(&services[0], key, "pays").await;
        assert_eq!((seen.status, seen.body.as_str()), (201, "booked payment"));
        assert_eq!(scene.ledger().await.len(), number + 1, "after {key}");
    }
}

/// Entries that were made, those among them that were rolled back.
async fn entries_made(scene: &Scene) -> i64 {
    query_scalar("SELECT last_value FROM ledger_id_seq").fetch_one(&scene.pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_executions_that_race_one_takes_effect_and_no_other_handler_runs() {
    let scene = Scene::new().await;
    let options = scene.options();
    race(&scene, options).await;
    assert_eq!(entries_made(&scene).await, i64::try_from(KEYS).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn serialisable_callers_that_race_take_effect_once() {
    let scene = Scene::new().await;
    let options = scene.options().options([("default_transaction_isolation", "serializable")]);
    race(&scene, options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatable_readers_that_race_take_effect_once() {
    let scene = Scene::new().await;
    let options = scene.options().options([("default_transaction_isolation", "repeatable read")]);
    race(&scene, options).await;
}

#[tokio::test]
async fn savepoints_are_the_handlers_own_and_the_record_commits_with_the_whole() {
    let scene = Scene::new().await;
    let service = scene.plain_service().await;
    assert_eq!(service.pay("key-00000001", "nests savepoints").await, paid("payment, fee"));
    assert_eq!(scene.ledger().await, ["payment", "fee"]);
    assert_eq!(service.pay("key-00000001", "pays").await, paid("payment, fee").replayed());
}

#[tokio::test]
async fn an_expired_key_runs_anew_whichever_version_wrote_it() {
    let scene = Scene::new().await;
    let (service, leases) = (scene.plain_service().await, scene.service_with_leases());
    for format in [1_i16, 2] {
        for key in ["key-00000001", "key-00000002"] {
            service.pay(key, "pays").await;
        }
        query(
            "UPDATE idempotency_keys
             SET expires_at = clock_timestamp() - interval '1 s', lease_until = '-infinity', format = $1",
        )
        .bind(format)
        .execute(&scene.pool)
        .await
        .unwrap();
        assert_eq!(service.pay("key-00000001", "pays").await, paid("payment"));
        assert_eq!(service.pay("key-00000001", "pays").await, paid("payment").replayed());
        assert_eq!(leases.pay("key-00000002", "pays").await, paid("leased"));
        query("TRUNCATE idempotency_keys").execute(&scene.pool).await.unwrap();
    }
}

#[tokio::test]
async fn an_opening_that_is_given_up_leaves_no_connection_in_a_transaction() {
    let scene = Scene::new().await;
    let options = scene.options();
    let proxy = Proxy::before(options.get_port()).await;
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = pool.connect_with(options.host("127.0.0.1").port(proxy.port())).await.unwrap();
    let transactions = scene.store.in_transaction(pool.clone());
    proxy.hold_replies(true);
    // Longer than the store waits for a connection.
    let opened = transactions.open(&key("key-00000001")).await;
    assert!(matches!(&opened, Err(error) if error.certainty() == Certainty::NotWritten), "{opened:?}");
    proxy.hold_replies(false);
    query("INSERT INTO ledger (entry) VALUES ('by the next user of the pool')").execute(&pool).await.unwrap();
    assert_eq!(scene.ledger().await, ["by the next user of the pool"]);
}
