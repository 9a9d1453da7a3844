use idem_core::{Answer, Epoch, Fingerprint, Header, IdempotencyKey, Principal, ProfileId, Response, Route};
use idem_core::{Revision, Settlement, Token};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::*;
use crate::{ENTRY_BYTES, ManualClock};

#[derive(Clone, Debug)]
enum Step {
    Insert { key: usize, record: NewRecord },
    Replace { key: usize, guard: Option<Token>, change: Change },
    Sweep { limit: u32 },
    Advance(u64),
}

const ENTRIES: usize = 6;
const BYTES: usize = 8 * ENTRY_BYTES;
const KEYS: usize = 12;

fn answers() -> impl Strategy<Value = Answer> {
    let header = || Header { name: "x".into(), value: "yz".into() };
    prop_oneof![
        Just(Answer::NotKept),
        (0..2000_usize).prop_map(|size| Answer::Value(vec![0; size].into())),
        (0..2000_usize, 0..9_usize).prop_map(move |(size, headers)| Answer::from(Response {
            status: 200,
            headers: vec![header(); headers],
            body: vec![0; size].into(),
            trailers: vec![header(); headers / 4],
        })),
    ]
}

fn tokens() -> impl Strategy<Value = Token> {
    (0..2_u8).prop_map(|number| Token::from_bytes([number; 16]))
}

fn records() -> impl Strategy<Value = NewRecord> {
    let fingerprint = Fingerprint::from_parts(ProfileId::from_bits(1), [0; 32]);
    let seconds = || (0..40_u64).prop_map(Duration::from_secs);
    let settlements = prop_oneof![
        2 => answers().prop_map(Settlement::Completed),
        1 => any::<bool>().prop_map(|no_effect| Settlement::Failed { no_effect }),
        1 => Just(Settlement::Released),
    ];
    prop_oneof![
        (tokens(), seconds(), seconds()).prop_map(move |(token, lease, kept)| NewRecord::claim(
            fingerprint,
            token,
            Epoch::FIRST,
            lease,
            kept
        )),
        (tokens(), settlements, seconds()).prop_map(move |(token, settlement, kept)| NewRecord::settled(
            fingerprint,
            token,
            Epoch::FIRST,
            settlement,
            kept
        )),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let renewal = Change::Renew { lease: Duration::from_secs(10), retention: Duration::from_secs(20) };
    let changes = prop_oneof![4 => records().prop_map(Change::Record), 1 => Just(renewal)];
    let guards = prop_oneof![tokens().prop_map(Some), Just(None)];
    prop_oneof![
        5 => (0..KEYS, records()).prop_map(|(key, record)| Step::Insert { key, record }),
        5 => (0..KEYS, guards, changes).prop_map(|(key, guard, change)| Step::Replace { key, guard, change }),
        1 => (1..4_u32).prop_map(|limit| Step::Sweep { limit }),
        2 => (0..15_u64).prop_map(Step::Advance),
    ]
}

/// Counts all rows anew, holds the counters against that, and gives the bytes.
fn assert_counted(shared: &Shared<ManualClock>) -> usize {
    let (mut entries, mut bytes) = (0, 0);
    for shard in &shared.shards {
        let (shard, _) = shared.lock_shard(shard);
        shard.assert_in_step();
        entries += shard.rows().len();
        bytes += shard.rows().iter().map(Row::recount).sum::<usize>();
    }
    assert_eq!((shared.usage.entries(), shared.usage.bytes()), (entries, bytes));
    assert!(entries <= ENTRIES);
    bytes
}

async fn run(steps: Vec<Step>) {
    let limits = Limits::default().with_entries(ENTRIES).unwrap().with_bytes(BYTES).unwrap();
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock_and_limits(clock.clone(), limits);
    let keys: Vec<_> = (0..KEYS)
        .map(|number| {
            let key = IdempotencyKey::parse("k".repeat(8 + number)).unwrap();
            ScopedKey::new(Principal::new("p".repeat(1 + number)).unwrap(), Route::new("r").unwrap(), key)
        })
        .collect();
    let mut written_since_the_last_insert = 0;
    for step in steps {
        match step {
            Step::Insert { key, record } => match store.insert(&keys[key], &record).await {
                Ok(Inserted::Done(_)) => {
                    written_since_the_last_insert = 0;
                    assert!(store.shared.usage.bytes() <= BYTES);
                }
                Ok(Inserted::Occupied(_)) => {}
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Full);
                    let stats = store.stats().await.unwrap();
                    assert_eq!(stats.expired, Some(0), "refused though there was something to reclaim");
                }
            },
            Step::Replace { key, guard, change } => {
                let seen = store.find(&keys[key]).await.unwrap().map(|found| found.revision);
                let seen = seen.unwrap_or(Revision::from_number(0));
                let done = store.replace(&keys[key], guard.map_or(Guard::Unchanged(seen), Guard::Owner), &change).await;
                if let (Ok(Replaced::Done(_)), Change::Record(new)) = (done, &change) {
                    written_since_the_last_insert += bytes_of(&keys[key], new.record());
                }
            }
            Step::Sweep { limit } => assert!(store.sweep(limit.try_into().unwrap()).await.unwrap().removed <= limit),
            Step::Advance(seconds) => clock.advance(Duration::from_secs(seconds)),
        }
        assert!(assert_counted(&store.shared) <= BYTES + written_since_the_last_insert);
    }
    clock.advance(Duration::MAX);
    store.sweep(NonZeroU32::MAX).await.unwrap();
    assert_eq!(assert_counted(&store.shared), 0);
    assert_eq!(store.shared.usage.entries(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_counted_is_what_is_there(steps in proptest::collection::vec(steps(), 1..80)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(steps));
    }
}

