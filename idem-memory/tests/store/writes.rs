//! Which writes go through, and what the others are told.

use std::collections::HashSet;

use bytes::Bytes;
use idem_core::{
    Answer, Change, Content, Epoch, Guard, Header, Inserted, NewRecord, Principal, Replaced, Response, Revision,
    ScopedKey, Settlement,
};

use crate::scene::{
    DAY, LEASE, Scene, UNSETTLED, answered, claim, completed, fingerprint, key, owner, released, renewal, state_of,
    token, token_of,
};

#[tokio::test]
async fn an_insert_repeated_with_one_token_finds_that_token() {
    let scene = Scene::new();
    let revision = scene.inserted(&key(1), &claim(1)).await;
    let Ok(Inserted::Occupied(found)) = scene.insert(&key(1), &claim(1)).await else { panic!() };
    assert_eq!((found.revision, token_of(&found)), (revision, token(1)));
}

#[tokio::test]
async fn another_token_settles_nothing_and_sees_the_owner() {
    let scene = Scene::new();
    let revision = scene.inserted(&key(1), &claim(1)).await;
    for change in [Change::Record(completed(2, "mine")), Change::Record(released(2)), renewal()] {
        let Replaced::Lost(Some(found)) = scene.replace(&key(1), owner(2), &change).await else { panic!("{change:?}") };
        assert_eq!((found.revision, token_of(&found)), (revision, token(1)));
    }
    assert_eq!(scene.find(&key(1)).await.unwrap().revision, revision);
}

#[tokio::test]
async fn the_own_token_of_a_settled_record_owns_nothing() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;
    for change in [Change::Record(completed(1, "again")), Change::Record(released(1)), renewal()] {
        let Replaced::Lost(Some(found)) = scene.replace(&key(1), owner(1), &change).await else { panic!("{change:?}") };
        assert_eq!(state_of(&found), &answered(b"paid"));
    }
}

#[tokio::test]
async fn a_renewal_of_a_settled_record_changes_nothing_though_its_revision_fits() {
    let scene = Scene::new();
    scene.inserted(&key(1), &claim(1)).await;
    let revision = scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;
    let before = scene.find(&key(1)).await;
    assert_eq!(
        scene.replace(&key(1), Guard::Unchanged(revision), &renewal()).await,
        Replaced::Lost(before.clone()),
        "there is nothing to renew"
    );
    assert_eq!(scene.find(&key(1)).await, before);
}

#[tokio::test]
async fn a_renewal_by_revision_renews_a_claim() {
    let scene = Scene::new();
    let revision = scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(LEASE);
    let renewed = scene.replaced(&key(1), Guard::Unchanged(revision), &renewal()).await;
    assert_ne!(renewed, revision);
    let found = scene.find(&key(1)).await.unwrap();
    assert_eq!((found.revision, found.lease_left), (renewed, LEASE));
}

#[tokio::test]
async fn a_takeover_that_was_decided_before_a_renewal_or_a_completion_changes_nothing() {
    let scene = Scene::new();
    let seen = scene.inserted(&key(1), &claim(1)).await;
    let takeover = Change::Record(claim(2));

    scene.replaced(&key(1), owner(1), &renewal()).await;
    let Replaced::Lost(Some(found)) = scene.replace(&key(1), Guard::Unchanged(seen), &takeover).await else { panic!() };
    let renewed = found.revision;
    assert_eq!(token_of(&found), token(1));

    scene.replaced(&key(1), owner(1), &Change::Record(completed(1, "paid"))).await;
    for seen in [seen, renewed] {
        let lost = scene.replace(&key(1), Guard::Unchanged(seen), &takeover).await;
        let Replaced::Lost(Some(found)) = lost else { panic!() };
        assert_eq!(state_of(&found), &answered(b"paid"));
    }
}

#[tokio::test]
async fn whoever_was_taken_over_settles_nothing() {
    let scene = Scene::new();
    let seen = scene.inserted(&key(1), &claim(1)).await;
    scene.replaced(&key(1), Guard::Unchanged(seen), &Change::Record(claim(2))).await;
    let lost = scene.replace(&key(1), owner(1), &Change::Record(completed(1, "late"))).await;
    assert!(matches!(lost, Replaced::Lost(Some(found)) if token_of(&found) == token(2)));
    scene.replaced(&key(1), owner(2), &Change::Record(completed(2, "paid"))).await;
    assert_eq!(state_of(&scene.find(&key(1)).await.unwrap()), &answered(b"paid"));
}

