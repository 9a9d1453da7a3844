//! An orderly end.

use idem_tests::Server;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Mode, Shop, booked, end_leases, process};

fn stop(server: &Server) {
    let id = i32::try_from(server.id()).expect("a process id of this system");
    kill(Pid::from_raw(id), Signal::SIGTERM).expect("it runs");
}

#[tokio::test]
async fn a_process_that_is_told_to_stop_ends_the_charge_that_runs_and_answers_it() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let pay = alice.pay("the-last-payment").bank("slow=1000");
        let (answer, ()) = tokio::join!(pay.send(), async {
            server.until_in_flight(1).await;
            stop(&server);
            assert_eq!(booked(database.url()).await.len(), 0, "it was told after the charge");
        });
        let id = answer.assert_charged("/payments", "100.00", "RUB");
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(0), "{mode:?}: {}", ended.log);
        assert_eq!(booked(database.url()).await, [id], "{mode:?}");
        let server = process(mode, database.url(), &[]).await;
        let replay = server.caller("alice").pay("the-last-payment").send().await;
        // The first one said, too, that the connection ends.
        assert!(replay.is_replayed() && replay.status == 201, "{replay:?}");
        assert_eq!((replay.header("location"), &replay.body), (answer.header("location"), &answer.body));
    }
}

#[tokio::test]
async fn a_process_that_is_told_to_stop_waits_for_charges_and_likes_whose_clients_are_gone() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &[]).await;
        let like = alice.post("/likes/42").key("the-last-like").bank("slow=1000");
        like.hang_up_once(server.until_in_flight(1)).await;
        alice.pay("the-last-payment").bank("slow=1000").hang_up_once(server.until_in_flight(2)).await;
        stop(&server);
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(0), "{mode:?}: {}", ended.log);
        assert_eq!(booked(database.url()).await.len(), 2, "{mode:?}");
        let server = process(mode, database.url(), &[]).await;
        for call in [server.caller("alice").pay("the-last-payment"), like_again(&server)] {
            assert!(call.send().await.is_replayed(), "{mode:?}: {call:?}");
        }
    }
}

fn like_again(server: &Server) -> idem_tests::Call {
    server.caller("alice").post("/likes/42").key("the-last-like")
}

#[tokio::test]
async fn what_a_stop_has_to_leave_is_undone_in_one_transaction_and_unknown_under_a_claim() {
    for mode in Mode::BOTH {
        let Shop { database, server, alice } = Shop::open(mode, &["--drain", "200ms"]).await;
        let pay = alice.pay("the-last-payment").bank("slow=60000");
        let (answer, ()) = tokio::join!(pay.try_send(), async {
            server.until_in_flight(1).await;
            stop(&server);
        });
        answer.expect_err("the process ended before the charge");
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
        assert!(ended.log.contains("1 attempts and 0 owed writes did not end in time"), "{}", ended.log);
        assert_eq!(booked(database.url()).await.len(), 0, "{mode:?}");

        let server = process(mode, database.url(), &["--wait", "30s"]).await;
        let pay = server.caller("alice").pay("the-last-payment");
        match mode {
            Mode::Transaction => {
                let id = pay.send().await.assert_charged("/payments", "100.00", "RUB");
                assert_eq!(booked(database.url()).await, [id]);
            }
            Mode::Claim => {
                end_leases(database.url()).await;
                pay.send().await.assert_problem(409, "outcome-unknown");
                assert_eq!(booked(database.url()).await.len(), 0);
            }
        }
    }
}
