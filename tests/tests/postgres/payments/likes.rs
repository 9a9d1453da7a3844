//! A like is not worth an open transaction: it has a lease in both modes, and what failed runs again.

use crate::support::{Mode, Shop, booked, remembered};

#[tokio::test]
async fn a_like_that_failed_runs_again_and_what_the_bank_has_booked_stays_in_both_modes() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let like = alice.post("/likes/42").key("a-stubborn-like");
        like.clone().bank("down").send().await.assert_problem(502, "bank-gave-no-answer");
        like.clone().bank("no-effect").send().await.assert_problem(502, "bank-not-reached");
        like.clone().bank("charged-then-502").send().await.assert_problem(502, "bank-gave-no-answer");
        like.clone().bank("panic").send().await.assert_problem(500, "internal");
        let fine = like.send().await;
        assert_eq!((fine.status, fine.is_replayed()), (201, false), "{fine:?}");
        like.send().await.assert_replay_of(&fine);

        let epochs: Vec<_> = server.ledger().await.into_iter().map(|charge| charge.epoch).collect();
        assert_eq!(epochs, [Some(3), Some(4), Some(5)], "{mode:?}");
        assert_eq!(remembered(database.url()).await, 1, "{mode:?}");
    }
}

#[tokio::test]
async fn likes_without_a_key_count_as_often_as_they_come_in_both_modes() {
    for mode in Mode::BOTH {
        let Shop { database, alice, server } = Shop::open(mode, &[]).await;
        for _ in 0..3 {
            let liked = alice.post("/likes/42").send().await;
            assert_eq!((liked.status, &liked.json()["post"]), (201, &"42".into()), "{liked:?}");
        }
        let ledger = server.ledger().await;
        assert_eq!(ledger.len(), 3, "{mode:?}");
        for charge in ledger {
            assert_eq!((&*charge.kind, charge.amount, charge.epoch, charge.bank_key), ("like", None, None, None));
        }
        assert_eq!((booked(database.url()).await.len(), remembered(database.url()).await), (3, 0), "{mode:?}");
    }
}

#[tokio::test]
async fn a_like_whose_process_aborts_runs_again_once_its_lease_is_over() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        alice.post("/likes/42").key("a-fatal-like").bank("abort").try_send().await.expect_err("the process is gone");
        server.ended().await;
        assert_eq!(booked(database.url()).await.len(), 1, "{mode:?}");

        let server = crate::support::process(mode, database.url(), &[]).await;
        let like = server.caller("alice").post("/likes/42").key("a-fatal-like");
        like.send().await.assert_in_progress();
        crate::support::end_leases(database.url()).await;
        let second = like.send().await;
        assert_eq!((second.status, second.is_replayed()), (201, false), "{second:?}");
        let epochs: Vec<_> = server.ledger().await.into_iter().map(|charge| charge.epoch).collect();
        assert_eq!(epochs, [Some(1), Some(2)], "{mode:?}");
    }
}
