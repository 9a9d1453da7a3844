//! Many at once with one key.

use idem_tests::{Multiplexed, payments};

const CLIENTS: usize = 1000;

#[tokio::test]
async fn of_a_thousand_at_once_one_charges_and_the_rest_are_told_to_wait_or_get_its_answer() {
    let server = payments!().await;
    let pay = server.caller("alice").pay("pressed-a-thousand-times").bank("slow=400");
    let clients = Multiplexed::open(server.address(), 8).await;
    let answers = clients.send(&pay, CLIENTS).await;

    let (fresh, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 201 && !answer.is_replayed());
    assert_eq!(fresh.len(), 1, "{fresh:?}");
    let id = fresh[0].assert_charged("/payments", "100.00", "RUB");
    let mut refused = 0;
    for answer in others {
        if answer.is_replayed() {
            answer.assert_replay_of(fresh[0]);
        } else {
            answer.assert_in_progress();
            refused += 1;
        }
    }
    eprintln!("{refused} of {CLIENTS} were refused, {} got the answer", CLIENTS - 1 - refused);
    assert!(refused > 0, "nobody came while it ran");
    pay.send().await.assert_replay_of(fresh[0]);
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn of_a_thousand_that_wait_one_charges_and_all_get_its_answer() {
    let server = payments!("--wait", "30s").await;
    let pay = server.caller("alice").pay("pressed-a-thousand-times").bank("slow=400");
    let clients = Multiplexed::open(server.address(), 8).await;
    let answers = clients.send(&pay, CLIENTS).await;

    let (fresh, replayed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| !answer.is_replayed());
    assert_eq!(fresh.len(), 1, "{fresh:?}");
    let id = fresh[0].assert_charged("/payments", "100.00", "RUB");
    assert_eq!(replayed.len(), CLIENTS - 1);
    for answer in replayed {
        answer.assert_replay_of(fresh[0]);
    }
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn whoever_waits_is_told_to_come_back_once_the_wait_is_over() {
    let server = payments!("--wait", "100ms").await;
    let pay = server.caller("alice").pay("longer-than-the-wait").bank("slow=600");
    let (first, second) = tokio::join!(pay.send(), async {
        server.until_in_flight(1).await;
        pay.send().await
    });
    second.assert_in_progress();
    let id = first.assert_charged("/payments", "100.00", "RUB");
    pay.send().await.assert_replay_of(&first);
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn whoever_waits_for_a_failure_is_told_of_it_and_does_not_charge() {
    let server = payments!("--wait", "30s").await;
    let pay = server.caller("alice").pay("fails-under-its-waiters").bank("slow=200, charged-then-502");
    let clients = Multiplexed::open(server.address(), 2).await;
    let answers = clients.send(&pay, 50).await;
    let (failed, told): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 502);
    assert_eq!((failed.len(), told.len()), (1, 49));
    failed[0].assert_problem(502, "bank-gave-no-answer");
    for answer in told {
        answer.assert_problem(500, "previous-attempt-failed");
    }
    assert_eq!(server.ledger().await.len(), 1);
}

#[tokio::test]
async fn of_those_who_wait_for_a_release_one_charges_next() {
    let server = payments!("--wait", "30s").await;
    let pay = server.caller("alice").pay("released-under-its-waiters");
    let busy = pay.clone().bank("slow=200, busy");
    let clients = Multiplexed::open(server.address(), 2).await;
    let (released, answers) = tokio::join!(busy.send(), async {
        server.until_in_flight(1).await;
        clients.send(&pay, 50).await
    });
    released.assert_problem(429, "bank-busy");
    let (fresh, replayed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| !answer.is_replayed());
    assert_eq!(fresh.len(), 1, "{fresh:?}");
    let id = fresh[0].assert_charged("/payments", "100.00", "RUB");
    replayed.iter().for_each(|answer| answer.assert_replay_of(fresh[0]));
    assert_eq!(server.charged_ids().await, [id]);
}

#[tokio::test]
async fn another_request_is_refused_at_once_while_the_first_runs() {
    // Even where requests wait: waiting could not help this one.
    let server = payments!("--wait", "30s").await;
    let alice = server.caller("alice");
    let pay = alice.pay("in-use-by-another").bank("slow=1000");
    let (first, ()) = tokio::join!(pay.send(), async {
        server.until_in_flight(1).await;
        let other = alice.post("/payments").key("in-use-by-another").json(r#"{"amount":"5","currency":"USD"}"#);
        other.send().await.assert_problem(422, "key-reused");
        assert!(server.ledger().await.is_empty(), "it was refused only after the first was done");
    });
    let id = first.assert_charged("/payments", "100.00", "RUB");
    assert_eq!(server.charged_ids().await, [id]);
}
