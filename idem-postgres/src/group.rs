//! Grouped writes: what waits while a statement is under way travels together in the next.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use idem_core::{ScopedKey, StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::TimedOut;
use crate::writer::Writer;

/// A write that may wait for others.
pub(crate) trait Write: Send + 'static {
    /// What became of it.
    type Answer: Send + 'static;

    fn key(&self) -> &ScopedKey;

    /// Bytes that it adds to its statement, about.
    fn bytes(&self) -> usize;

    /// Does it, in a statement of its own.
    fn carry_out(&self, writer: &Writer) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;
}

/// One write, and where its answer goes.
pub(crate) struct Asked<W: Write> {
    pub(crate) write: W,
    answer: oneshot::Sender<Result<W::Answer, StoreError>>,
    turn: Arc<Mutex<Turn>>,
}

impl<W: Write> Asked<W> {
    /// Answers whoever asked, if he is still there.
    pub(crate) fn answer(self, answer: Result<W::Answer, StoreError>) {
        let _ = self.answer.send(answer);
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    /// Whether the write may be sent: it has not been given up.
    fn begin(&self) -> bool {
        let mut turn = lock(&self.turn);
        let waits = *turn == Turn::Waiting;
        if waits {
            *turn = Turn::UnderWay;
        }
        waits
    }
}

/// Where a write stands: once it is under way, nobody can say any more that it did not happen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Waiting,
    UnderWay,
    GivenUp,
}

/// How large groups may grow, and how many may be under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) writes: usize,
    pub(crate) bytes: usize,
    pub(crate) in_flight: usize,
    /// The longest that a write waits for its turn and its answer.
    pub(crate) patience: Duration,
}

/// Writes that wait at once, at most. Each has a caller that waits for it, so that this is no usual bound.
const MOST_WAITING: usize = 16_384;

