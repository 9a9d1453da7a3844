//! Clients that do not wait for their answer.

use core::time::Duration;

use idem_tests::{Random, eventually, payments};

#[tokio::test]
async fn a_client_that_hung_up_during_the_charge_comes_back_to_its_answer() {
    let server = payments!().await;
    let pay = server.caller("alice").pay("hung-up-and-came-back").bank("slow=700");
    pay.hang_up_once(server.until_in_flight(1)).await;

    pay.send().await.assert_in_progress();
    assert!(server.ledger().await.is_empty(), "it hung up after the charge");
    eventually("the charge is made", async || server.ledger().await.len() == 1).await;
    eventually("it is settled", async || server.metric("idempotency_in_flight").await == 0.0).await;
    let answer = pay.send().await;
    assert!(answer.is_replayed(), "{answer:?}");
    assert_eq!((answer.status, &answer.json()["amount"]), (201, &"100.00".into()), "{answer:?}");
    assert_eq!(server.charged_ids().await, [answer.id()]);
}

#[tokio::test]
async fn a_client_that_hung_up_and_waits_gets_its_answer_at_its_first_retry() {
    let server = payments!("--wait", "30s").await;
    let pay = server.caller("alice").pay("hung-up-and-came-back").bank("slow=700");
    pay.hang_up_once(server.until_in_flight(1)).await;
    let answer = pay.send().await;
    assert!(answer.is_replayed(), "{answer:?}");
    assert_eq!(server.charged_ids().await, [answer.id()]);
}

#[tokio::test]
async fn a_request_that_breaks_off_before_its_end_claims_nothing() {
    let server = payments!().await;
    let pay = server.caller("alice").pay("never-sent-to-its-end");
    for bytes in [0, 1, 40, pay.length() - 20, pay.length() - 1] {
        pay.send_only(bytes).await;
    }
    let first = pay.send().await;
    let id = first.assert_charged("/payments", "100.00", "RUB");
    // Another request under that key would be refused, had one of the broken ones got through.
    assert_eq!(server.charged_ids().await, [id]);
    assert_eq!(server.ledger().await[0].epoch, Some(1));
}

#[tokio::test]
async fn a_client_that_hangs_up_right_after_its_last_byte_has_either_paid_or_not_begun() {
    let server = payments!().await;
    let alice = server.caller("alice");
    const ROUNDS: usize = 50;
    for round in 0..ROUNDS {
        let pay = alice.pay(&format!("sent-and-gone-{round}"));
        pay.send_only(u64::MAX).await;
        let answer = loop {
            let answer = pay.send().await;
            if answer.status == 201 {
                break answer;
            }
            tokio::time::sleep(answer.assert_in_progress()).await;
        };
        assert_eq!(answer.json()["amount"], "100.00");
    }
    let ledger = server.ledger().await;
    assert_eq!(ledger.len(), ROUNDS);
    assert!(ledger.iter().all(|charge| charge.epoch == Some(1)), "{ledger:?}");
}

#[tokio::test]
async fn two_hundred_clients_that_hang_up_at_random_are_charged_once_each() {
    const CLIENTS: usize = 200;
    let server = payments!().await;
    let mut random = Random::seeded();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let caller = server.caller(&format!("client-{number}"));
            tokio::spawn(impatient(caller, random.fork()))
        })
        .collect();

    let (mut ids, mut hung_up, mut replayed) = (Vec::new(), 0, 0);
    for client in clients {
        let client = client.await.unwrap();
        hung_up += client.hung_up;
        replayed += usize::from(client.replayed);
        ids.push(client.id);
    }
    eprintln!("{CLIENTS} clients hung up {hung_up} times; {replayed} came back to an answer");
    assert!(hung_up > CLIENTS / 4 && replayed > CLIENTS / 10, "too patient to prove anything");

    let ledger = server.ledger().await;
    assert_eq!(ledger.len(), CLIENTS, "{ledger:?}");
    for (number, id) in ids.iter().enumerate() {
        let charge = ledger.iter().find(|charge| charge.id == *id).expect("the answer tells of a charge that was made");
        assert_eq!((&*charge.principal, charge.epoch), (&*format!("client-{number}"), Some(1)));
    }
    eventually("nothing runs any more", async || server.metric("idempotency_in_flight").await == 0.0).await;
}

/// What became of one client.
struct Client {
    id: String,
    hung_up: usize,
    replayed: bool,
}

/// Tries until it is answered; hangs up at some of its first tries, in the middle of its request or while it waits.
async fn impatient(caller: idem_tests::Caller, mut random: Random) -> Client {
    let pay = caller.pay("the-one-payment").bank(format!("slow={}", random.within(0..150)));
    let mut hung_up = 0;
    for tried in 0.. {
        let answer = match random.within(0..4) {
            _ if tried >= 4 => pay.send().await,
            0 => {
                pay.send_only(random.within(0..pay.length() + 1)).await;
                hung_up += 1;
                continue;
            }
            _ => match pay.send_or_hang_up_after(Duration::from_micros(random.within(0..200_000))).await {
                Some(answer) => answer,
                None => {
                    hung_up += 1;
                    continue;
                }
            },
        };
        match answer.status {
            201 => return Client { id: answer.id(), hung_up, replayed: answer.is_replayed() },
            _ => tokio::time::sleep(answer.assert_in_progress()).await,
        }
    }
    unreachable!("it tries for ever")
}
