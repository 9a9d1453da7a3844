//! The transaction on its way to the handler and back.

use std::sync::{Arc, Mutex};

use http::{Extensions, Response};
use idem_tower::{NoTransaction, Streamed, Tx};

use super::{Bank, charge, take};
use crate::database::{Database, Transaction};
use crate::support::{Held, Order, Step, Steps, charged, data, first_charge, gate, payment, seen, status};

#[tokio::test]
async fn taken_twice_at_once_it_is_an_error_and_once_given_back_it_can_be_taken_again() {
    let bank = Bank::new(|order: Order| {
        let extensions = &order.parts.extensions;
        let first = take(&order);
        assert_eq!(Tx::<Transaction>::take(extensions).unwrap_err(), NoTransaction::Lent);
        drop(first);
        charge(&order);
        charge(&order);
        std::future::ready(Ok(charged(order.run)))
    });
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!(bank.database.ledger(), ["charge 1", "charge 1"]);
}

#[tokio::test]
async fn another_type_is_an_error_that_names_both() {
    let bank = Bank::new(|order: Order| {
        let error = Tx::<String>::take(&order.parts.extensions).unwrap_err();
        assert!(matches!(error, NoTransaction::OfAnotherType { .. }));
        let text = error.to_string();
        assert!(text.contains("Transaction") && text.contains("String"), "{text}");
        std::future::ready(Ok(status(500)))
    });
    assert_eq!(bank.pay().await, seen(500, &[], "text"));
    bank.has_nothing().await;
}

#[tokio::test]
async fn without_the_mode_there_is_none() {
    assert_eq!(Tx::<Transaction>::take(&Extensions::new()).unwrap_err(), NoTransaction::Unprotected);
    let app = crate::support::App::new(async |order: Order| {
        assert_eq!(Tx::<Transaction>::take(&order.parts.extensions).unwrap_err(), NoTransaction::Unprotected);
        Ok(charged(order.run))
    });
    assert_eq!(app.pay().await, first_charge());
}

/// A shop that answers its first order while another task holds the transaction of it.
fn leaking(code: u16) -> (Bank, Arc<Mutex<Vec<Tx<Transaction>>>>) {
    let leaked = Arc::new(Mutex::new(Vec::new()));
    let elsewhere = Arc::clone(&leaked);
    let bank = Bank::new(move |order: Order| {
        let mut tx = take(&order);
        tx.write(format!("charge {}", order.run));
        if order.run == 1 {
            elsewhere.lock().unwrap().push(tx);
            return std::future::ready(Ok(status(code)));
        }
        std::future::ready(Ok(charged(order.run)))
    });
    (bank, leaked)
}