/// A full store whose records all lie in one shard, and a key of another one.
async fn crowded_shard(entries: usize) -> (MemoryStore<ManualClock>, ManualClock, ScopedKey) {
    let clock = ManualClock::new();
    let limits = Limits::default().with_bytes(entries * (ENTRY_BYTES + 16)).unwrap();
    let store = MemoryStore::with_clock_and_limits(clock.clone(), limits);
    let key = |number: usize| {
        let key = IdempotencyKey::parse(format!("{number:015}")).unwrap();
        ScopedKey::new(Principal::shared(), Route::new("r").unwrap(), key)
    };
    let shard_of_key = |key: &ScopedKey| shard_of(store.shared.hashed(key).hash);
    let crowd = (0..).map(key).filter(|key| shard_of_key(key) == 1).take(entries);
    for key in crowd.collect::<Vec<_>>() {
        assert!(matches!(store.insert(&key, &answer_of(0)).await, Ok(Inserted::Done(_))));
    }
    assert_eq!(store.shared.usage.bytes(), limits.bytes());
    let elsewhere = (0..).map(key).find(|key| shard_of_key(key) == 60).unwrap();
    (store, clock, elsewhere)
}

/// Kept for a second.
fn answer_of(bytes: usize) -> NewRecord {
    let fingerprint = Fingerprint::from_parts(ProfileId::from_bits(1), [0; 32]);
    let settlement = Settlement::Completed(Answer::Value(vec![0; bytes].into()));
    NewRecord::settled(fingerprint, Token::from_bytes([1; 16]), Epoch::FIRST, settlement, Duration::from_secs(1))
}

#[tokio::test]
async fn an_insert_reclaims_what_it_needs_from_one_shard_and_hardly_more() {
    let (store, clock, key) = crowded_shard(300).await;
    clock.advance(Duration::from_secs(1));
    let needed = 150;
    let record = answer_of((needed - 1) * (ENTRY_BYTES + 16));
    assert!(matches!(store.insert(&key, &record).await, Ok(Inserted::Done(_))));
    let removed = 301 - store.shared.usage.entries();
    assert!((needed..needed + 8).contains(&removed), "{removed} removed");
}

#[tokio::test]
async fn an_insert_does_a_bounded_part_of_the_reclaiming_and_the_next_goes_on() {
    let (store, clock, key) = crowded_shard(600).await;
    clock.advance(Duration::from_secs(1));
    let record = answer_of(550 * (ENTRY_BYTES + 16));
    for left in [344, 88] {
        assert_eq!(store.insert(&key, &record).await.unwrap_err().kind(), StoreErrorKind::Full);
        assert_eq!(store.shared.usage.entries(), left);
    }
    assert!(matches!(store.insert(&key, &record).await, Ok(Inserted::Done(_))));
}