/// Carries a group out, and answers each of its writes.
type Run<W> = dyn Fn(Vec<Asked<W>>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// Clones share the writes that wait.
pub(crate) struct Queue<W: Write>(Arc<Shared<W>>);

impl<W: Write> Clone for Queue<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<W: Write> {
    state: Mutex<State<W>>,
    limits: Limits,
    run: Box<Run<W>>,
}

struct State<W: Write> {
    waiting: VecDeque<Asked<W>>,
    under_way: usize,
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{MOST_WAITING} writes wait for Postgres already")]
struct TooMany;

impl<W: Write> Queue<W> {
    pub(crate) fn new<F>(limits: Limits, run: impl Fn(Vec<Asked<W>>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let run = Box::new(move |group| -> Pin<Box<dyn Future<Output = ()> + Send>> { Box::pin(run(group)) });
        Self(Arc::new(Shared { state: Mutex::new(State { waiting: VecDeque::new(), under_way: 0 }), limits, run }))
    }

    /// Asks for a write, and waits for its answer. Within a tokio runtime.
    ///
    /// Cancellation: a write that still waits is never sent; one that is under way may take effect.
    pub(crate) async fn ask(&self, write: W) -> Result<W::Answer, StoreError> {
        let (answer, answered) = oneshot::channel();
        let turn = Arc::new(Mutex::new(Turn::Waiting));
        let late = TimedOut::Waiting(self.0.limits.patience);
        let answered = async {
            match self.0.push(Asked { write, answer, turn: Arc::clone(&turn) })? {
                Start::Waits => {}
                Start::Here(ticket, asked) => {
                    ticket.carry_out(vec![asked]).await;
                    ticket.pass_on();
                }
                Start::InTask(ticket) => ticket.pass_on(),
            }
            // Otherwise the runtime that carried the group out is gone.
            answered.await.unwrap_or_else(|_| Err(StoreError::unknown(StoreErrorKind::Unavailable, late)))
        };
        match timeout(self.0.limits.patience, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(match give_up(&turn) {
                true => StoreError::not_written(StoreErrorKind::Unavailable, late),
                false => StoreError::unknown(StoreErrorKind::Unavailable, late),
            }),
        }
    }
}

/// Says whether the write was still waiting, and then never is sent.
fn give_up(turn: &Mutex<Turn>) -> bool {
    let mut turn = lock(turn);
    let waits = *turn == Turn::Waiting;
    if waits {
        *turn = Turn::GivenUp;
    }
    waits
}

impl<W: Write> Shared<W> {
    fn push(self: &Arc<Self>, asked: Asked<W>) -> Result<Start<W>, StoreError> {
        let mut state = lock(&self.state);
        if state.waiting.len() >= MOST_WAITING {
            return Err(StoreError::not_written(StoreErrorKind::Full, TooMany));
        }
        // The last leave always goes to a task: whoever asks may stop polling, and would keep it.
        let another_is_free = state.under_way + 1 < self.limits.in_flight;
        let ticket = self.ticket(&mut state);
        Ok(match ticket {
            Some(ticket) if another_is_free && state.waiting.is_empty() && asked.begin() => Start::Here(ticket, asked),
            ticket => {
                state.waiting.push_back(asked);
                ticket.map_or(Start::Waits, Start::InTask)
            }
        })
    }

    /// Leave for another group, where one more may be under way.
    fn ticket(self: &Arc<Self>, state: &mut State<W>) -> Option<Ticket<W>> {
        let is_free = state.under_way < self.limits.in_flight;
        if is_free {
            state.under_way += 1;
        }
        is_free.then(|| Ticket { shared: Arc::clone(self), is_in_task: false, is_given_back: false })
    }

    /// The next group. One write per key: two rows of one key would abort the statement, and which of them came first
    /// would be lost.
    fn take(&self, state: &mut State<W>) -> Vec<Asked<W>> {
        let (mut group, mut keys, mut bytes) = (Vec::new(), HashSet::new(), 0);
        let mut passed_over = VecDeque::new();
        while group.len() < self.limits.writes
            && let Some(asked) = state.waiting.pop_front()
        {
            if asked.is_abandoned() {
                continue;
            }
            if !group.is_empty() && bytes + asked.write.bytes() > self.limits.bytes {
                passed_over.push_back(asked);
                break;
            }
            if keys.contains(asked.write.key()) {
                passed_over.push_back(asked);
                continue;
            }
            if asked.begin() {
                keys.insert(asked.write.key().clone());
                bytes += asked.write.bytes();
                group.push(asked);
            }
        }
        // What was passed over came before what still waits.
        passed_over.append(&mut state.waiting);
        state.waiting = passed_over;
        group
    }
}

/// How a write begins.
enum Start<W: Write> {
    /// It goes with the next group.
    Waits,
    /// Nobody waits: it is carried out by whoever asks, without the detour through another task.
    Here(Ticket<W>, Asked<W>),
    /// A task carries it out, with whatever else waits.
    InTask(Ticket<W>),
}

/// Leave to have a group under way. However it ends, the leave is given back or passed on.
struct Ticket<W: Write> {
    shared: Arc<Shared<W>>,
    is_in_task: bool,
    is_given_back: bool,
}

impl<W: Write> Ticket<W> {
    /// The writes of a group that panics are dropped, and so unknown to their callers. The queue goes on.
    async fn carry_out(&self, group: Vec<Asked<W>>) {
        drop(AssertUnwindSafe((self.shared.run)(group)).catch_unwind().await);
    }

    /// Goes on with what waits, in a task of its own. Not under the lock: a runtime that ends drops the task on the
    /// spot, and with it the ticket.
    fn pass_on(mut self) {
        let Some(mut group) = self.next() else { return };
        self.is_given_back = true;
        let mut ticket = Self { shared: Arc::clone(&self.shared), is_in_task: true, is_given_back: false };
        drop(tokio::spawn(async move {
            loop {
                ticket.carry_out(group).await;
                match ticket.next() {
                    Some(next) => group = next,
                    None => return,
                }
            }
        }));
    }

    /// The next group. Where nothing waits, the leave is given back in the same step: whoever comes later starts anew.
    fn next(&mut self) -> Option<Vec<Asked<W>>> {
        let mut state = lock(&self.shared.state);
        let group = self.shared.take(&mut state);
        if group.is_empty() {
            state.under_way -= 1;
            self.is_given_back = true;
            return None;
        }
        Some(group)
    }
}

impl<W: Write> Drop for Ticket<W> {
    fn drop(&mut self) {
        if self.is_given_back {
            return;
        }
        // Whoever carried it out has gone: others may wait. A task goes only with its runtime, and then nothing can be
        // passed on; whoever still waits is answered by his own bound.
        if !self.is_in_task && tokio::runtime::Handle::try_current().is_ok() {
            let next = Self { shared: Arc::clone(&self.shared), is_in_task: true, is_given_back: false };
            next.pass_on();
        } else {
            lock(&self.shared.state).under_way -= 1;
        }
    }
}

/// Lists and flags stay usable whatever panicked while they were locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
