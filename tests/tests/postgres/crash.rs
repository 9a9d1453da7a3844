//! A server that is killed under load, again and again, forgets nothing that it has acknowledged.
#![expect(clippy::panic, clippy::unwrap_used, reason = "that is how a test fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use idem_core::{
    Answer, Begin, Content, Fingerprint, Idempotency, IdempotencyKey, KeyStore, OsTokens, Policy, Principal, Refusal,
    Response, Route, ScopedKey, Settled, Settlement, State, StoreErrorKind, TokenSource,
};
use idem_postgres::{PostgresConfig, PostgresStore};
use idem_tests::eventually;
use idem_tests::postgres::Server;
use tokio::time::{Sleep, sleep, timeout};

/// Whose every call is answered, one way or the other, long before this.
const HANG: Duration = Duration::from_secs(60);

const KILLS: u32 = 6;
const PAYMENTS_BETWEEN_KILLS: u32 = 300;

/// Of this many tasks, each with one payment after the other, and each payment sent by two clients.
const TASKS: usize = 32;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_every_kill_and_no_handler_runs_twice() {
    let server = Server::create_with(&[("fsync", "on")]).await;
    let url = server.url("postgres");
    PostgresConfig::new(&url).unwrap().migrate().await.unwrap();
    let service = Arc::new(Service::start(&url).await);
    let tasks: Vec<_> = (0..TASKS).map(|number| tokio::spawn(Arc::clone(&service).pays(number))).collect();

    for _ in 0..KILLS {
        service.until_there_are_more(&service.paid, PAYMENTS_BETWEEN_KILLS).await;
        server.kill().await;
        service.until_there_are_more(&service.unavailable, 1).await;
        server.start().await;
    }
    service.until_there_are_more(&service.paid, PAYMENTS_BETWEEN_KILLS).await;
    service.is_over.store(true, Ordering::Relaxed);
    let finished = timeout(2 * HANG, join_all(tasks)).await.expect("every client gets an answer");
    let left: Vec<Left> = finished.into_iter().flat_map(Result::unwrap).collect();
    service.processes.iter().for_each(Idempotency::hurry_owed_writes);

    let store = PostgresStore::connect(&url).await.unwrap();
    for left in &left {
        if left.is_owed {
            eventually("what is owed is written", async || state(&store, &left.key).await == left.state).await;
        }
        assert_eq!(state(&store, &left.key).await, left.state, "{:?}", left.key);
    }
    assert_eq!(store.stats().await.unwrap().records, Some(left.len() as u64));
}

type Idem = Idempotency<fn(Duration) -> Sleep>;

/// Two processes of one service.
struct Service {
    processes: [Idem; 2],
    is_over: AtomicBool,
    /// Payments that both clients have an answer to.
    paid: AtomicU32,
    /// Calls that ended in a 503.
    unavailable: AtomicU32,
}

/// What is to be in the store at the end.
struct Left {
    key: ScopedKey,
    state: State,
    /// It was not acknowledged, and is written later.
    is_owed: bool,
}

impl Service {
    async fn start(url: &str) -> Self {
        let process = async || {
            let config = PostgresConfig::new(url).unwrap().connect_timeout(Duration::from_millis(500));
            let store = config.command_timeout(Duration::from_secs(1)).connect().await.unwrap();
            Idempotency::new(store, sleep as fn(Duration) -> Sleep)
                .policy(Policy::strict())
                .spawn_with(|task| drop(tokio::spawn(task)))
        };
        Self {
            processes: [process().await, process().await],
            is_over: AtomicBool::new(false),
            paid: AtomicU32::new(0),
            unavailable: AtomicU32::new(0),
        }
    }

    /// Pays until it is over. Every eighth payment is claimed, and then its process falls silent.
    async fn pays(self: Arc<Self>, task: usize) -> Vec<Left> {
        let mut left = Vec::new();
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let key = IdempotencyKey::parse(format!("payment-{task}-{number}")).unwrap();
            let key = ScopedKey::new(Principal::shared(), Route::new("/pay").unwrap(), key);
            left.push(if number % 8 == 7 { self.claims(key).await } else { self.pays_one(key).await });
        }
        left
    }

    async fn pays_one(&self, key: ScopedKey) -> Left {
        let (runs, is_owed) = (AtomicU32::new(0), AtomicBool::new(false));

        let [one, other] = &self.processes;
        let (mine, theirs) =
            tokio::join!(self.client(one, &key, &runs, &is_owed), self.client(other, &key, &runs, &is_owed));

        assert_eq!(runs.into_inner(), 1, "{key:?}");
        assert_eq!(mine, theirs, "{key:?}");
        self.paid.fetch_add(1, Ordering::Relaxed);
        Left { key, state: State::Completed(mine), is_owed: is_owed.into_inner() }
    }

    /// A client that retries until it has an answer.
    async fn client(&self, process: &Idem, key: &ScopedKey, runs: &AtomicU32, is_owed: &AtomicBool) -> Answer {
        loop {
            match self.begin(process, key).await {
                Some(Begin::Run(attempt)) => {
                    let answer = attempt.drive(handler(runs)).await;
                    let settling = attempt.settle(Settlement::Completed(answer.clone()));
                    match timeout(HANG, settling).await.expect("a completion does not hang") {
                        Settled::Done => {}
                        Settled::Owed => is_owed.store(true, Ordering::Relaxed),
                        settled => panic!("{key:?}: {settled:?}"),
                    }
                    return answer;
                }
                Some(Begin::Replay(answer)) => return answer,
                Some(Begin::Refuse(Refusal::InProgress { .. })) | None => sleep(Duration::from_millis(20)).await,
                Some(Begin::Refuse(refusal)) => panic!("{key:?}: {refusal:?}"),
            }
        }
    }

    /// A client whose handler never comes to an end.
    async fn claims(&self, key: ScopedKey) -> Left {
        loop {
            match self.begin(&self.processes[0], &key).await {
                Some(Begin::Run(_silent)) => return Left { key, state: State::InProgress, is_owed: false },
                Some(Begin::Refuse(Refusal::InProgress { .. })) | None => sleep(Duration::from_millis(20)).await,
                other => panic!("{key:?}: {other:?}"),
            }
        }
    }

    /// `None`: 503.
    async fn begin(&self, process: &Idem, key: &ScopedKey) -> Option<Begin<fn(Duration) -> Sleep>> {
        let request = Fingerprint::json("pay", b"{}");
        let begun = timeout(HANG, process.begin(key, &request)).await.expect("a claim does not hang");
        begun
            .inspect_err(|error| {
                assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error:?}");
                self.unavailable.fetch_add(1, Ordering::Relaxed);
            })
            .ok()
    }

    async fn until_there_are_more(&self, of: &AtomicU32, more: u32) {
        let before = of.load(Ordering::Relaxed);
        eventually("the load goes on", async || of.load(Ordering::Relaxed) >= before + more).await;
    }
}

async fn state(store: &PostgresStore, key: &ScopedKey) -> State {
    let found = store.find(key).await.unwrap().unwrap_or_else(|| panic!("{key:?} is forgotten"));
    let Content::Readable(record) = found.content else { panic!("{key:?} is unreadable") };
    record.state
}

/// Long enough that a kill meets some of them.
async fn handler(runs: &AtomicU32) -> Answer {
    runs.fetch_add(1, Ordering::Relaxed);
    sleep(Duration::from_millis(3)).await;
    let receipt = OsTokens.draw().unwrap().to_bytes();
    Response { status: 201, body: receipt.to_vec().into(), ..Response::default() }.into()
}
