//! A service over one database: its business table, its keys, and what its clients see.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_core::{Content, IdempotencyKey, KeyStore, Principal, Route, ScopedKey, State};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idem_postgres::sqlx::{Connection, PgPool, PgTransaction, query, query_scalar};
use idem_postgres::{PostgresConfig, PostgresStore};
use idem_tests::servers::postgres::Database;
use idem_tower::{IdempotencyLayer, Tx, every_caller_shares_all_keys, fixed_route};
use tokio::sync::Notify;
use tower::ServiceExt;

pub(crate) struct Scene {
    database: Database,
    /// Past everything that is tested.
    pub(crate) pool: PgPool,
    pub(crate) store: PostgresStore,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let database = Database::create().await;
        let config = PostgresConfig::new(database.url()).unwrap();
        config.migrate().await.unwrap();
        let pool = PgPoolOptions::new().max_connections(8).connect(database.url()).await.unwrap();
        query("CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY, entry text NOT NULL)")
            .execute(&pool)
            .await
            .unwrap();
        Self { database, pool, store: config.max_connections(4).connect().await.unwrap() }
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        self.database.url().parse().unwrap()
    }

    /// A pool as an application has it.
    pub(crate) async fn pool_of(&self, options: PgConnectOptions) -> PgPool {
        PgPoolOptions::new().max_connections(8).connect_with(options).await.unwrap()
    }

    /// A process of the service, whose transactions go this way to the database.
    pub(crate) async fn service(&self, options: PgConnectOptions) -> Service {
        let pool = self.pool_of(options).await;
        let gates = Arc::new(Gates::default());
        let layer = IdempotencyLayer::one_transaction(
            self.store.in_transaction(pool),
            every_caller_shares_all_keys,
            fixed_route(route()),
        );
        let router = Router::new().route("/pay", post(pay).layer(layer)).with_state(Arc::clone(&gates));
        Service { router, gates }
    }

    /// One that reaches the database as it is.
    pub(crate) async fn plain_service(&self) -> Service {
        self.service(self.options()).await
    }

    /// One that runs the route under leases, and books by itself.
    pub(crate) fn service_with_leases(&self) -> Service {
        let layer = IdempotencyLayer::new(self.store.clone(), every_caller_shares_all_keys, fixed_route(route()));
        let (pool, gates) = (self.pool.clone(), Arc::new(Gates::default()));
        let inside = Arc::clone(&gates);
        let pay = post(async move |request: Request| {
            if request.headers()["x-does"] == "waits" {
                inside.is_inside.notify_one();
                inside.may_go_on.notified().await;
            }
            query("INSERT INTO ledger (entry) VALUES ('leased')").execute(&pool).await.unwrap();
            (StatusCode::CREATED, "booked leased").into_response()
        });
        Service { router: Router::new().route("/pay", pay.layer(layer)), gates }
    }

    /// What the business table holds.
    pub(crate) async fn ledger(&self) -> Vec<String> {
        query_scalar("SELECT entry FROM ledger ORDER BY id").fetch_all(&self.pool).await.unwrap()
    }

    /// What the record says; `None` where there is none.
    pub(crate) async fn state(&self, name: &str) -> Option<&'static str> {
        self.store.find(&key(name)).await.unwrap().map(|found| match found.content {
            Content::Readable(record) => match record.state {
                State::InProgress => "in progress",
                State::Completed(_) => "completed",
                State::Failed { .. } => "failed",
                State::Released => "released",
            },
            Content::Unreadable(_) => "unreadable",
        })
    }
}

pub(crate) fn route() -> Route {
    Route::new("/pay").unwrap()
}

pub(crate) fn key(name: &str) -> ScopedKey {
    ScopedKey::new(Principal::shared(), route(), IdempotencyKey::parse(name).unwrap())
}

