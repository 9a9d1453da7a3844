use std::collections::HashMap;

use idem_core::{
    Epoch, Fingerprint, IdempotencyKey, NewRecord, Principal, ProfileId, Route, ScopedKey, Settlement, Token,
};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Push { key: usize, seconds: u64 },
    Change { key: usize, seconds: u64 },
    Remove { key: usize },
    RemoveDue { seconds: u64 },
}

const KEYS: usize = 60;

fn steps() -> impl Strategy<Value = Step> {
    let (keys, times) = (0..KEYS, 0..100_u64);
    prop_oneof![
        6 => (keys.clone(), times.clone()).prop_map(|(key, seconds)| Step::Push { key, seconds }),
        3 => (keys.clone(), times.clone()).prop_map(|(key, seconds)| Step::Change { key, seconds }),
        2 => keys.prop_map(|key| Step::Remove { key }),
        1 => times.prop_map(|seconds| Step::RemoveDue { seconds }),
    ]
}

fn record(seconds: u64) -> NewRecord {
    let fingerprint = Fingerprint::from_parts(ProfileId::from_bits(1), [0; 32]);
    let (token, kept) = (Token::from_bytes([1; 16]), Duration::from_secs(seconds));
    NewRecord::settled(fingerprint, token, Epoch::FIRST, Settlement::Released, kept)
}

fn scoped(number: usize) -> ScopedKey {
    let key = IdempotencyKey::parse(format!("order-{number:06}")).unwrap();
    ScopedKey::new(Principal::shared(), Route::new("ship").unwrap(), key)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// With as few hashes as the test likes: keys that collide are still different keys.
    #[test]
    fn rows_table_and_deadlines_stay_in_step(
        hashes in 1..9_u64,
        steps in proptest::collection::vec(steps(), 1..300),
        grow_first in any::<bool>(),
    ) {
        let (mut shard, mut model) = (Shard::new(0, 1), HashMap::new());
        let keys: Vec<_> = (0..KEYS).map(scoped).collect();
        let hashed = |number: usize| Hashed { key: &keys[number], hash: number as u64 % hashes };
        let growth = (0..if grow_first { KEYS } else { 0 }).map(|key| Step::Push { key, seconds: 50 });
        for step in growth.chain(steps) {
            match step {
                Step::Push { key, seconds } if !model.contains_key(&key) => {
                    let revision = shard.next_revision();
                    shard.push(Row::new(hashed(key), &record(seconds), 0, revision, Duration::ZERO));
                    model.insert(key, seconds);
                }
                Step::Push { key, seconds } | Step::Change { key, seconds } => {
                    let Some(at) = shard.position(hashed(key)) else {
                        assert!(!model.contains_key(&key));
                        continue;
                    };
                    let revision = shard.next_revision();
                    // Over a record of time zero: its retention counts from there.
                    shard.change(at, |row| row.overwrite(&record(seconds), 0, revision, Duration::ZERO));
                    model.insert(key, seconds);
                }
                Step::Remove { key } => {
                    let removed = shard.position(hashed(key)).map(|at| shard.remove(at).key);
                    assert_eq!(removed, model.remove(&key).map(|_| keys[key].clone()));
                }
                Step::RemoveDue { seconds } => {
                    let now = Duration::from_secs(seconds);
                    let first = model.values().copied().min().filter(|end| *end <= seconds);
                    assert_eq!(shard.overdue(now), first.map(|end| Duration::from_secs(seconds - end)));
                    assert_eq!(shard.count_due(now), model.values().filter(|end| **end <= seconds).count());
                    let removed = shard.remove_due(now).map(|row| row.key);
                    let number = removed.map(|removed| keys.iter().position(|key| *key == removed).unwrap());
                    assert_eq!(number.and_then(|number| model.remove(&number)), first);
                }
            }
            shard.assert_in_step();
            assert_eq!(shard.rows().len(), model.len());
            for (key, end) in &model {
                let at = shard.position(hashed(*key)).unwrap();
                assert_eq!((&shard.row(at).key, shard.row(at).ends_at()), (&keys[*key], Duration::from_secs(*end)));
            }
        }
    }
}

#[test]
fn a_shard_that_was_large_gives_its_memory_back() {
    let mut shard = Shard::new(0, 1);
    for number in 0..10_000 {
        let revision = shard.next_revision();
        let key = scoped(number);
        let row = Row::new(Hashed { key: &key, hash: number as u64 }, &record(1), 0, revision, Duration::ZERO);
        shard.push(row);
    }
    while shard.remove_due(Duration::from_secs(1)).is_some() {}
    shard.assert_in_step();
    assert!(shard.rows.capacity() <= LEAST_CAPACITY && shard.table.capacity() <= 2 * LEAST_CAPACITY);
}
