//! Resolve: an operator settles in the attempt's place.

use idem_core::{Begin, Content, Found, InPlaceOfMine, Resolved, Settled, Settlement, State, Token};
use tokio::time::sleep;

use crate::support::{Faulty, LEASE, key, request, strict, value};

#[tokio::test(start_paused = true)]
async fn a_resolved_claim_is_settled_and_the_late_attempt_loses() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(late) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let seen = idem.find(&key()).await.unwrap().unwrap();
    let settlement = Settlement::Completed(value("found in the bank's books"));
    assert_eq!(idem.resolve(&key(), &seen, settlement).await.unwrap(), Resolved::Done);
    let lost = late.settle(Settlement::Completed(value("late"))).await;
    assert_eq!(lost, Settled::LeaseLost(InPlaceOfMine::Answer(value("found in the bank's books"))));
    let Begin::Replay(answer) = idem.begin(&key(), &request()).await.unwrap() else { panic!("resolved") };
    assert_eq!(answer, value("found in the bank's books"));
}

#[tokio::test(start_paused = true)]
async fn what_has_changed_since_it_was_seen_is_left_alone() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let seen = idem.find(&key()).await.unwrap().unwrap();
    attempt.settle(Settlement::Completed(value("paid"))).await;
    let Resolved::Changed(Some(there)) = idem.resolve(&key(), &seen, Settlement::Released).await.unwrap() else {
        panic!("the attempt has completed meanwhile")
    };
    assert_eq!(Some(there.clone()), store.there().await);
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
    assert_eq!(idem.resolve(&key(), &there, Settlement::Released).await.unwrap(), Resolved::NotAClaim);
}

#[tokio::test(start_paused = true)]
async fn a_resolved_release_lets_the_next_request_run() {
    let store = Faulty::new();
    let idem = strict(&store);
    drop(idem.begin(&key(), &request()).await.unwrap());
    let seen = idem.find(&key()).await.unwrap().unwrap();
    assert_eq!(idem.resolve(&key(), &seen, Settlement::Released).await.unwrap(), Resolved::Done);
    assert!(matches!(idem.begin(&key(), &request()).await.unwrap(), Begin::Run(_)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_renewed_since_it_was_seen_is_left_alone() {
    let store = Faulty::new();
    let idem = strict(&store);
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    let seen = idem.find(&key()).await.unwrap().unwrap();
    attempt.drive(sleep(LEASE / 2)).await;
    let resolved = idem.resolve(&key(), &seen, Settlement::Released).await.unwrap();
    assert!(matches!(resolved, Resolved::Changed(Some(_))), "{resolved:?}");
    assert_eq!(store.state().await, Some(State::InProgress), "its attempt lives");
}

#[tokio::test(start_paused = true)]
async fn a_resolved_record_has_a_token_of_its_own() {
    let store = Faulty::new();
    let idem = strict(&store);
    drop(idem.begin(&key(), &request()).await.unwrap());
    let seen = idem.find(&key()).await.unwrap().unwrap();
    let _ = idem.resolve(&key(), &seen, Settlement::Failed { no_effect: true }).await.unwrap();
    assert_ne!(token(&seen), token(&store.there().await.unwrap()));
}

fn token(found: &Found) -> Token {
    let Content::Readable(record) = &found.content else { panic!("readable") };
    record.token
}
