//! Several processes on one database.

use idem_tests::Server;

use crate::support::{Mode, Shop, booked, process, remembered};
use idem_tests::postgres::Database;

#[tokio::test]
async fn what_one_process_has_answered_another_replays() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let other = process(mode, database.url(), &[]).await;
        let first = alice.pay("paid-here-asked-there").send().await;
        let id = first.assert_charged("/payments", "100.00", "RUB");
        let there = other.caller("alice");
        there.pay("paid-here-asked-there").send().await.assert_replay_of(&first);
        let declined = there.pay("declined-there").bank("declined").send().await;
        alice.pay("declined-there").send().await.assert_replay_of(&declined);
        there.post("/payments").key("paid-here-asked-there").json("{}").send().await.assert_problem(422, "key-reused");
        // Another caller's key is another key, there too.
        let of_bob = other.caller("bob").pay("paid-here-asked-there").send().await;
        let second = of_bob.assert_charged("/payments", "100.00", "RUB");

        assert_eq!(there.get(&format!("/payments/{id}")).send().await.body, first.body);
        let charged = [id, second];
        assert_eq!((server.charged_ids().await, other.charged_ids().await), (charged.to_vec(), charged.to_vec()));
    }
}

#[tokio::test]
async fn a_duplicate_of_what_runs_in_another_process_is_refused_at_once() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let other = process(mode, database.url(), &[]).await;
        let pay = alice.pay("clicked-here-and-there").bank("slow=1500");
        let there = other.caller("alice").pay("clicked-here-and-there");
        let (first, ()) = tokio::join!(pay.send(), async {
            server.until_in_flight(1).await;
            for _ in 0..5 {
                there.send().await.assert_in_progress();
            }
            assert_eq!(booked(database.url()).await.len(), 0, "{mode:?}: they were refused only after the charge");
        });
        let id = first.assert_charged("/payments", "100.00", "RUB");
        there.send().await.assert_replay_of(&first);
        assert_eq!(booked(database.url()).await, [id], "{mode:?}");
    }
}

#[tokio::test]
async fn a_double_click_that_reaches_two_processes_charges_once() {
    const ROUNDS: usize = 40;
    for mode in Mode::BOTH {
        let Shop { database, server, .. } = Shop::open(mode, &[]).await;
        let other = process(mode, database.url(), &[]).await;
        for round in 0..ROUNDS {
            let key = format!("clicked-twice-{round}");
            let (here, there) = (server.caller("alice").pay(&key), other.caller("alice").pay(&key));
            let (a, b) = tokio::join!(here.send(), there.send());
            let (first, second) = if a.status == 201 && !a.is_replayed() { (a, b) } else { (b, a) };
            first.assert_charged("/payments", "100.00", "RUB");
            match second.status {
                201 => second.assert_replay_of(&first),
                _ => drop(second.assert_in_progress()),
            }
        }
        assert_eq!(booked(database.url()).await.len(), ROUNDS, "{mode:?}");
        assert_eq!(remembered(database.url()).await, ROUNDS as i64, "{mode:?}");
    }
}

#[tokio::test]
async fn processes_of_both_modes_share_the_answers_of_a_key() {
    let Shop { database, server, alice } = Shop::open(Mode::Transaction, &[]).await;
    let other: Server = process(Mode::Claim, database.url(), &[]).await;
    let there = other.caller("alice");
    for (key, first, second) in [("here-and-then-there", &alice, &there), ("there-and-then-here", &there, &alice)] {
        let answer = first.pay(key).send().await;
        answer.assert_charged("/payments", "100.00", "RUB");
        second.pay(key).send().await.assert_replay_of(&answer);
    }
    assert_eq!(server.charged_ids().await.len(), 2);
}

#[tokio::test]
async fn processes_that_start_at_once_on_an_empty_database_all_serve() {
    for mode in Mode::BOTH {
        let database = Database::create().await;
        let starting = (0..4).map(|_| process(mode, database.url(), &[]));
        let servers = futures_util::future::join_all(starting).await;
        for (number, server) in servers.iter().enumerate() {
            let answer = server.caller("alice").pay(&format!("the-payment-of-{number}")).send().await;
            answer.assert_charged("/payments", "100.00", "RUB");
        }
        assert_eq!(servers[0].charged_ids().await, booked(database.url()).await);
        assert_eq!(booked(database.url()).await.len(), servers.len());
    }
}
