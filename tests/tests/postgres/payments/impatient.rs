//! Clients that hang up at random.

use core::time::Duration;

use idem_tests::{Caller, Random, eventually};

use crate::support::{Mode, Shop, assert_refused_for_now, booked};

#[tokio::test]
async fn a_client_that_hung_up_during_the_charge_comes_back_to_its_answer() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let pay = alice.pay("hung-up-and-came-back").bank("slow=700");
        pay.hang_up_once(server.until_in_flight(1)).await;
        pay.send().await.assert_in_progress();
        assert_eq!(booked(database.url()).await.len(), 0, "{mode:?}: it hung up after the charge");
        eventually("it is settled", async || server.metric("idempotency_in_flight").await == 0.0).await;
        let answer = pay.send().await;
        assert!(answer.is_replayed(), "{answer:?}");
        assert_eq!((answer.status, &answer.json()["amount"]), (201, &"100.00".into()), "{answer:?}");
        assert_eq!(booked(database.url()).await, [answer.id()], "{mode:?}");
    }
}

#[tokio::test]
async fn clients_that_hang_up_at_random_are_charged_once_each() {
    const CLIENTS: usize = 100;
    for mode in Mode::BOTH {
        // The database lives as long as the shop.
        let shop = Shop::open(mode, &["--db-connections", "40"]).await;
        let server = &shop.server;
        let mut random = Random::seeded();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| tokio::spawn(impatient(server.caller(&format!("client-{number}")), random.fork())))
            .collect();
        let (mut ids, mut hung_up, mut replayed) = (Vec::new(), 0, 0);
        for client in clients {
            let client = client.await.expect("no client panics");
            hung_up += client.hung_up;
            replayed += usize::from(client.replayed);
            ids.push(client.id);
        }
        eprintln!("{mode:?}: {CLIENTS} clients hung up {hung_up} times; {replayed} came back to an answer");
        assert!(hung_up > CLIENTS / 4 && replayed > CLIENTS / 20, "too patient to prove anything");
        eventually("nothing runs any more", async || server.metric("idempotency_in_flight").await == 0.0).await;

        let ledger = server.ledger().await;
        assert_eq!(ledger.len(), CLIENTS, "{mode:?}: {ledger:?}");
        for (number, id) in ids.iter().enumerate() {
            let charge =
                ledger.iter().find(|charge| charge.id == *id).expect("the answer tells of a charge that is there");
            assert_eq!(&*charge.principal, &*format!("client-{number}"), "{mode:?}");
        }
    }
}

/// What became of one client.
struct Client {
    id: String,
    hung_up: usize,
    replayed: bool,
}

/// Tries until it is answered; hangs up at some of its first tries, in the middle of its request or while it waits.
async fn impatient(caller: Caller, mut random: Random) -> Client {
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
            503 => {
                assert_refused_for_now(&answer);
                tokio::time::sleep(Duration::from_millis(random.within(50..500))).await;
            }
            _ => tokio::time::sleep(answer.assert_in_progress()).await,
        }
    }
    unreachable!("it tries for ever")
}
