//! The queue without a database: groups are held until the test lets them go.

use idem_core::{Certainty, IdempotencyKey, Principal, Route};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

struct Note {
    key: ScopedKey,
    text: &'static str,
    bytes: usize,
}

impl Write for Note {
    type Answer = &'static str;

    fn key(&self) -> &ScopedKey {
        &self.key
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    async fn carry_out(&self, _: &Writer) -> Result<&'static str, StoreError> {
        Ok(self.text)
    }
}

fn note(key: &str, text: &'static str) -> Note {
    let key = IdempotencyKey::parse(format!("key-number-{key}")).unwrap();
    Note { key: ScopedKey::new(Principal::shared(), Route::new("notes").unwrap(), key), text, bytes: 1 }
}

/// A queue whose groups come out of a channel, to be answered by the test.
struct Scene {
    queue: Queue<Note>,
    groups: UnboundedReceiver<Held>,
}

/// A group under way.
struct Held {
    group: Vec<Asked<Note>>,
    _under_way: oneshot::Sender<()>,
}

impl Held {
    fn texts(&self) -> Vec<&'static str> {
        self.group.iter().map(|asked| asked.write.text).collect()
    }

    fn answer(self) {
        for asked in self.group {
            let text = asked.write.text;
            asked.answer(Ok(text));
        }
    }
}

fn limits() -> Limits {
    Limits { writes: 4, bytes: 100, in_flight: 1, patience: PATIENCE }
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let (sender, groups): (UnboundedSender<Held>, _) = unbounded_channel();
        let queue = Queue::new(limits, move |group| {
            let (under_way, over) = oneshot::channel();
            let sent = sender.send(Held { group, _under_way: under_way });
            async move {
                assert!(sent.is_ok());
                let _ = over.await;
            }
        });
        Self { queue, groups }
    }

    /// Asks, and lets the queue take notice.
    async fn ask(&self, note: Note) -> JoinHandle<Result<&'static str, StoreError>> {
        let queue = self.queue.clone();
        let asked = tokio::spawn(async move { queue.ask(note).await });
        settle().await;
        asked
    }

    async fn next(&mut self) -> Held {
        settle().await;
        self.groups.try_recv().expect("a group is under way")
    }

    async fn none(&mut self) {
        settle().await;
        assert!(self.groups.try_recv().is_err(), "no further group is under way");
    }
}

