//! Duplicates, permits, clients that hang up, and the end of the process.

use std::sync::Arc;
use std::time::Duration;

use idem_tower::{IdempotencyLayer, Undrained, every_caller_shares_all_keys, fixed_route};
use tokio::task::JoinSet;

use super::{Bank, with_key};
use crate::database::{Database, Op};
use crate::support::{Held, Order, charged, first_charge, payment, request, seen, status};

#[tokio::test]
async fn a_duplicate_of_a_running_request_is_in_progress_at_once_whatever_it_asks_for() {
    let (bank, held) = Bank::slow_first(Database::new());
    let leader = bank.client(payment());
    held.begun.notified().await;
    let problem = bank.pay().await.is_problem(409, "in-progress");
    assert!(problem["retry_after_ms"].as_u64().unwrap() > 0, "{problem}");
    bank.send(request("another order")).await.is_problem(409, "in-progress");
    assert_eq!((bank.database.open_now(), bank.database.open_at_most()), (1, 1));
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(bank.pay().await, first_charge().replayed());
    bank.send(request("another order")).await.is_problem(422, "key-reused");
    assert_eq!((bank.runs(), bank.database.ledger()), (1, vec!["charge 1".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_at_once_charge_once() {
    let bank = Bank::over(Database::of_capacity(2000), async |order: Order| {
        super::charge(&order);
        tokio::task::yield_now().await;
        Ok(charged(order.run))
    });
    let mut clients = JoinSet::new();
    for _ in 0..1000 {
        let bank = bank.clone();
        clients.spawn(async move { bank.pay().await });
    }
    let mut first = 0;
    while let Some(seen) = clients.join_next().await {
        match seen.unwrap() {
            seen if seen == first_charge() => first += 1,
            seen if seen == first_charge().replayed() => {}
            seen => drop(seen.is_problem(409, "in-progress")),
        }
    }
    assert_eq!((first, bank.runs(), bank.database.ledger()), (1, 1, vec!["charge 1".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_gets_the_answer_of_the_running_transaction() {
    // With one permit, the waiter cannot even ask for the lock while the leader runs.
    for capacity in [2, 8] {
        let (bank, held) = Bank::slow_first(Database::of_capacity(capacity));
        let bank = bank.set(|layer| layer.wait(Duration::from_secs(60)));
        let leader = bank.client(payment());
        held.begun.notified().await;
        if capacity == 2 {
            bank.pay().await.is_problem(503, "overloaded");
        } else {
            let waiter = bank.client(payment());
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!waiter.is_finished());
            held.go_on.notify_one();
            assert_eq!(waiter.await.unwrap(), first_charge().replayed());
            assert_eq!(leader.await.unwrap(), first_charge());
            assert_eq!((bank.runs(), bank.database.ledger()), (1, vec!["charge 1".to_owned()]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_goes_on_waiting_while_no_permit_is_free_and_runs_once_the_first_has_rolled_back() {
    let held: [Arc<Held>; 2] = std::array::from_fn(|_| Arc::default());
    let in_handler = held.clone();
    let bank = Bank::over(Database::of_capacity(3), move |order: Order| {
        let held = in_handler.get(order.run - 1).cloned();
        async move {
            super::charge(&order);
            if let Some(held) = held {
                held.begun.notify_one();
                held.go_on.notified().await;
            }
            Ok(if order.run == 1 { status(500) } else { charged(order.run) })
        }
    });
    let bank = bank.set(|layer| layer.wait(Duration::from_secs(60)));
    let leader = bank.client(payment());
    held[0].begun.notified().await;
    let waiter = bank.client(payment());
    while !bank.database.calls().ends_with(&[Op::Open, Op::Find]) {
        tokio::task::yield_now().await;
    }
    let last_permit = bank.client(with_key("another-key"));
    held[1].begun.notified().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!waiter.is_finished());
    bank.pay().await.is_problem(503, "overloaded");

    held[0].go_on.notify_one();
    assert_eq!(leader.await.unwrap(), seen(500, &[], "text"));
    assert_eq!(waiter.await.unwrap(), seen(201, &[("location", "/payments/1")], "charge 3"));
    held[1].go_on.notify_one();
    last_permit.await.unwrap();
    assert_eq!(bank.database.ledger(), ["charge 3", "charge 2"]);
}

#[tokio::test]
async fn one_connection_is_kept_for_duplicates_and_replays_need_no_permit() {
    let (bank, held) = Bank::slow_first(Database::of_capacity(2));
    let leader = bank.client(payment());
    held.begun.notified().await;
    bank.send(with_key("another-key")).await.is_problem(503, "overloaded");
    assert_eq!(bank.database.open_at_most(), 1);
    held.go_on.notify_one();
    assert_eq!(leader.await.unwrap(), first_charge());

    let (slow, held) = Bank::slow_first(bank.database.clone());
    let leader = slow.client(with_key("another-key"));
    held.begun.notified().await;
    assert_eq!(slow.pay().await, first_charge().replayed(), "while no permit is free");
    held.go_on.notify_one();
    leader.await.unwrap();
}

#[tokio::test]
async fn a_store_of_one_connection_runs_one_at_a_time() {
    let bank = Bank::over(Database::of_capacity(1), |order| {
        super::charge(&order);
        std::future::ready(Ok(charged(order.run)))
    });
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!(bank.pay().await, first_charge().replayed());
}

fn layer_over(capacity: usize) -> IdempotencyLayer {
    let route = fixed_route(idem_core::Route::new("payments").unwrap());
    IdempotencyLayer::one_transaction(Database::of_capacity(capacity), every_caller_shares_all_keys, route)
}

#[test]
fn a_bound_below_the_connections_is_accepted() {
    let _ = layer_over(4).max_in_flight(1).max_in_flight(3);
}

#[test]
#[should_panic(expected = "leave none of the store's 4 connections to duplicates")]
fn a_bound_that_leaves_no_connection_to_duplicates_panics_at_start() {
    let _ = layer_over(4).max_in_flight(4);
}

#[tokio::test]
async fn a_client_that_hangs_up_cancels_nothing() {
    let (bank, held) = Bank::slow_first(Database::new());
    let client = bank.client(payment());
    held.begun.notified().await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    held.go_on.notify_one();
    bank.layer.drain().await;
    assert_eq!(bank.database.ledger(), ["charge 1"]);
    assert_eq!(bank.pay().await, first_charge().replayed());
    assert_eq!(bank.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_open_transactions_refuses_what_is_new_and_still_replays() {
    let (bank, held) = Bank::slow_first(Database::new());
    let leader = bank.client(payment());
    held.begun.notified().await;
    let left = bank.layer.drain_for(Duration::from_secs(5)).await;
    assert_eq!(left, Undrained { attempts: 1, owed_writes: 0 });
    bank.send(with_key("another-key")).await.is_problem(503, "overloaded");
    held.go_on.notify_one();
    bank.layer.drain().await;
    assert_eq!(leader.await.unwrap(), first_charge());
    assert_eq!(bank.pay().await, first_charge().replayed());
}

#[tokio::test]
async fn a_rolled_back_request_frees_its_key_before_its_answer_goes_out() {
    let bank = Bank::answering(|| status(500));
    for _ in 0..100 {
        assert_eq!(bank.pay().await, seen(500, &[], "text"));
    }
    assert_eq!(bank.runs(), 100);
}
