//! `idem-postgres` against `pgbench`, in turns on one private server: claims and completions, and one transaction for
//! business and key.
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a program that measures")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use idem_core::{
    Answer, Change, Concluded, Epoch, Fingerprint, Guard, IdempotencyKey, Inserted, KeyStore, NewRecord,
    OneTransaction, OsTokens, Principal, ProfileId, Replaced, Response, Route, ScopedKey, Settlement, TokenSource,
    TransactionBegin,
};
use idem_postgres::{InTransaction, PostgresConfig, PostgresStore};
use idem_tests::servers::postgres::Server;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection};

#[derive(Parser)]
struct Options {
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Measurements of each side, in turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only lines whose name has this in it.
    #[arg(long)]
    only: Option<String>,
    /// Writes in one statement, at most.
    #[arg(long)]
    group_size: Option<usize>,
    /// Statements of one kind under way at once.
    #[arg(long)]
    groups_in_flight: Option<usize>,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let server = Server::create_with(&[("fsync", "on"), ("shared_buffers", "256MB"), ("max_wal_size", "4GB")]).await;
    let url = server.url("postgres");
    let mut config = PostgresConfig::new(&url).unwrap();
    config.migrate().await.unwrap();
    if let Some(size) = options.group_size {
        config = config.group_size(size);
    }
    if let Some(groups) = options.groups_in_flight {
        config = config.groups_in_flight(groups);
    }
    let mut admin = PgConnection::connect(&url).await.unwrap();
    sqlx::query("CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount bigint NOT NULL)")
        .execute(&mut admin)
        .await
        .unwrap();
    let store = config.connect().await.unwrap();
    let pool = PgPoolOptions::new().max_connections(33).test_before_acquire(false).connect(&url).await.unwrap();
    let transactional = Arc::new(store.in_transaction(pool.clone()));

    println!("| what | ours/s | pgbench/s | ratio: min, median, max | target |");
    println!("|---|---|---|---|---|");
    let pgbench = |script, clients| Side::Pgbench { server: &server, script, clients };
    let lines = [
        Line {
            name: "claim + complete, 256 in flight (pgbench: 32 clients)",
            ours: Side::Leases { store: &store, in_flight: 256 },
            yardstick: pgbench("claim-complete.sql", 32),
            target: "5",
        },
        Line {
            name: "claim + complete, 1 in flight",
            ours: Side::Leases { store: &store, in_flight: 1 },
            yardstick: pgbench("claim-complete.sql", 1),
            target: "0.9",
        },
        Line {
            name: "one transaction, 1 in flight",
            ours: Side::OneTransaction { store: &transactional, in_flight: 1 },
            yardstick: pgbench("one-transaction.sql", 1),
            target: "0.9",
        },
        Line {
            name: "one transaction, 32 in flight",
            ours: Side::OneTransaction { store: &transactional, in_flight: 32 },
            yardstick: pgbench("one-transaction.sql", 32),
            target: "0.9",
        },
        Line {
            name: "one transaction against the bare business transaction, 1 in flight",
            ours: Side::OneTransaction { store: &transactional, in_flight: 1 },
            yardstick: pgbench("business.sql", 1),
            target: "0.5",
        },
    ];
    let time = Duration::from_secs(options.seconds);
    for line in lines {
        if options.only.as_ref().is_some_and(|only| !line.name.contains(only)) {
            continue;
        }
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=options.rounds {
            // Both start on an empty table.
            sqlx::query("TRUNCATE idempotency_keys, ledger").execute(&mut admin).await.unwrap();
            let mine = line.ours.run(time).await;
            sqlx::query("TRUNCATE idempotency_keys, ledger").execute(&mut admin).await.unwrap();
            let yardstick = line.yardstick.run(time).await;
            if round > 0 {
                // The first round warms up.
                ours.push(mine);
                theirs.push(yardstick);
                ratios.push(mine / yardstick);
            }
        }
        let [_, ours, _] = spread(ours);
        let [_, theirs, _] = spread(theirs);
        let [min, median, max] = spread(ratios);
        println!(
            "| {} | {ours:.0} | {theirs:.0} | {min:.2}, **{median:.2}**, {max:.2} | ≥ {} |",
            line.name, line.target
        );
    }
}