#[tokio::test]
async fn a_transaction_that_is_leaked_commits_nothing_and_rolls_back_when_it_is_dropped() {
    for code in [201, 302, 422] {
        let (bank, leaked) = leaking(code);
        let problem = bank.pay().await.is_problem(500, "not-committed");
        assert!(problem["detail"].as_str().unwrap().contains("given its transaction back"), "{problem}");
        assert_eq!((bank.database.ledger(), bank.state().await, bank.database.open_now()), (vec![], None, 1));
        bank.pay().await.is_problem(409, "in-progress");
        leaked.lock().unwrap().clear();
        bank.has_nothing().await;
        assert_eq!(bank.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
        assert_eq!(bank.database.ledger(), ["charge 2"]);
    }
}

#[tokio::test]
async fn a_failure_that_leaks_its_transaction_keeps_its_answer() {
    for code in [429, 500] {
        let (bank, leaked) = leaking(code);
        assert_eq!(bank.pay().await, seen(code, &[], "text"));
        assert_eq!(bank.database.open_now(), 1);
        leaked.lock().unwrap().clear();
        bank.has_nothing().await;
    }
}

#[tokio::test]
async fn a_body_that_holds_the_transaction_to_its_end_commits_and_a_stream_that_does_not_end_before_cannot() {
    for streamed in [false, true] {
        let bank = Bank::new(move |order: Order| {
            let mut tx = take(&order);
            let write = Step::Do(Box::new(move || tx.write("from the body")));
            let mut response = Response::new(Steps::of([data("one"), write, data("two")]));
            if streamed {
                response.extensions_mut().insert(Streamed);
            }
            std::future::ready(Ok(response))
        });
        if streamed {
            bank.pay().await.is_problem(500, "not-committed");
            bank.has_nothing().await;
        } else {
            assert_eq!(bank.pay().await, seen(200, &[], "onetwo"));
            assert_eq!(bank.database.ledger(), ["from the body"]);
        }
    }
}

#[tokio::test]
async fn once_the_attempt_is_over_nobody_gets_its_transaction() {
    let kept = Arc::new(Mutex::new(Extensions::new()));
    let elsewhere = Arc::clone(&kept);
    let bank = Bank::new(move |order: Order| {
        *elsewhere.lock().unwrap() = order.parts.extensions.clone();
        std::future::ready(Ok(if order.run == 1 { status(500) } else { charged(order.run) }))
    });
    assert_eq!(bank.pay().await, seen(500, &[], "text"));
    assert_eq!(bank.database.open_now(), 0, "extensions that are kept keep no transaction open");
    assert_eq!(Tx::<Transaction>::take(&kept.lock().unwrap()).unwrap_err(), NoTransaction::Over);
    assert_eq!(Tx::<Transaction>::take(&kept.lock().unwrap()).unwrap_err(), NoTransaction::Over);
}

#[tokio::test]
async fn a_transaction_that_comes_back_too_late_is_rolled_back_and_nobody_gets_it() {
    let kept = Arc::new(Mutex::new(None));
    let elsewhere = Arc::clone(&kept);
    let bank = Bank::new(move |order: Order| {
        *elsewhere.lock().unwrap() = Some((take(&order), order.parts.extensions.clone()));
        std::future::ready(Ok(charged(order.run)))
    });
    bank.pay().await.is_problem(500, "not-committed");
    assert_eq!(bank.database.open_now(), 1);
    let (late, extensions) = kept.lock().unwrap().take().unwrap();
    drop(late);
    assert_eq!(bank.database.open_now(), 0);
    assert_eq!(Tx::<Transaction>::take(&extensions).unwrap_err(), NoTransaction::Over);
    bank.has_nothing().await;
}

#[test]
fn a_runtime_that_ends_under_a_running_handler_rolls_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let kept = Arc::new(Mutex::new(Extensions::new()));
    let (held, elsewhere) = (Arc::new(Held::default()), Arc::clone(&kept));
    let in_handler = Arc::clone(&held);
    let database = Database::new();
    let bank = Bank::over(database.clone(), move |order: Order| {
        *elsewhere.lock().unwrap() = order.parts.extensions.clone();
        let held = Arc::clone(&in_handler);
        async move {
            charge(&order);
            held.begun.notify_one();
            held.go_on.notified().await;
            Ok(charged(order.run))
        }
    });
    runtime.block_on(async {
        let client = bank.client(payment());
        held.begun.notified().await;
        drop(client);
    });
    assert_eq!(database.open_now(), 1);
    drop(runtime);
    assert_eq!((database.ledger(), database.open_now()), (vec![], 0));
}

#[tokio::test]
async fn a_transaction_that_comes_back_while_the_response_is_read_is_in_time() {
    let (open, closed) = gate();
    let parts = Arc::new(Mutex::new(Some((open, closed))));
    let bank = Bank::new(move |order: Order| {
        let (open, closed) = parts.lock().unwrap().take().unwrap();
        let mut tx = take(&order);
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            tx.write("from another task");
            drop(tx);
            drop(open);
        });
        std::future::ready(Ok(Response::new(Steps::of([closed, data("done")]))))
    });
    assert_eq!(bank.pay().await, seen(200, &[], "done"));
    assert_eq!(bank.database.ledger(), ["from another task"]);
}
