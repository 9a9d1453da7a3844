//! The process is gone after the charge, and before its answer.

use idem_tests::{Server, eventually};

use crate::support::{Mode, Shop, booked, end_leases, once_it_is_free, process, remembered};

/// Pays, with a process that does not survive it.
async fn pay_with_the_last_breath(server: Server, key: &str, directives: &str) {
    let pay = server.caller("alice").pay(key).bank(directives);
    pay.try_send().await.expect_err("there is nobody left to answer");
    let ended = server.ended().await;
    assert!(!ended.status.success(), "{:?}", ended.status);
    assert_eq!(ended.log.matches("the bank charged").count(), 1, "it is gone before the charge: {}", ended.log);
}

#[tokio::test]
async fn in_one_transaction_the_charge_goes_with_its_process_and_the_retry_charges_once() {
    for directives in ["abort", "slow=50, abort"] {
        let Shop { database, server, .. } = Shop::open(Mode::Transaction, &[]).await;
        pay_with_the_last_breath(server, "the-fatal-payment", directives).await;
        assert_eq!((booked(database.url()).await.len(), remembered(database.url()).await), (0, 0));

        let server = process(Mode::Transaction, database.url(), &[]).await;
        let pay = server.caller("alice").pay("the-fatal-payment");
        // The database may hear a moment later than the client that the process is gone.
        let first = once_it_is_free(&pay).await;
        let id = first.assert_charged("/payments", "100.00", "RUB");
        pay.send().await.assert_replay_of(&first);
        assert_eq!(booked(database.url()).await, [id]);
        assert_eq!(server.ledger().await[0].epoch, Some(1));
    }
}

#[tokio::test]
async fn under_a_claim_the_charge_stays_and_no_retry_charges_again() {
    for directives in ["abort", "slow=50, abort"] {
        let Shop { database, server, .. } = Shop::open(Mode::Claim, &[]).await;
        pay_with_the_last_breath(server, "the-fatal-payment", directives).await;
        let booked_then = booked(database.url()).await;
        assert_eq!((booked_then.len(), remembered(database.url()).await), (1, 1));

        let server = process(Mode::Claim, database.url(), &[]).await;
        let pay = server.caller("alice").pay("the-fatal-payment");
        for _ in 0..3 {
            pay.send().await.assert_in_progress();
        }
        end_leases(database.url()).await;
        for _ in 0..3 {
            let problem = pay.send().await.assert_problem(409, "outcome-unknown");
            assert_eq!(problem["safe_to_use_new_key"], false, "{problem}");
        }
        assert_eq!(booked(database.url()).await, booked_then);
        assert_eq!(server.charged_ids().await, booked_then);
    }
}

#[tokio::test]
async fn a_lease_that_nobody_renews_ends_by_the_clock_of_the_database() {
    let Shop { database, server, .. } = Shop::open(Mode::Claim, &["--lease", "1s"]).await;
    pay_with_the_last_breath(server, "the-fatal-payment", "abort").await;
    let server = process(Mode::Claim, database.url(), &["--lease", "1s"]).await;
    let pay = server.caller("alice").pay("the-fatal-payment");
    eventually("the lease is over", async || {
        let answer = pay.send().await;
        let is_over = answer.json().get("retry_after_ms").is_none();
        if is_over {
            answer.assert_problem(409, "outcome-unknown");
        } else {
            answer.assert_in_progress();
        }
        is_over
    })
    .await;
    assert_eq!(booked(database.url()).await.len(), 1);
}
