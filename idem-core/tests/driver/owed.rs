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
    for number in 0..4097 {
        let key = named(&format!("order-{number:04}"));
        let Begin::Run(attempt) = idem.begin(&key, &request()).await.unwrap() else { panic!("vacant") };
        assert_eq!(attempt.settle(Settlement::Completed(Answer::NotKept)).await, Settled::Owed);
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
