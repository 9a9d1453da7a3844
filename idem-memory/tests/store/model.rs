//! Random calls against a store that is too simple to be wrong.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use idem_core::{
    Answer, Change, Content, Epoch, Found, Guard, Inserted, NewRecord, Record, Replaced, Revision, Settlement, Swept,
    Token,
};
use idem_memory::{Clock, ManualClock};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::scene::{Scene, fingerprint, key, token};

#[derive(Clone, Debug)]
enum Step {
    Insert { key: usize, record: NewRecord },
    Replace { key: usize, guard: Aim, change: Change },
    Find { key: usize },
    Sweep { limit: u32 },
    Advance(Duration),
}

/// A guard, before it is known which revisions there are.
#[derive(Clone, Copy, Debug)]
enum Aim {
    Owner(Token),
    /// Whatever is there now, so that the guard holds.
    Current,
    /// One of the revisions that were given out so far.
    Earlier(usize),
}

#[derive(Default)]
struct Model {
    rows: HashMap<usize, Row>,
    revisions: HashSet<Revision>,
    given: Vec<Revision>,
}

struct Row {
    record: Record,
    revision: Revision,
    claimed_at: Duration,
    lease_until: Duration,
    expires_at: Duration,
}

impl Row {
    fn is_live(&self, now: Duration) -> bool {
        now < self.expires_at || now < self.lease_until
    }

    fn found(&self, now: Duration) -> Found {
        Found {
            revision: self.revision,
            age: now.saturating_sub(self.claimed_at),
            lease_left: self.lease_until.saturating_sub(now),
            retention_left: self.expires_at.saturating_sub(now),
            content: Content::Readable(self.record.clone()),
        }
    }
}

impl Model {
    fn live(&self, key: usize, now: Duration) -> Option<&Row> {
        self.rows.get(&key).filter(|row| row.is_live(now))
    }

    fn found(&self, key: usize, now: Duration) -> Option<Found> {
        self.live(key, now).map(|row| row.found(now))
    }

    fn expired(&self, now: Duration) -> u32 {
        u32::try_from(self.rows.values().filter(|row| !row.is_live(now)).count()).unwrap()
    }

    fn aim(&self, key: usize, aim: Aim, now: Duration) -> Guard {
        match aim {
            Aim::Owner(token) => Guard::Owner(token),
            Aim::Current => Guard::Unchanged(self.live(key, now).map_or(Revision::from_number(0), |row| row.revision)),
            Aim::Earlier(pick) if self.given.is_empty() => Guard::Unchanged(Revision::from_number(pick as u64)),
            Aim::Earlier(pick) => Guard::Unchanged(self.given[pick % self.given.len()]),
        }
    }

    fn allows(&self, key: usize, guard: Guard, change: &Change, now: Duration) -> bool {
        let Some(row) = self.live(key, now) else { return false };
        let claimed = !row.record.state.is_settled();
        let holds = match guard {
            Guard::Owner(token) => claimed && row.record.token == token,
            Guard::Unchanged(revision) => row.revision == revision,
        };
        holds && (claimed || matches!(change, Change::Record(_)))
    }

    fn write(&mut self, key: usize, new: &NewRecord, revision: Revision, now: Duration) {
        self.gave(revision);
        let (mut claimed_at, mut expires_at) = (now, now.saturating_add(new.retention()));
        if let Some(before) = self.live(key, now).filter(|_| new.record().state.is_settled()) {
            claimed_at = before.claimed_at;
            expires_at = claimed_at.saturating_add(new.retention()).max(now.saturating_add(new.retention() / 2));
        }
        let lease_until = now.saturating_add(new.lease());
        let row = Row { record: new.record().clone(), revision, claimed_at, lease_until, expires_at };
        self.rows.insert(key, row);
    }

    fn renew(&mut self, key: usize, lease: Duration, retention: Duration, revision: Revision, now: Duration) {
        self.gave(revision);
        let row = self.rows.get_mut(&key).unwrap();
        row.revision = revision;
        row.lease_until = now.saturating_add(lease);
        if row.expires_at.saturating_sub(now) < retention / 2 {
            row.expires_at = now.saturating_add(retention);
        }
    }

    fn gave(&mut self, revision: Revision) {
        assert!(self.revisions.insert(revision), "{revision:?} comes twice");
        self.given.push(revision);
    }
}

