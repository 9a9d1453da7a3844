//! `kill -9` under load: of the process that serves, and of the database beneath it.

use idem_tests::Random;
use idem_tests::postgres::{Database, Server as Postgres};

use crate::load::{Load, assert_kept};
use crate::support::{Mode, process};

const CRASHES: usize = 4;

/// Shorter than a crash lasts, so that keys are abandoned under it.
const LEASE: [&str; 2] = ["--lease", "1s"];

#[tokio::test]
async fn in_one_transaction_a_killed_process_costs_no_charge_and_doubles_none() {
    kill_the_process_under_load(Mode::Transaction).await;
}

#[tokio::test]
async fn under_claims_a_killed_process_doubles_no_charge_and_loses_no_receipt() {
    kill_the_process_under_load(Mode::Claim).await;
}

async fn kill_the_process_under_load(mode: Mode) {
    let database = Database::create().await;
    let mut server = process(mode, database.url(), &LEASE).await;
    let load = Load::start(mode, &server, true);
    let mut random = Random::seeded();
    for _ in 0..CRASHES {
        load.until_charged(usize::try_from(random.within(5..40)).expect("a small number")).await;
        server.kill().await;
        load.until_without_answer(1).await;
        server = process(mode, database.url(), &LEASE).await;
        load.go_to(&server);
    }
    load.until_charged(20).await;
    let payments = load.stop().await;
    assert_kept(mode, &server, &payments).await;
}

#[tokio::test]
async fn in_one_transaction_a_killed_database_costs_no_charge_and_doubles_none() {
    kill_the_database_under_load(Mode::Transaction).await;
}

#[tokio::test]
async fn under_claims_a_killed_database_doubles_no_charge_and_loses_no_receipt() {
    kill_the_database_under_load(Mode::Claim).await;
}

async fn kill_the_database_under_load(mode: Mode) {
    let postgres = Postgres::create().await;
    let server = process(mode, &postgres.url("postgres"), &LEASE).await;
    // The process lives: whatever happens beneath it, its clients get an answer.
    let load = Load::start(mode, &server, false);
    let mut random = Random::seeded();
    for _ in 0..CRASHES {
        load.until_charged(usize::try_from(random.within(5..40)).expect("a small number")).await;
        postgres.kill().await;
        load.until_without_answer(2).await;
        postgres.start().await;
    }
    load.until_charged(20).await;
    let payments = load.stop().await;
    assert_kept(mode, &server, &payments).await;
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
}
