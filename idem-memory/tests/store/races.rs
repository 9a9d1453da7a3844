//! Many threads, one key.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use idem_core::{Change, Guard, Inserted, KeyStore, Replaced};
use idem_memory::{Clock, ManualClock, MemoryStore};
use tokio::runtime::{Builder, Runtime};

use crate::scene::{claim, completed, key, owner, token, token_of};

/// Runs `work` on so many threads, which all start together.
pub(crate) fn at_once<T: Send>(threads: usize, work: impl Fn(usize, &Runtime) -> T + Sync) -> Vec<T> {
    let (start, work) = (Barrier::new(threads), &work);
    thread::scope(|scope| {
        let start = &start;
        let started = (0..threads).map(|number| {
            scope.spawn(move || {
                let runtime = Builder::new_current_thread().build().unwrap();
                start.wait();
                work(number, &runtime)
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

const THREADS: usize = 8;
const ROUNDS: usize = 2000;

fn token_number(thread: usize) -> u8 {
    u8::try_from(thread).unwrap()
}

#[test]
fn of_many_inserts_at_once_one_is_done_and_the_others_see_it() {
    let store = MemoryStore::default();
    let outcomes = at_once(THREADS, |thread, runtime| {
        let insert = |round| runtime.block_on(store.insert(&key(round), &claim(token_number(thread)))).unwrap();
        (0..ROUNDS).map(insert).collect::<Vec<_>>()
    });
    for round in 0..ROUNDS {
        let winners: Vec<_> =
            (0..THREADS).filter(|&thread| matches!(outcomes[thread][round], Inserted::Done(_))).collect();
        let [winner] = winners[..] else { panic!("round {round}: {winners:?}") };
        for outcome in outcomes.iter().map(|outcomes| &outcomes[round]) {
            if let Inserted::Occupied(found) = outcome {
                assert_eq!(token_of(found), token(token_number(winner)));
            }
        }
    }
}

#[test]
fn of_many_takeovers_of_one_revision_one_is_done_and_the_others_see_it() {
    let store = MemoryStore::default();
    let setup = Builder::new_current_thread().build().unwrap();
    let seen: Vec<_> = (0..ROUNDS)
        .map(|round| match setup.block_on(store.insert(&key(round), &claim(100))) {
            Ok(Inserted::Done(revision)) => revision,
            other => panic!("{other:?}"),
        })
        .collect();
    let outcomes = at_once(THREADS, |thread, runtime| {
        let takeover = Change::Record(claim(token_number(thread)));
        let replace = |(round, seen): (usize, &_)| {
            runtime.block_on(store.replace(&key(round), Guard::Unchanged(*seen), &takeover)).unwrap()
        };
        seen.iter().enumerate().map(replace).collect::<Vec<_>>()
    });
    for round in 0..ROUNDS {
        let winners: Vec<_> =
            (0..THREADS).filter(|&thread| matches!(outcomes[thread][round], Replaced::Done(_))).collect();
        let [winner] = winners[..] else { panic!("round {round}: {winners:?}") };
        for outcome in outcomes.iter().map(|outcomes| &outcomes[round]) {
            if let Replaced::Lost(found) = outcome {
                assert_eq!(token_of(found.as_ref().unwrap()), token(token_number(winner)));
            }
        }
    }
}

#[test]
fn a_completion_and_a_takeover_at_once_do_not_both_go_through() {
    let store = MemoryStore::default();
    let setup = Builder::new_current_thread().build().unwrap();
    let seen: Vec<_> = (0..ROUNDS)
        .map(|round| match setup.block_on(store.insert(&key(round), &claim(0))) {
            Ok(Inserted::Done(revision)) => revision,
            other => panic!("{other:?}"),
        })
        .collect();
    let outcomes = at_once(2, |thread, runtime| {
        let done = |(round, seen): (usize, &_)| {
            let (guard, change) = match thread {
                0 => (owner(0), Change::Record(completed(0, "paid"))),
                _ => (Guard::Unchanged(*seen), Change::Record(claim(1))),
            };
            matches!(runtime.block_on(store.replace(&key(round), guard, &change)).unwrap(), Replaced::Done(_))
        };
        seen.iter().enumerate().map(done).collect::<Vec<_>>()
    });
    for (round, (completed, taken)) in outcomes[0].iter().zip(&outcomes[1]).enumerate() {
        assert_ne!(completed, taken, "round {round}");
    }
}

/// Panics when it is told to, under a lock of the store.
#[derive(Clone, Default)]
struct Faulty {
    clock: ManualClock,
    panics: Arc<AtomicBool>,
}

impl Clock for Faulty {
    fn now(&self) -> Duration {
        assert!(!self.panics.load(Ordering::Relaxed), "the clock panics, as it was told");
        self.clock.now()
    }
}

#[test]
fn a_panic_under_a_lock_changes_nothing_and_does_not_take_the_store_down() {
    let clock = Faulty::default();
    let store = MemoryStore::with_clock(clock.clone());
    let runtime = Builder::new_current_thread().build().unwrap();
    let Inserted::Done(revision) = runtime.block_on(store.insert(&key(1), &claim(1))).unwrap() else { panic!() };

    clock.panics.store(true, Ordering::Relaxed);
    let settle = Change::Record(completed(1, "paid"));
    let panicked = catch_unwind(AssertUnwindSafe(|| runtime.block_on(store.replace(&key(1), owner(1), &settle))));
    assert!(panicked.is_err());

    clock.panics.store(false, Ordering::Relaxed);
    assert_eq!(runtime.block_on(store.find(&key(1))).unwrap().unwrap().revision, revision);
    assert!(matches!(runtime.block_on(store.replace(&key(1), owner(1), &settle)), Ok(Replaced::Done(_))));
}