/// Holds handlers until the test lets them go on.
#[derive(Default)]
pub(crate) struct Gates {
    pub(crate) is_inside: Notify,
    pub(crate) may_go_on: Notify,
}

#[derive(Clone)]
pub(crate) struct Service {
    router: Router,
    pub(crate) gates: Arc<Gates>,
}

impl Service {
    /// Sends one payment, whose handler does what it is told.
    pub(crate) async fn pay(&self, key: &str, does: &str) -> Seen {
        self.pay_amount(key, does, "100.00").await
    }

    pub(crate) async fn pay_amount(&self, key: &str, does: &str, amount: &'static str) -> Seen {
        let request = Request::post("/pay").header("idempotency-key", key).header("x-does", does);
        let response = self.router.clone().oneshot(request.body(Body::from(amount)).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let is_replay = response.headers().contains_key("idempotent-replayed");
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Seen { status, is_replay, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// The same from a client that does not wait for the answer here.
    pub(crate) fn paying(&self, key: &'static str, does: &'static str) -> tokio::task::JoinHandle<Seen> {
        let service = self.clone();
        tokio::spawn(async move { service.pay(key, does).await })
    }
}

/// What a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) is_replay: bool,
    pub(crate) body: String,
}

impl Seen {
    /// The last word of the problem type.
    pub(crate) fn problem(&self) -> (u16, &str) {
        let slug = self.body.split_once('#').and_then(|(_, rest)| rest.split_once('"')).map(|(slug, _)| slug);
        (self.status, slug.unwrap_or("no problem"))
    }

    /// The same answer, as its retry sees it.
    pub(crate) fn replayed(&self) -> Self {
        Self { is_replay: true, ..self.clone() }
    }
}

/// The first answer of a payment that went well.
pub(crate) fn paid(entry: &str) -> Seen {
    Seen { status: 201, is_replay: false, body: format!("booked {entry}") }
}

async fn pay(Shared(gates): Shared<Arc<Gates>>, request: Request) -> Response {
    let does = request.headers()["x-does"].to_str().unwrap().to_owned();
    let created = |entry: &str| (StatusCode::CREATED, format!("booked {entry}")).into_response();
    if does == "never takes the transaction" {
        return created("nothing");
    }
    let mut tx = Tx::<PgTransaction<'static>>::take(request.extensions()).unwrap();
    enter(&mut tx, "payment").await;
    match does.as_str() {
        "pays" => created("payment"),
        "refuses" => (StatusCode::UNPROCESSABLE_ENTITY, "no funds").into_response(),
        "fails" => (StatusCode::BAD_GATEWAY, "bank down").into_response(),
        "asks to come back" => (StatusCode::TOO_MANY_REQUESTS, "busy").into_response(),
        "panics" => panic!("it was told to"),
        "passes over an error" => {
            assert!(query("SELECT 1 / 0").execute(&mut **tx).await.is_err());
            created("payment")
        }
        "nests savepoints" => {
            let mut undone = tx.begin().await.unwrap();
            enter(&mut undone, "undone").await;
            undone.rollback().await.unwrap();
            let mut kept = tx.begin().await.unwrap();
            enter(&mut kept, "fee").await;
            kept.commit().await.unwrap();
            created("payment, fee")
        }
        "waits" => {
            gates.is_inside.notify_one();
            gates.may_go_on.notified().await;
            created("payment")
        }
        other => panic!("nobody knows how to do {other}"),
    }
}

pub(crate) async fn enter(tx: &mut PgTransaction<'_>, entry: &str) {
    query("INSERT INTO ledger (entry) VALUES ($1)").bind(entry).execute(&mut **tx).await.unwrap();
}

/// Asks again while the answer is 409: the server has not noticed yet that somebody is gone.
pub(crate) async fn once_free(service: &Service, key: &str, does: &str) -> Seen {
    for _ in 0..500 {
        let seen = service.pay(key, does).await;
        if seen.status != 409 {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the key {key} never gets free");
}
