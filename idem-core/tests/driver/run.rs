//! Run: the closure forms.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;
use idem_core::{Answer, Handled, Outcome, Refusal, State, Unreadable};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::support::{
    Fault, Faulty, LEASE, Op, Runs, SECOND, key, other_request, relaxed, request, spawning, strict, value,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parcel {
    number: u64,
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_no_response_is_kept_and_replayed() {
    let store = Faulty::new();
    let idem = strict(&store);
    let runs = Runs::default();
    let ship = async || {
        let handler = async |_| {
            runs.add();
            Handled::<_, String>::Complete(Parcel { number: u64::MAX })
        };
        idem.run(&key(), &request(), handler).await.unwrap()
    };
    assert_eq!(ship().await, Outcome::Completed(Parcel { number: u64::MAX }));
    assert_eq!(ship().await, Outcome::Replayed(Parcel { number: u64::MAX }));
    assert_eq!(runs.count(), 1);
    let handler = async |_| Handled::<Parcel, String>::Complete(Parcel { number: 0 });
    let reused = idem.run(&key(), &other_request(), handler).await.unwrap();
    assert_eq!(reused, Outcome::Refused(Refusal::KeyReused));
}

#[tokio::test(start_paused = true)]
async fn the_handler_need_not_be_send() {
    let store = Faulty::new();
    let local = Rc::new(5_u8);
    let handler = async |_| {
        tokio::task::yield_now().await;
        Handled::<_, String>::Complete(*local)
    };
    assert_eq!(strict(&store).run(&key(), &request(), handler).await.unwrap(), Outcome::Completed(5));
}

#[tokio::test(start_paused = true)]
async fn how_the_handler_ended_decides_about_the_key() {
    let rows = [
        (Handled::<u8, &str>::Complete(1), Outcome::<u8, &str>::Completed(1), State::Completed(value("1"))),
        (Handled::CompleteNotKept(1), Outcome::Completed(1), State::Completed(Answer::NotKept)),
        (Handled::Release("no"), Outcome::Released("no"), State::Released),
        (Handled::Fail("no"), Outcome::Failed("no"), State::Failed { no_effect: false }),
        (Handled::FailWithoutEffect("no"), Outcome::Failed("no"), State::Failed { no_effect: true }),
    ];
    for (handled, outcome, state) in rows {
        let store = Faulty::new();
        let given = strict(&store).run(&key(), &request(), async |_| handled.clone()).await.unwrap();
        assert_eq!(given, outcome);
        assert_eq!(store.state().await, Some(state));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_handler_says_through_running_comes_first() {
    let store = Faulty::new();
    let handler = async |running: idem_core::Running| {
        running.fail_without_effect();
        running.release();
        Handled::<_, String>::Complete(1)
    };
    assert_eq!(strict(&store).run(&key(), &request(), handler).await.unwrap(), Outcome::Completed(1));
    assert_eq!(store.state().await, Some(State::Released), "the last word counts");

    let handler = async |running: idem_core::Running| {
        running.do_not_keep();
        Handled::<_, String>::Complete(1)
    };
    assert_eq!(strict(&store).run(&key(), &request(), handler).await.unwrap(), Outcome::Completed(1));
    assert_eq!(store.state().await, Some(State::Completed(Answer::NotKept)));

    let store = Faulty::new();
    let handler = async |running: idem_core::Running| {
        running.fail_without_effect();
        Handled::<u8, _>::Fail("the bank said no before it did anything")
    };
    let _ = strict(&store).run(&key(), &request(), handler).await.unwrap();
    assert_eq!(store.state().await, Some(State::Failed { no_effect: true }));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_recorded_as_failed_and_goes_on_to_the_caller() {
    let store = Faulty::new();
    let idem = strict(&store);
    let handler = async |_| -> Handled<u8, String> { panic!("half-way") };
    let panicked = AssertUnwindSafe(idem.run(&key(), &request(), handler)).catch_unwind().await;
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"half-way"));
    assert_eq!(store.state().await, Some(State::Failed { no_effect: false }));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_after_the_handler_is_no_error_of_the_handler() {
    let store = Faulty::new();
    let idem = spawning(strict(&store));
    store.next(Op::Settle, [Fault::NotWritten]);
    let handler = async |_| Handled::<_, String>::Complete(1);
    assert_eq!(idem.run(&key(), &request(), handler).await.unwrap(), Outcome::Completed(1));
    sleep(SECOND).await;
    assert_eq!(idem.run(&key(), &request(), handler).await.unwrap(), Outcome::Replayed(1));
}

#[tokio::test(start_paused = true)]
async fn a_stored_value_of_another_shape_is_refused_and_not_run_again() {
    let store = Faulty::new();
    let idem = strict(&store);
    let _ = idem.run(&key(), &request(), async |_| Handled::<_, String>::Complete("text".to_owned())).await.unwrap();
    let handler = async |_| -> Handled<Parcel, String> { panic!("never a second run") };
    let refused = idem.run(&key(), &request(), handler).await.unwrap();
    assert_eq!(refused, Outcome::Refused(Refusal::RecordUnreadable(Unreadable::Corrupt)));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_encoded_counts_as_not_kept() {
    let store = Faulty::new();
    let handler = async |_| Handled::<_, String>::Complete(std::collections::HashMap::from([((1, 2), 3)]));
    let given = strict(&store).run(&key(), &request(), handler).await.unwrap();
    assert!(matches!(given, Outcome::Completed(_)));
    assert_eq!(store.state().await, Some(State::Completed(Answer::NotKept)));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_run_gives_the_successors_value() {
    let store = Faulty::new();
    store.always(Op::Renew, Fault::NotWritten);
    let idem = relaxed(&store);
    let slow = tokio::spawn({
        let store = store.clone();
        async move {
            let handler = async |_| {
                sleep(3 * LEASE).await;
                Handled::<_, String>::Complete("slow".to_owned())
            };
            relaxed(&store).run(&key(), &request(), handler).await.unwrap()
        }
    });
    sleep(2 * LEASE).await;
    let handler = async |_| Handled::<_, String>::Complete("successor".to_owned());
    assert_eq!(idem.run(&key(), &request(), handler).await.unwrap(), Outcome::Completed("successor".to_owned()));
    assert_eq!(slow.await.unwrap(), Outcome::Replayed("successor".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_form_keeps_what_it_is_given() {
    let store = Faulty::new();
    let idem = strict(&store);
    let handler = async |_| Handled::<_, String>::Complete(value("raw"));
    assert_eq!(idem.run_answer(&key(), &request(), handler).await.unwrap(), Outcome::Completed(value("raw")));
    assert_eq!(idem.run_answer(&key(), &request(), handler).await.unwrap(), Outcome::Replayed(value("raw")));
}

#[tokio::test(start_paused = true)]
async fn derived_keys_are_the_same_on_every_attempt() {
    let store = Faulty::new();
    let idem = relaxed(&store);
    let mut keys = Vec::new();
    for _ in 0..2 {
        let handler = async |running: idem_core::Running| {
            keys.push((running.derive_key("charge-card"), running.epoch().number()));
            Handled::<u8, _>::Fail(())
        };
        let _ = idem.run(&key(), &request(), handler).await.unwrap();
    }
    assert_eq!(keys[0].0, keys[1].0);
    assert_eq!((keys[0].1, keys[1].1), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_is_recorded_as_failed_too() {
    let store = Faulty::new();
    let idem = strict(&store);
    let handler = |_: idem_core::Running| -> std::future::Ready<Handled<u8, String>> { panic!("at once") };
    let (key, request) = (key(), request());
    let panicked = AssertUnwindSafe(idem.run(&key, &request, handler)).catch_unwind().await;
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"at once"));
    assert_eq!(store.state().await, Some(State::Failed { no_effect: false }));
}
