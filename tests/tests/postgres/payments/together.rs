//! Many at once.

use idem_tests::{Answer, Multiplexed};

use crate::support::{Mode, Shop, assert_refused_for_now, booked};

#[tokio::test]
async fn of_a_thousand_at_once_on_one_key_one_charges_and_the_rest_come_back_to_its_answer() {
    const CLIENTS: usize = 1000;
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let pay = alice.pay("pressed-a-thousand-times").bank("slow=2500");
        let clients = Multiplexed::open(server.address(), 8).await;
        let answers = clients.send(&pay, CLIENTS).await;

        let (fresh, others): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| is_fresh(answer));
        assert_eq!(fresh.len(), 1, "{mode:?}: {fresh:?}");
        let id = fresh[0].assert_charged("/payments", "100.00", "RUB");
        let (mut in_progress, mut not_even_looked) = (0, 0);
        for answer in others {
            match answer.status {
                201 => answer.assert_replay_of(fresh[0]),
                // More at once than there are connections, or than they serve in time.
                503 if mode == Mode::Transaction => {
                    assert_refused_for_now(answer);
                    not_even_looked += 1;
                }
                _ => {
                    answer.assert_in_progress();
                    in_progress += 1;
                }
            }
        }
        let replayed = CLIENTS - 1 - in_progress - not_even_looked;
        eprintln!("{mode:?}: {in_progress} in progress, {not_even_looked} refused with 503, {replayed} replayed");
        assert!(in_progress > 0, "{mode:?}: nobody came while it ran");
        pay.send().await.assert_replay_of(fresh[0]);
        assert_eq!(booked(database.url()).await, [id], "{mode:?}");
    }
}

#[tokio::test]
async fn duplicates_find_a_connection_while_as_many_charges_run_as_there_may() {
    let Shop { database, server, alice } = Shop::open(Mode::Transaction, &["--db-connections", "4"]).await;
    // Three charges hold three connections; the layer keeps the fourth for looks.
    let slow = |number| alice.pay(&format!("a-slow-payment-{number}")).bank("slow=2000");
    let calls = [slow(1), slow(2), slow(3)];
    let charging = calls.each_ref().map(|call| call.send());
    let (charged, ()) = tokio::join!(futures_util::future::join_all(charging), async {
        server.until_in_flight(3).await;
        let another = alice.pay("one-too-many").send().await;
        another.assert_problem(503, "overloaded");
        assert_eq!(server.charged_ids().await, [""; 0], "the ledger can be read meanwhile");
    });
    let mut ids: Vec<_> = charged.iter().map(|answer| answer.assert_charged("/payments", "100.00", "RUB")).collect();
    ids.sort();
    let mut booked = booked(database.url()).await;
    booked.sort();
    assert_eq!(booked, ids);
    for (call, first) in calls.iter().zip(&charged) {
        call.send().await.assert_replay_of(first);
    }
}

#[tokio::test]
async fn of_those_who_wait_one_charges_and_all_get_its_answer() {
    for mode in Mode::BOTH {
        let options = ["--wait", "30s", "--db-connections", "64"];
        let Shop { database, server, alice } = Shop::open(mode, &options).await;
        let pay = alice.pay("pressed-fifty-times").bank("slow=400");
        let clients = Multiplexed::open(server.address(), 2).await;
        let answers = clients.send(&pay, 50).await;
        let (fresh, replayed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| is_fresh(answer));
        assert_eq!(fresh.len(), 1, "{mode:?}: {fresh:?}");
        let id = fresh[0].assert_charged("/payments", "100.00", "RUB");
        replayed.iter().for_each(|answer| answer.assert_replay_of(fresh[0]));
        assert_eq!(booked(database.url()).await, [id], "{mode:?}");
    }
}

#[tokio::test]
async fn of_those_who_wait_for_a_rollback_one_charges_next() {
    let options = ["--wait", "30s", "--db-connections", "64"];
    let Shop { database, server, alice } = Shop::open(Mode::Transaction, &options).await;
    let pay = alice.pay("rolled-back-under-its-waiters");
    let failing = pay.clone().bank("slow=300, charged-then-502");
    let clients = Multiplexed::open(server.address(), 2).await;
    let (failed, answers) = tokio::join!(failing.send(), async {
        server.until_in_flight(1).await;
        clients.send(&pay, 50).await
    });
    failed.assert_problem(502, "bank-gave-no-answer");
    let (fresh, replayed): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| is_fresh(answer));
    assert_eq!(fresh.len(), 1, "{fresh:?}");
    let id = fresh[0].assert_charged("/payments", "100.00", "RUB");
    replayed.iter().for_each(|answer| answer.assert_replay_of(fresh[0]));
    assert_eq!(booked(database.url()).await, [id]);
}

fn is_fresh(answer: &Answer) -> bool {
    answer.status == 201 && !answer.is_replayed()
}
