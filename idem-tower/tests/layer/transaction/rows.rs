//! One test per row of the table of answers: what each commits, records, and tells its client and its retry.

use std::sync::{Arc, Mutex};

use http::Response;
use idem_core::{Answer, Policy, State, StoreErrorKind};
use idem_tower::{Class, Streamed};

use super::{Bank, charge, take, their_answer, theirs, used_under_a_claim};
use crate::database::{Database, Fault, Op};
use crate::support::{
    Broken, Order, Seen, Step, Steps, charged, data, first_charge, header_map, payment, seen, status,
};

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// Business writes and record are there; the retry gets the answer.
    Committed,
    /// The record is there, the business writes are not; the retry gets the answer.
    Remembered,
    /// Neither is there; the retry runs.
    RolledBack,
}

/// Sends one request and its retry; asserts ledger, record, both answers and the number of runs.
async fn ends(bank: Bank, first: Seen, ends: Ends) {
    assert_eq!(bank.pay().await, first);
    let ledger = if ends == Ends::Committed { vec!["charge 1".to_owned()] } else { vec![] };
    assert_eq!((bank.database.ledger(), bank.database.open_now()), (ledger.clone(), 0), "{first:?}");
    match ends {
        Ends::RolledBack => assert_eq!(bank.state().await, None, "{first:?}"),
        _ => assert!(matches!(bank.state().await, Some(State::Completed(Answer::Response(_)))), "{first:?}"),
    }
    let (again, runs) = if ends == Ends::RolledBack { (first, 2) } else { (first.replayed(), 1) };
    assert_eq!((bank.pay().await, bank.runs()), (again, runs));
    assert_eq!(bank.database.ledger(), ledger);
}

#[tokio::test]
async fn success_and_redirection_commit_writes_and_record_together() {
    for code in [200, 201, 202, 204, 206, 301, 303, 307] {
        ends(Bank::answering(move || status(code)), seen(code, &[], "text"), Ends::Committed).await;
    }
}

#[tokio::test]
async fn a_client_error_that_completes_is_remembered_and_its_writes_are_rolled_back() {
    for code in [400, 402, 403, 404, 409, 410, 418, 422, 428, 451, 499] {
        ends(Bank::answering(move || status(code)), seen(code, &[], "text"), Ends::Remembered).await;
    }
}

#[tokio::test]
async fn answers_that_ask_to_come_back_roll_back_and_the_retry_runs() {
    for code in [401, 425, 429] {
        ends(Bank::answering(move || status(code)), seen(code, &[], "text"), Ends::RolledBack).await;
    }
}

#[tokio::test]
async fn a_timeout_and_server_errors_roll_back_and_the_retry_runs_under_every_policy() {
    for policy in [Policy::strict(), Policy::relaxed()] {
        for code in [408, 500, 501, 502, 503, 504, 507, 599, 600, 999] {
            let bank = Bank::answering(move || status(code)).set(|layer| layer.policy(policy.clone()));
            ends(bank, seen(code, &[], "text"), Ends::RolledBack).await;
        }
    }
}

