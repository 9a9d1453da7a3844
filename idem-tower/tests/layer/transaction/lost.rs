//! Row: the reply to the commit is lost.

use std::time::Duration;

use idem_core::StoreErrorKind;

use super::{Bank, their_answer, theirs, used_under_a_claim};
use crate::database::{Fault, Op};
use crate::support::{first_charge, seen};

#[tokio::test(start_paused = true)]
async fn a_lost_commit_that_took_place_gives_its_answer() {
    let bank = Bank::charging();
    bank.database.next(Op::Commit, [Fault::LostReply]);
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!(bank.pay().await, first_charge().replayed());
    assert_eq!((bank.runs(), bank.database.ledger()), (1, vec!["charge 1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_that_did_not_take_place_is_a_503_and_its_retry_runs() {
    for fault in [Fault::LostRequest, Fault::Hangs] {
        let bank = Bank::charging();
        bank.database.next(Op::Commit, [fault]);
        let problem = bank.pay().await.is_problem(503, "store-unavailable");
        assert!(problem["detail"].as_str().unwrap().contains("was rolled back"), "{problem}");
        bank.has_nothing().await;
        assert_eq!(bank.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
        assert_eq!(bank.database.ledger(), ["charge 2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_that_stays_under_way_is_a_503_and_its_retry_finds_out() {
    let bank = Bank::charging();
    bank.database.next(Op::Commit, [Fault::LostUnderWay]);
    let problem = bank.pay().await.is_problem(503, "store-unavailable");
    assert!(problem["detail"].as_str().unwrap().contains("is not known yet"), "{problem}");
    bank.pay().await.is_problem(409, "in-progress");
    bank.database.land().await;
    assert_eq!(bank.pay().await, first_charge().replayed());
    assert_eq!((bank.runs(), bank.database.ledger()), (1, vec!["charge 1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_is_unknown_in_time_where_the_store_is_gone() {
    let bank = Bank::charging();
    bank.database.next(Op::Commit, [Fault::LostReply]);
    let down = [Fault::NotWritten(StoreErrorKind::Unavailable); 100];
    bank.database.next(Op::Open, std::iter::once(Fault::None).chain(down));
    let start = tokio::time::Instant::now();
    let problem = bank.pay().await.is_problem(503, "store-unavailable");
    assert!(problem["detail"].as_str().unwrap().contains("is not known yet"), "{problem}");
    assert!(start.elapsed() <= Duration::from_secs(6), "{:?}", start.elapsed());
    assert_eq!(bank.database.ledger(), ["charge 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_commit_gives_the_answer_of_whoever_has_completed_the_request_meanwhile() {
    let bank = Bank::charging();
    bank.database.next(Op::Commit, [Fault::LostUnderWay]);
    let client = bank.client(crate::support::payment());
    while !bank.database.calls().contains(&Op::Commit) {
        tokio::task::yield_now().await;
    }
    used_under_a_claim(&bank.database, Some(their_answer())).await;
    bank.database.never_land();
    assert_eq!(client.await.unwrap(), theirs());
    assert_eq!(bank.database.ledger(), [] as [&str; 0]);
}
