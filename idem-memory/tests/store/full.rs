//! What a full store refuses, what it never refuses, and what makes room.

use std::error::Error;

use idem_core::{
    Certainty, Change, Epoch, Guard, Header, Inserted, KeyStore, NewRecord, Response, Settlement, StoreErrorKind,
};
use idem_memory::{ENTRY_BYTES, Limits, LimitsError, ManualClock, MemoryStore, StoreFull};

use crate::races::at_once;
use crate::scene::{
    DAY, HOUR, Scene, UNSETTLED, answered, claim, claim_for, completed, completed_for, fingerprint, key, owner,
    released, renewal, state_of, token, token_of,
};

/// Bytes of one claim under a key of [`key`].
const CLAIM: usize = ENTRY_BYTES + "alice".len() + "/payments".len() + "order-000000".len();

#[tokio::test]
async fn a_store_full_by_entries_refuses_new_keys_and_serves_the_ones_it_has() {
    let scene = Scene::within(Limits::default().with_entries(4).unwrap());
    assert_full_store_works(&scene, StoreFull::Entries { limit: 4 }).await;
}

#[tokio::test]
async fn a_store_full_by_bytes_refuses_new_keys_and_serves_the_ones_it_has() {
    let limit = 5 * CLAIM - 1;
    let scene = Scene::within(Limits::default().with_bytes(limit).unwrap());
    assert_full_store_works(&scene, StoreFull::Bytes { limit, used: 4 * CLAIM, needed: CLAIM }).await;
}

/// The scene has room for four claims.
async fn assert_full_store_works(scene: &Scene, full: StoreFull) {
    for number in 0..4 {
        scene.inserted(&key(number), &claim(1)).await;
    }
    let before = scene.usage().await;
    let error = scene.insert(&key(4), &claim(1)).await.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Full, Certainty::NotWritten));
    assert_eq!(error.source().unwrap().downcast_ref(), Some(&full));
    assert_eq!(scene.usage().await, before, "a refused insert leaves nothing behind");
    assert_eq!(scene.find(&key(4)).await, None);

    // Nothing of what it holds is refused.
    assert!(
        matches!(scene.insert(&key(0), &claim(2)).await, Ok(Inserted::Occupied(found)) if token_of(&found) == token(1))
    );
    scene.replaced(&key(0), owner(1), &renewal()).await;
    scene.replaced(&key(0), owner(1), &Change::Record(completed(1, vec![b'x'; 1 << 16]))).await;
    let revision = scene.replaced(&key(1), owner(1), &Change::Record(released(1))).await;
    scene.replaced(&key(1), Guard::Unchanged(revision), &Change::Record(claim(2))).await;
    scene.replaced(&key(1), owner(2), &Change::Record(completed(2, "paid"))).await;
    assert_eq!(state_of(&scene.find(&key(1)).await.unwrap()), &answered(b"paid"));

    // And nothing of it was dropped to make room.
    assert_eq!(scene.insert(&key(4), &claim(1)).await.unwrap_err().kind(), StoreErrorKind::Full);
    for number in 0..4 {
        assert!(scene.find(&key(number)).await.is_some());
    }
}

#[tokio::test]
async fn answers_past_the_byte_limit_are_kept_and_new_keys_wait_until_they_expired() {
    let limit = 10 * CLAIM;
    let scene = Scene::within(Limits::default().with_bytes(limit).unwrap());
    scene.inserted(&key(0), &claim(1)).await;
    scene.replaced(&key(0), owner(1), &Change::Record(completed_for(1, vec![0; 2 * limit], HOUR))).await;
    assert_eq!(scene.usage().await, (1, (CLAIM + 2 * limit) as u64));
    assert_eq!(scene.insert(&key(1), &claim(1)).await.unwrap_err().kind(), StoreErrorKind::Full);

    scene.clock.advance(HOUR);
    scene.inserted(&key(1), &claim(1)).await;
    assert_eq!(scene.usage().await, (1, CLAIM as u64));
}

#[tokio::test]
async fn a_shorter_answer_in_place_of_a_longer_one_gives_its_bytes_back() {
    let scene = Scene::new();
    scene.inserted(&key(0), &claim(1)).await;
    let revision = scene.replaced(&key(0), owner(1), &Change::Record(completed(1, vec![0; 1000]))).await;
    assert_eq!(scene.usage().await, (1, CLAIM as u64 + 1000));
    scene.replaced(&key(0), Guard::Unchanged(revision), &Change::Record(claim(2))).await;
    assert_eq!(scene.usage().await, (1, CLAIM as u64));
}