#[tokio::test]
async fn an_error_of_the_inner_service_rolls_back_and_goes_to_the_caller() {
    let bank = Bank::new(async |order: Order| {
        charge(&order);
        if order.run == 1 { Err(Broken) } else { Ok(charged(order.run)) }
    });
    assert!(bank.try_send(payment()).await.is_err());
    bank.has_nothing().await;
    assert_eq!(bank.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!(bank.database.ledger(), ["charge 2"]);
}

#[tokio::test]
async fn a_panic_of_the_handler_rolls_back_wherever_it_holds_its_transaction() {
    for (at_once, holds) in [(true, true), (true, false), (false, true), (false, false)] {
        let bank = Bank::new(move |order: Order| async move {
            let mut tx = take(&order);
            tx.write(format!("charge {}", order.run));
            let held = holds.then_some(tx);
            if !at_once {
                tokio::task::yield_now().await;
            }
            assert!(order.run > 1, "the first run panics");
            drop(held);
            Ok(charged(order.run))
        });
        let client = bank.client(payment());
        assert!(client.await.unwrap_err().is_panic());
        bank.has_nothing().await;
        assert_eq!(bank.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
        assert_eq!(bank.database.ledger(), ["charge 2"]);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_rolls_back_and_its_client_sees_it_break_off() {
    let bank = Bank::answering(|| Response::new(Steps::of([data("half of "), Step::Break])));
    let first = bank.pay().await;
    assert_eq!((first.status, &first.body[..], first.broken), (200, &b"half of "[..], true));
    bank.has_nothing().await;
    assert!(bank.pay().await.broken);
    assert_eq!(bank.runs(), 2);
}

#[tokio::test]
async fn what_the_handler_declares_rolls_back_whatever_it_answers() {
    for code in [201, 404, 500] {
        for declare in
            [|order: &Order| order.running().release(), |order: &Order| order.running().fail_without_effect()]
        {
            let bank = Bank::new(move |order| {
                charge(&order);
                declare(&order);
                std::future::ready(Ok(status(code)))
            });
            ends(bank, seen(code, &[], "text"), Ends::RolledBack).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_its_handler_says_not_to_keep_commits_and_is_never_run_again() {
    let bank = Bank::new(|order| {
        charge(&order);
        order.running().do_not_keep();
        std::future::ready(Ok(charged(order.run)))
    });
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!(
        (bank.database.ledger(), bank.state().await),
        (vec!["charge 1".to_owned()], Some(State::Completed(Answer::NotKept)))
    );
    bank.pay().await.is_problem(409, "response-not-kept");
    assert_eq!(bank.runs(), 1);
}

#[tokio::test]
async fn a_success_in_an_aborted_transaction_is_a_500_that_says_so_and_the_retry_runs() {
    let bank = Bank::new(|order: Order| {
        let mut tx = take(&order);
        tx.write(format!("charge {}", order.run));
        if order.run == 1 {
            tx.fail_a_statement();
        }
        std::future::ready(Ok(charged(order.run)))
    });
    let problem = bank.pay().await.is_problem(500, "not-committed");
    assert!(problem["detail"].as_str().unwrap().contains("aborted its transaction"), "{problem}");
    bank.has_nothing().await;
    assert_eq!(bank.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!(bank.database.ledger(), ["charge 2"]);
}

#[tokio::test]
async fn an_aborted_transaction_does_no_harm_to_an_answer_that_rolls_back_anyway() {
    for (code, how) in [(422, Ends::Remembered), (500, Ends::RolledBack)] {
        let bank = Bank::new(move |order: Order| {
            take(&order).fail_a_statement();
            std::future::ready(Ok(status(code)))
        });
        ends(bank, seen(code, &[], "text"), how).await;
    }
}

#[tokio::test]
async fn a_success_that_never_took_its_transaction_is_a_500_that_says_so() {
    for stream in [false, true] {
        let bank = Bank::new(move |order: Order| {
            let mut response = charged(order.run);
            if stream {
                response.extensions_mut().insert(Streamed);
            }
            std::future::ready(Ok(response))
        });
        for _ in 0..2 {
            let problem = bank.pay().await.is_problem(500, "not-committed");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("without having used the transaction"), "{problem}");
            bank.has_nothing().await;
        }
        assert_eq!(bank.runs(), 2);
    }
}

#[tokio::test]
async fn a_refusal_that_never_took_its_transaction_is_remembered_and_a_failure_runs_again() {
    for (code, how) in [(422, Ends::Remembered), (429, Ends::RolledBack), (500, Ends::RolledBack)] {
        let bank = Bank::new(move |_| std::future::ready(Ok(status(code))));
        ends(bank, seen(code, &[], "text"), how).await;
    }
}

/// A shop without funds, whose key is used in the other mode between the rollback and the write of the answer.
fn refused_while_used(settlement: Option<idem_core::Settlement>) -> Bank {
    let bank = Bank::answering(|| status(422));
    let database = bank.database.clone();
    bank.database.after_rollback(async move { used_under_a_claim(&database, settlement).await });
    bank
}

#[tokio::test]
async fn a_refusal_whose_key_was_completed_meanwhile_gives_that_answer() {
    let bank = refused_while_used(Some(their_answer()));
    assert_eq!(bank.pay().await, theirs());
    assert_eq!(bank.pay().await, theirs());
    assert_eq!((bank.runs(), bank.database.ledger()), (1, vec![]));
}

#[tokio::test]
async fn a_refusal_whose_key_was_begun_meanwhile_is_in_progress() {
    let bank = refused_while_used(None);
    bank.pay().await.is_problem(409, "in-progress");
    assert_eq!((bank.state().await, bank.database.ledger()), (Some(State::InProgress), vec![]));
}

#[tokio::test]
async fn a_refusal_that_could_not_be_remembered_goes_out_and_its_retry_runs() {
    let bank = Bank::answering(|| status(422));
    bank.database.next(Op::Insert, [Fault::NotWritten(StoreErrorKind::Unavailable)]);
    ends(bank, seen(422, &[], "text"), Ends::RolledBack).await;
}

#[tokio::test]
async fn a_commit_that_meets_a_completed_record_rolls_back_and_gives_its_answer() {
    let database = Database::new();
    let bank = Bank::over(database.clone(), move |order: Order| {
        let database = database.clone();
        async move {
            charge(&order);
            used_under_a_claim(&database, Some(their_answer())).await;
            Ok(charged(order.run))
        }
    });
    assert_eq!(bank.pay().await, theirs());
    assert_eq!((bank.database.ledger(), bank.database.open_now(), bank.runs()), (vec![], 0, 1));
    assert_eq!(bank.pay().await, theirs());
}

#[tokio::test]
async fn a_commit_that_meets_a_claim_rolls_back_and_is_in_progress() {
    let database = Database::new();
    let bank = Bank::over(database.clone(), move |order: Order| {
        let database = database.clone();
        async move {
            charge(&order);
            used_under_a_claim(&database, None).await;
            Ok(charged(order.run))
        }
    });
    bank.pay().await.is_problem(409, "in-progress");
    assert_eq!((bank.database.ledger(), bank.state().await), (vec![], Some(State::InProgress)));
}

#[tokio::test]
async fn a_commit_that_cannot_be_serialised_is_a_503_and_its_retry_runs() {
    let bank = Bank::charging();
    bank.database.next(Op::Commit, [Fault::NotWritten(StoreErrorKind::Contended)]);
    let problem = bank.pay().await.is_problem(503, "store-unavailable");
    assert!(problem["detail"].as_str().unwrap().contains("was rolled back"), "{problem}");
    bank.has_nothing().await;
    assert_eq!(bank.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!(bank.database.ledger(), ["charge 2"]);
}

#[tokio::test]
async fn a_store_that_is_down_runs_nothing_under_any_policy() {
    for policy in [Policy::strict(), Policy::relaxed()] {
        let bank = Bank::charging().set(|layer| layer.policy(policy.clone()));
        bank.database.next(Op::Open, [Fault::NotWritten(StoreErrorKind::Unavailable); 3]);
        bank.pay().await.is_problem(503, "store-unavailable");
        assert_eq!(bank.runs(), 0);
        assert_eq!(bank.pay().await, first_charge());
    }
}

fn grpc(code: &'static str) -> Response<Steps> {
    let trailers = Step::Trailers(header_map(&[("grpc-status", code)]));
    let mut response = Response::new(Steps::of([data("message"), trailers]));
    response.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    response
}

#[tokio::test]
async fn grpc_commits_ok_remembers_definite_errors_and_rolls_the_rest_back() {
    for (code, how) in [
        ("0", Ends::Committed),
        ("3", Ends::Remembered),
        ("5", Ends::Remembered),
        ("9", Ends::Remembered),
        ("16", Ends::Remembered),
        ("8", Ends::RolledBack),
        ("14", Ends::RolledBack),
        ("13", Ends::RolledBack),
        ("", Ends::RolledBack),
    ] {
        let first = seen(200, &[("content-type", "application/grpc")], "message");
        let bank = Bank::answering(move || grpc(code));
        let first = first.with_trailers(&[("grpc-status", code)]);
        if how == Ends::RolledBack {
            ends(bank, first, how).await;
        } else {
            // A replay over HTTP/1.1 announces its trailers.
            assert_eq!(bank.pay().await, first);
            let ledger = if how == Ends::Committed { vec!["charge 1".to_owned()] } else { vec![] };
            assert_eq!((bank.database.ledger(), bank.runs()), (ledger.clone(), 1), "{code}");
            let again = bank.pay().await;
            assert_eq!((again.status, again.body, again.trailers), (200, first.body, first.trailers));
            assert_eq!((bank.database.ledger(), bank.runs()), (ledger, 1), "{code}");
        }
    }
}

#[tokio::test]
async fn grpc_without_a_message_goes_by_the_status_in_its_head() {
    for (code, how) in [("0", Ends::Committed), ("5", Ends::Remembered), ("14", Ends::RolledBack)] {
        let bank = Bank::answering(move || {
            let response = Response::builder().header("content-type", "application/grpc").header("grpc-status", code);
            response.body(Steps::default()).unwrap()
        });
        ends(bank, seen(200, &[("content-type", "application/grpc"), ("grpc-status", code)], ""), how).await;
    }
}

#[tokio::test]
async fn a_route_that_classifies_for_itself_commits_below_400_and_remembers_from_there_on() {
    for (code, class, how) in [
        (500, Class::Complete, Ends::Remembered),
        (404, Class::Release, Ends::RolledBack),
        (200, Class::Fail, Ends::RolledBack),
        (200, Class::FailWithoutEffect, Ends::RolledBack),
        (401, Class::Complete, Ends::Remembered),
        (302, Class::Complete, Ends::Committed),
    ] {
        let bank = Bank::answering(move || status(code)).set(|layer| layer.classify(move |_| Some(class)));
        ends(bank, seen(code, &[], "text"), how).await;
    }
    for (code, ledger) in [(200, vec!["charge 1".to_owned()]), (422, vec![])] {
        let bank = Bank::answering(move || status(code)).set(|layer| layer.classify(|_| Some(Class::CompleteNotKept)));
        assert_eq!(bank.pay().await, seen(code, &[], "text"));
        assert_eq!((bank.database.ledger(), bank.state().await), (ledger, Some(State::Completed(Answer::NotKept))));
        bank.pay().await.is_problem(409, "response-not-kept");
    }
}

#[tokio::test]
async fn a_stream_is_committed_before_its_first_byte_and_stays_so_whatever_its_end() {
    let marked = |mut response: Response<Steps>| {
        response.extensions_mut().insert(Streamed);
        response
    };
    let (asks, database) = (Arc::new(Mutex::new(Vec::new())), Database::new());
    let (told, ledger) = (Arc::clone(&asks), database.clone());
    let bank = Bank::over(database, move |order: Order| {
        charge(&order);
        let (told, ledger) = (Arc::clone(&told), ledger.clone());
        let look = Step::Do(Box::new(move || told.lock().unwrap().push(ledger.ledger())));
        std::future::ready(Ok(marked(Response::new(Steps::of([look, data("some"), Step::Break])))))
    });
    let first = bank.pay().await;
    assert_eq!((first.status, &first.body[..], first.broken), (200, &b"some"[..], true));
    assert_eq!(*asks.lock().unwrap(), [vec!["charge 1".to_owned()]], "committed before anything was read");
    assert_eq!(bank.state().await, Some(State::Completed(Answer::NotKept)));
    bank.pay().await.is_problem(409, "response-not-kept");
    assert_eq!(bank.runs(), 1);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_committed_not_kept_and_reaches_its_client_whole() {
    let bank = Bank::charging().set(|layer| layer.max_response(3));
    assert_eq!(bank.pay().await, first_charge());
    assert_eq!(
        (bank.database.ledger(), bank.state().await),
        (vec!["charge 1".to_owned()], Some(State::Completed(Answer::NotKept)))
    );
    bank.pay().await.is_problem(409, "response-not-kept");
    assert_eq!(bank.runs(), 1);
}