/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_finds_nobody_goes_at_once_and_alone() {
    let (mut scene, start) = (Scene::new(limits()), Instant::now());
    let asked = scene.ask(note("1", "a")).await;
    let group = scene.next().await;
    assert_eq!((group.texts(), start.elapsed()), (vec!["a"], Duration::ZERO));
    group.answer();
    assert_eq!(asked.await.unwrap().unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn what_waits_while_a_group_is_under_way_travels_together_in_the_next() {
    let mut scene = Scene::new(limits());
    let first = scene.ask(note("1", "a")).await;
    let rest = [scene.ask(note("2", "b")).await, scene.ask(note("3", "c")).await];
    let group = scene.next().await;
    scene.none().await;
    group.answer();
    let group = scene.next().await;
    assert_eq!(group.texts(), ["b", "c"]);
    group.answer();
    assert_eq!(first.await.unwrap().unwrap(), "a");
    for (asked, text) in rest.into_iter().zip(["b", "c"]) {
        assert_eq!(asked.await.unwrap().unwrap(), text);
    }
    scene.none().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_has_one_write_per_key_and_keeps_the_order_of_each_key() {
    let mut scene = Scene::new(limits());
    scene.ask(note("1", "held")).await;
    let held = scene.next().await;
    for (key, text) in [("1", "a"), ("2", "b"), ("1", "c"), ("3", "d"), ("1", "e")] {
        scene.ask(note(key, text)).await;
    }
    held.answer();
    for texts in [vec!["a", "b", "d"], vec!["c"], vec!["e"]] {
        let group = scene.next().await;
        assert_eq!(group.texts(), texts);
        group.answer();
    }
    scene.none().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_keeps_to_its_number_and_to_its_bytes_and_a_large_write_goes_alone() {
    let mut scene = Scene::new(limits());
    scene.ask(note("0", "held")).await;
    let held = scene.next().await;
    for (key, text) in [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d"), ("5", "e")] {
        scene.ask(note(key, text)).await;
    }
    scene.ask(Note { bytes: 1000, ..note("6", "large") }).await;
    scene.ask(note("7", "f")).await;
    held.answer();
    for texts in [vec!["a", "b", "c", "d"], vec!["e"], vec!["large"], vec!["f"]] {
        let group = scene.next().await;
        assert_eq!(group.texts(), texts);
        group.answer();
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_groups_are_under_way_as_the_limit_says() {
    let mut scene = Scene::new(Limits { in_flight: 2, ..limits() });
    for (key, text) in [("1", "a"), ("2", "b"), ("3", "c")] {
        scene.ask(note(key, text)).await;
    }
    let (first, second) = (scene.next().await, scene.next().await);
    assert_eq!((first.texts(), second.texts()), (vec!["a"], vec!["b"]));
    scene.none().await;
    second.answer();
    assert_eq!(scene.next().await.texts(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_caller_is_gone_is_not_sent_and_the_others_are() {
    let mut scene = Scene::new(limits());
    scene.ask(note("0", "held")).await;
    let held = scene.next().await;
    let gone = scene.ask(note("1", "gone")).await;
    scene.ask(note("2", "b")).await;
    gone.abort();
    settle().await;
    held.answer();
    assert_eq!(scene.next().await.texts(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_while_his_write_is_under_way_holds_nobody_up() {
    let mut scene = Scene::new(Limits { in_flight: 2, ..limits() });
    let gone = scene.ask(note("1", "under way")).await;
    let _held = scene.next().await;
    scene.ask(note("2", "as well")).await;
    let _held = scene.next().await;
    scene.ask(note("3", "waits")).await;
    scene.none().await;
    gone.abort();
    assert_eq!(scene.next().await.texts(), ["waits"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_stops_to_look_for_his_answer_holds_nobody_up() {
    for in_flight in [1, 2] {
        let mut scene = Scene::new(Limits { in_flight, ..limits() });
        let queue = scene.queue.clone();
        let mut stopped = Box::pin(queue.ask(note("1", "stopped")));
        assert!(futures_util::poll!(stopped.as_mut()).is_pending());
        let first = scene.next().await;
        let mut also = Box::pin(queue.ask(note("2", "also")));
        assert!(futures_util::poll!(also.as_mut()).is_pending());
        first.answer();
        scene.next().await.answer();
        let asked = scene.ask(note("3", "others")).await;
        scene.next().await.answer();
        assert_eq!(asked.await.unwrap().unwrap(), "others");
    }
}

#[tokio::test(start_paused = true)]
async fn patience_that_ends_before_the_turn_wrote_nothing_and_never_will() {
    let mut scene = Scene::new(limits());
    scene.ask(note("0", "first")).await;
    let first = scene.next().await;
    let under_way = scene.ask(note("1", "held")).await;
    first.answer();
    let held = scene.next().await;
    let waits = scene.ask(note("2", "late")).await;
    tokio::time::sleep(PATIENCE).await;
    let error = waits.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Unavailable, Certainty::NotWritten));
    let error = under_way.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Unavailable, Certainty::Unknown));
    held.answer();
    scene.none().await;
    scene.ask(note("3", "next")).await;
    assert_eq!(scene.next().await.texts(), ["next"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_panics_leaves_its_writes_unknown_and_stops_nobody() {
    let (may_panic, panics) = oneshot::channel::<()>();
    let panics = Mutex::new(Some(panics));
    let queue: Queue<Note> = Queue::new(limits(), move |group: Vec<Asked<Note>>| {
        let panics = lock(&panics).take();
        async move {
            if let Some(panics) = panics {
                panics.await.unwrap();
                panic!("the first group was told to panic");
            }
            for asked in group {
                asked.answer(Ok("done"));
            }
        }
    });
    let ask = |key, text| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.ask(note(key, text)).await })
    };
    let first = ask("1", "a");
    settle().await;
    let second = ask("2", "b");
    settle().await;
    may_panic.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap_err().certainty(), Certainty::Unknown);
    assert_eq!(second.await.unwrap().unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn more_writes_than_may_wait_are_refused_and_were_not_written() {
    let mut scene = Scene::new(limits());
    scene.ask(note("0", "held")).await;
    let _held = scene.next().await;
    let waiting: Vec<_> = (0..MOST_WAITING)
        .map(|number| {
            let queue = scene.queue.clone();
            tokio::spawn(async move { queue.ask(note(&number.to_string(), "waits")).await })
        })
        .collect();
    while lock(&scene.queue.0.state).waiting.len() < MOST_WAITING {
        settle().await;
    }
    let error = scene.queue.ask(note("one-too-many", "refused")).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Full, Certainty::NotWritten));
    assert!(waiting.iter().all(|asked| !asked.is_finished()));
}

#[test]
fn a_runtime_that_ends_under_waiting_writes_ends() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let scene = runtime.block_on(async {
        let scene = Scene::new(limits());
        for (key, text) in [("1", "under way"), ("2", "waits"), ("3", "waits")] {
            scene.ask(note(key, text)).await;
        }
        scene
    });
    drop(runtime);
    assert_eq!(lock(&scene.queue.0.state).under_way, 0);
}
