//! What is owed is bounded, in count and in bytes.

use bytes::Bytes;
use idem_core::{Answer, Begin, Settled, Settlement, State};

use tokio::time::{Instant, sleep};

use crate::support::{Fault, Faulty, Op, SECOND, Told, key, named, request, spawning, strict, value};

#[tokio::test(start_paused = true)]
async fn answers_beyond_the_byte_bound_are_owed_as_not_kept() {
    let store = Faulty::new();
    let idem = strict(&store);
    store.always(Op::Settle, Fault::NotWritten);
    let huge = Answer::Value(Bytes::from(vec![7; 40 << 20]));
    let second = named("order-4712");
    for key in [&key(), &second] {
        let Begin::Run(attempt) = idem.begin(key, &request()).await.unwrap() else { panic!("vacant") };
        assert_eq!(attempt.settle(Settlement::Completed(huge.clone())).await, Settled::Owed);
    }
    store.heal();
    assert_eq!(idem.work_off_owed().await, 0);
    assert_eq!(store.state().await, Some(State::Completed(huge)));
    let refused = idem.begin(&second, &request()).await.unwrap();
    assert!(matches!(refused, Begin::Refuse(idem_core::Refusal::ResponseNotKept)), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn more_owed_writes_than_the_bound_are_given_up_loudly_and_keep_their_claims() {
    let store = Faulty::new();
    let told = Told::default();
    let idem = strict(&store).observe(told.clone());
    store.always(Op::Settle, Fault::NotWritten);
    for number in 0..=4096 {
        let key = named(&format!("order-{number:04}"));
        let Begin::Run(attempt) = idem.begin(&key, &request()).await.unwrap() else { panic!("vacant") };
        let settled = attempt.settle(Settlement::Completed(Answer::NotKept)).await;
        assert_eq!(settled, if number < 4096 { Settled::Owed } else { Settled::GivenUp });
    }
    assert_eq!(idem.owed_writes(), 4096);
    assert_eq!(told.all().iter().filter(|event| **event == "owed write given up").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn owed_writes_that_are_hurried_do_not_sit_out_their_pauses() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.always(Op::Settle, Fault::NotWritten);
    assert_eq!(attempt.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    sleep(600 * SECOND).await;
    store.heal();
    let start = Instant::now();
    idem.hurry_owed_writes();
    while idem.owed_writes() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(start.elapsed(), std::time::Duration::ZERO);
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
}

#[tokio::test(start_paused = true)]
async fn owed_releases_do_not_crowd_out_an_outcome() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    let Begin::Run(paid) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.always(Op::Claim, Fault::LostRequest);
    store.always(Op::Settle, Fault::LostRequest);
    for number in 0..5000 {
        let other = named(&format!("order-{number:05}"));
        idem.begin(&other, &request()).await.unwrap_err();
    }
    assert!(idem.owed_writes() <= 1024, "{}", idem.owed_writes());
    assert_eq!(paid.settle(Settlement::Completed(value("paid"))).await, Settled::Owed);
    store.heal();
    sleep(60 * SECOND).await;
    assert_eq!(store.state().await, Some(State::Completed(value("paid"))));
    assert_eq!(idem.owed_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn hurrying_does_not_make_a_release_believe_sooner_that_there_is_nothing_to_release() {
    let store = Faulty::new();
    store.next(Op::Claim, [Fault::LandsAfter(3 * SECOND)]);
    store.always(Op::Claim, Fault::NotWritten);
    let idem = spawning(strict(&store)).call_timeout(SECOND);
    idem.begin(&key(), &request()).await.unwrap_err();
    store.heal();
    for _ in 0..20 {
        idem.hurry_owed_writes();
        sleep(SECOND / 100).await;
    }
    assert!(idem.owed_writes() > 0);
    sleep(10 * SECOND).await;
    assert_eq!(store.state().await, Some(State::Released));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_has_landed_is_recognised_and_no_longer_owed() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    let Begin::Run(attempt) = idem.begin(&key(), &request()).await.unwrap() else { panic!("vacant") };
    store.next(Op::Settle, [Fault::LostReply]);
    assert_eq!(attempt.settle(Settlement::Released).await, Settled::Owed);
    sleep(SECOND / 5).await;
    assert_eq!(idem.owed_writes(), 0, "its own token says so at the first look");
}