struct Line<'a> {
    name: &'static str,
    ours: Side<'a>,
    yardstick: Side<'a>,
    target: &'static str,
}

/// What is measured.
enum Side<'a> {
    Leases { store: &'a PostgresStore, in_flight: usize },
    OneTransaction { store: &'a Arc<InTransaction>, in_flight: usize },
    Pgbench { server: &'a Server, script: &'static str, clients: u32 },
}

impl Side<'_> {
    /// Cycles per second.
    async fn run(&self, time: Duration) -> f64 {
        match self {
            Self::Leases { store, in_flight } => {
                let store = (*store).clone();
                cycles(*in_flight, time, move || claim_and_complete(store.clone())).await
            }
            Self::OneTransaction { store, in_flight } => {
                let idem = OneTransaction::new(Arc::clone(store), tokio::time::sleep);
                cycles(*in_flight, time, move || transact(idem.clone())).await
            }
            Self::Pgbench { server, script, clients } => pgbench(server, script, *clients, time).await,
        }
    }
}

async fn cycles<F>(in_flight: usize, time: Duration, cycle: impl Fn() -> F + Send + Sync + 'static) -> f64
where
    F: Future<Output = ()> + Send,
{
    let (cycle, done, start) = (Arc::new(cycle), Arc::new(AtomicU64::new(0)), Instant::now());
    let clients: Vec<_> = (0..in_flight)
        .map(|_| {
            let (cycle, done) = (Arc::clone(&cycle), Arc::clone(&done));
            tokio::spawn(async move {
                while start.elapsed() < time {
                    cycle().await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let done = done.load(Ordering::Relaxed) as f64;
    done / start.elapsed().as_secs_f64()
}

fn fresh_key() -> (ScopedKey, idem_core::Token) {
    let token = OsTokens.draw().unwrap();
    let key = format!("{:032x}", u128::from_be_bytes(token.to_bytes()));
    let key = IdempotencyKey::parse(&key).unwrap();
    (ScopedKey::new(Principal::new("alice").unwrap(), Route::new("/payments").unwrap(), key), token)
}

fn answer() -> Answer {
    let body = Bytes::from_static(&[0xab; 256]);
    Answer::Response(Arc::new(Response { status: 201, headers: Vec::new(), body, trailers: Vec::new() }))
}

async fn claim_and_complete(store: PostgresStore) {
    let (key, token) = fresh_key();
    let fingerprint = Fingerprint::from_parts(ProfileId::from_bits(7), [7; 32]);
    let day = Duration::from_secs(24 * 3600);
    let claim = NewRecord::claim(fingerprint, token, Epoch::FIRST, Duration::from_secs(30), 7 * day).expecting(day);
    assert!(matches!(store.insert(&key, &claim).await.unwrap(), Inserted::Done(_)));
    let settled = NewRecord::settled(fingerprint, token, Epoch::FIRST, Settlement::Completed(answer()), day);
    let replaced = store.replace(&key, Guard::Owner(token), &Change::Record(settled)).await.unwrap();
    assert!(matches!(replaced, Replaced::Done(_)));
}

async fn transact<T: idem_core::Timer>(idem: OneTransaction<Arc<InTransaction>, T>) {
    let (key, _) = fresh_key();
    let request = Fingerprint::from_parts(ProfileId::from_bits(7), [7; 32]);
    let TransactionBegin::Run(attempt, mut tx) = idem.begin(&key, &request).await.unwrap() else {
        panic!("a fresh key runs");
    };
    sqlx::query("INSERT INTO ledger (amount) VALUES (100)").execute(&mut *tx).await.unwrap();
    let concluded = attempt.commit(tx, answer()).await.unwrap();
    assert!(matches!(concluded, Concluded::Done));
}

async fn pgbench(server: &Server, script: &str, clients: u32, time: Duration) -> f64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("postgres").join(script);
    let output = tokio::process::Command::new(server.program("pgbench"))
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .arg(format!("--client={clients}"))
        .arg(format!("--time={}", time.as_secs()))
        .arg(format!("--file={}", script.display()))
        .arg(server.url("postgres"))
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Least, median and greatest.
fn spread(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    [figures[0], figures[figures.len() / 2], figures[figures.len() - 1]]
}