#[tokio::test]
async fn a_response_counts_with_its_texts_and_what_each_header_takes() {
    let scene = Scene::new();
    let header = || Header { name: "name".into(), value: "value".into() };
    let response = Response {
        status: 200,
        headers: vec![header(), header()],
        body: vec![0; 100].into(),
        trailers: vec![header()],
    };
    let settlement = Settlement::Completed(response.into());
    let settled = NewRecord::settled(fingerprint(), token(1), Epoch::FIRST, settlement, DAY);
    scene.inserted(&key(0), &settled).await;
    let answer = size_of::<Response>() + 3 * (size_of::<Header>() + "name".len() + "value".len()) + 100;
    assert_eq!(scene.usage().await, (1, (CLAIM + answer) as u64));
}

#[tokio::test]
async fn expired_records_make_room_though_nobody_sweeps() {
    let scene = Scene::within(Limits::default().with_entries(500).unwrap());
    for number in 0..500 {
        scene.inserted(&key(number), &claim(1)).await;
    }
    assert!(scene.insert(&key(500), &claim(1)).await.is_err());
    scene.clock.advance(UNSETTLED);
    for number in 500..1000 {
        scene.inserted(&key(number), &claim(2)).await;
    }
    assert_eq!(scene.usage().await.0, 500);
    assert!(scene.insert(&key(1000), &claim(1)).await.is_err());
}

#[tokio::test]
async fn one_expired_record_makes_room_for_any_other_key() {
    let scene = Scene::within(Limits::default().with_entries(2).unwrap());
    scene.inserted(&key(0), &claim_for(1, HOUR, 30 * DAY)).await;
    for number in 1..200 {
        scene.inserted(&key(number), &completed_for(1, "paid", HOUR)).await;
        assert!(scene.insert(&key(number + 1), &claim(1)).await.is_err());
        scene.clock.advance(HOUR);
    }
    assert_eq!(token_of(&scene.find(&key(0)).await.unwrap()), token(1));
}

#[tokio::test]
async fn an_insert_reclaims_as_many_expired_records_as_its_own_needs() {
    let scene = Scene::within(Limits::default().with_bytes(100 * CLAIM).unwrap());
    for number in 0..100 {
        scene.inserted(&key(number), &claim(1)).await;
    }
    scene.clock.advance(UNSETTLED);
    scene.inserted(&key(100), &completed(1, vec![0; 60 * CLAIM])).await;
    let (records, bytes) = scene.usage().await;
    assert_eq!(bytes, records * CLAIM as u64 + 60 * CLAIM as u64);
    assert!((30..=39).contains(&(records - 1)), "room for 61 claims was made, and hardly more: {records}");
}

#[tokio::test]
async fn a_key_whose_own_record_has_expired_goes_into_a_full_store() {
    let scene = Scene::within(Limits::default().with_entries(1).unwrap());
    scene.inserted(&key(0), &completed(1, "paid")).await;
    scene.clock.advance(DAY);
    scene.inserted(&key(0), &claim(2)).await;
    assert_eq!(scene.usage().await, (1, CLAIM as u64));
}

#[test]
fn inserts_at_once_do_not_pass_the_limit() {
    let limits = Limits::default().with_entries(500).unwrap();
    let store = MemoryStore::with_clock_and_limits(ManualClock::new(), limits);
    let done = at_once(8, |thread, runtime| {
        runtime.block_on(async {
            let mut done = 0;
            for number in 0..1000 {
                match store.insert(&key(1000 * thread + number), &claim(1)).await {
                    Ok(Inserted::Done(_)) => done += 1,
                    Err(error) if error.kind() == StoreErrorKind::Full => {}
                    other => panic!("{other:?}"),
                }
                assert!(store.stats().await.unwrap().records.unwrap() <= 500);
            }
            done
        })
    });
    assert_eq!(done.into_iter().sum::<usize>(), 500, "no place is lost, and none is given twice");
}

#[test]
fn limits_that_leave_no_room_are_refused() {
    assert_eq!(Limits::default().with_entries(0), Err(LimitsError::NoEntries));
    assert_eq!(Limits::default().with_bytes(0), Err(LimitsError::TooFewBytes { bytes: 0 }));
    let least = ENTRY_BYTES + 3 * 255;
    assert!(Limits::default().with_bytes(least).is_ok());
    let error = Limits::default().with_bytes(least - 1).unwrap_err();
    assert!(error.to_string().ends_with(&format!("at least {least}")), "{error}");
}