#[tokio::test]
async fn a_replacement_never_creates_a_record() {
    let scene = Scene::new();
    for guard in [owner(1), Guard::Unchanged(Revision::from_number(0)), Guard::Unchanged(Revision::from_number(64))] {
        for change in [Change::Record(claim(1)), Change::Record(completed(1, "paid")), renewal()] {
            assert_eq!(scene.replace(&key(1), guard, &change).await, Replaced::Lost(None));
        }
    }
    assert_eq!(scene.usage().await, (0, 0));
}

#[tokio::test]
async fn no_revision_comes_twice_whatever_was_removed_between() {
    let scene = Scene::new();
    let mut seen = HashSet::new();
    for _ in 0..20 {
        for number in 0..20 {
            assert!(seen.insert(scene.inserted(&key(number), &claim(1)).await));
            assert!(seen.insert(scene.replaced(&key(number), owner(1), &renewal()).await));
            assert!(seen.insert(scene.replaced(&key(number), owner(1), &Change::Record(released(1))).await));
        }
        scene.clock.advance(UNSETTLED);
        scene.sweep(10).await; // Half are swept, half are inserted over.
    }
}

#[tokio::test]
async fn a_takeover_that_was_decided_on_a_removed_record_does_not_fit_its_successor() {
    let scene = Scene::new();
    let seen = scene.inserted(&key(1), &claim(1)).await;
    scene.clock.advance(UNSETTLED);
    assert_eq!(scene.sweep(1).await.removed, 1);
    scene.inserted(&key(1), &claim(2)).await;
    let lost = scene.replace(&key(1), Guard::Unchanged(seen), &Change::Record(claim(3))).await;
    assert!(matches!(lost, Replaced::Lost(Some(found)) if token_of(&found) == token(2)));
}

#[tokio::test]
async fn bytes_come_back_as_they_went_in() {
    let header = |name: &'static str, value: &'static [u8]| Header { name: name.into(), value: value.into() };
    let response = Response {
        status: 599,
        headers: vec![header("set-cookie", b"a=1"), header("x", b""), header("set-cookie", b"\xff\0")],
        body: vec![0xfe; 1 << 20].into(),
        trailers: vec![header("grpc-status", b"0")],
    };
    let answers = [
        Answer::from(response),
        Answer::from(Response::default()),
        Answer::Value(Bytes::new()),
        Answer::Value(b"\0\xc3\x28".as_slice().into()),
        Answer::NotKept,
    ];
    let scene = Scene::new();
    for (number, answer) in answers.into_iter().enumerate() {
        scene.inserted(&key(number), &claim(1)).await;
        let settlement = Settlement::Completed(answer);
        let settled = NewRecord::settled(fingerprint(), token(1), Epoch::from_number(u64::MAX), settlement, DAY);
        scene.replaced(&key(number), owner(1), &Change::Record(settled.clone())).await;
        let found = scene.find(&key(number)).await.unwrap();
        assert_eq!(found.content, Content::Readable(settled.record().clone()));
    }
}

#[tokio::test]
async fn the_shared_principal_and_a_named_one_do_not_see_each_other() {
    let scene = Scene::new();
    let alice = key(1);
    let shared = ScopedKey::new(Principal::shared(), alice.route().clone(), alice.key().clone());
    scene.inserted(&alice, &claim(1)).await;
    assert_eq!(scene.find(&shared).await, None);
    scene.inserted(&shared, &claim(2)).await;
    assert_eq!(token_of(&scene.find(&alice).await.unwrap()), token(1));
}

#[tokio::test]
async fn clones_of_a_store_are_one_store() {
    let scene = Scene::new();
    let twin = Scene { clock: scene.clock.clone(), store: scene.store.clone() };
    let revision = scene.inserted(&key(1), &claim(1)).await;
    assert_eq!(twin.find(&key(1)).await.unwrap().revision, revision);
}