async fn run(steps: Vec<Step>) {
    let (scene, mut model) = (Scene::new(), Model::default());
    for step in steps {
        let now = ManualClock::now(&scene.clock);
        match step {
            Step::Insert { key: number, record } => match scene.insert(&key(number), &record).await.unwrap() {
                Inserted::Done(revision) => {
                    assert_eq!(model.found(number, now), None);
                    model.write(number, &record, revision, now);
                }
                Inserted::Occupied(found) => assert_eq!(Some(found), model.found(number, now)),
            },
            Step::Replace { key: number, guard, change } => {
                let guard = model.aim(number, guard, now);
                let allowed = model.allows(number, guard, &change, now);
                match (scene.replace(&key(number), guard, &change).await, &change) {
                    (Replaced::Lost(found), _) => assert_eq!((found, allowed), (model.found(number, now), false)),
                    (Replaced::Done(_), _) if !allowed => panic!("{guard:?} let {change:?} through"),
                    (Replaced::Done(revision), Change::Record(record)) => model.write(number, record, revision, now),
                    (Replaced::Done(revision), Change::Renew { lease, retention }) => {
                        model.renew(number, *lease, *retention, revision, now);
                    }
                }
            }
            Step::Find { key: number } => assert_eq!(scene.find(&key(number)).await, model.found(number, now)),
            Step::Sweep { limit } => {
                let expired = model.expired(now);
                let swept = Swept { removed: expired.min(limit), more: expired > limit };
                assert_eq!(scene.sweep(limit).await, swept);
                // Which ones a small limit takes is the store's business; the rest must come with the next sweep.
                let rest = Swept { removed: expired - swept.removed, more: false };
                assert_eq!(scene.sweep(u32::MAX).await, rest);
                model.rows.retain(|_, row| row.is_live(now));
            }
            Step::Advance(by) => scene.clock.advance(by),
        }
        assert_same_whole(&scene, &model).await;
    }
}

async fn assert_same_whole(scene: &Scene, model: &Model) {
    let now = scene.clock.now();
    let stats = idem_core::KeyStore::stats(&scene.store).await.unwrap();
    let over = model.rows.values().filter(|row| !row.is_live(now));
    assert_eq!(stats.records, Some(model.rows.len() as u64));
    assert_eq!(stats.expired, Some(model.expired(now).into()));
    assert_eq!(stats.oldest_expired, over.map(|row| now - row.expires_at.max(row.lease_until)).max());
    for number in 0..KEYS {
        assert_eq!(scene.find(&key(number)).await, model.found(number, now));
    }
}

const KEYS: usize = 4;

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![9 => (0..40_u64).prop_map(Duration::from_secs), 1 => Just(Duration::MAX)]
}

fn records() -> impl Strategy<Value = NewRecord> {
    let claims = ((0..3_u8), durations(), durations()).prop_map(|(number, lease, retention)| {
        NewRecord::claim(fingerprint(), token(number), Epoch::FIRST, lease, retention)
    });
    let settlements = prop_oneof![
        (0..200_usize).prop_map(|size| Settlement::Completed(Answer::Value(vec![1; size].into()))),
        any::<bool>().prop_map(|no_effect| Settlement::Failed { no_effect }),
        Just(Settlement::Released),
    ];
    let settled = ((0..3_u8), settlements, durations()).prop_map(|(number, settlement, retention)| {
        NewRecord::settled(fingerprint(), token(number), Epoch::FIRST, settlement, retention)
    });
    prop_oneof![claims, settled]
}

fn steps() -> impl Strategy<Value = Step> {
    let aims = prop_oneof![
        (0..3_u8).prop_map(|number| Aim::Owner(token(number))),
        Just(Aim::Current),
        any::<usize>().prop_map(Aim::Earlier),
    ];
    let changes = prop_oneof![
        2 => records().prop_map(Change::Record),
        1 => (durations(), durations()).prop_map(|(lease, retention)| Change::Renew { lease, retention }),
    ];
    let keys = 0..KEYS;
    prop_oneof![
        4 => (keys.clone(), records()).prop_map(|(key, record)| Step::Insert { key, record }),
        6 => (keys.clone(), aims, changes).prop_map(|(key, guard, change)| Step::Replace { key, guard, change }),
        1 => keys.prop_map(|key| Step::Find { key }),
        1 => (1..4_u32).prop_map(|limit| Step::Sweep { limit }),
        4 => (0..30_u64).prop_map(|seconds| Step::Advance(Duration::from_secs(seconds))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_calls_in_any_order_are_answered_as_the_simplest_store_would(
        steps in proptest::collection::vec(steps(), 1..60),
    ) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(steps));
    }
}
