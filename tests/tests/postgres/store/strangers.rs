//! Open transactions of others, and rows that fail: whoever shares a group with them does not notice.

use core::pin::pin;

use futures_util::future::maybe_done;
use idem_core::{Certainty, KeyStore, NewRecord, Record, ScopedKey, StoreError, StoreErrorKind};
use idem_postgres::PostgresStore;
use sqlx::PgTransaction;

use crate::scene::{
    Met, Scene, at_once, claim, completed, completion, found, inserted, is_in_progress, key, keys, owner, replaced,
    run, there, until_somebody_waits,
};

/// In the middle of the others, so that their group has some before it and some after it.
const HELD: &str = "key-000010-held";

fn claims() -> Vec<(ScopedKey, NewRecord)> {
    keys(20).into_iter().map(|key| (key, claim())).collect()
}

async fn claim_all(store: &PostgresStore, claims: &[(ScopedKey, NewRecord)]) -> Vec<Met> {
    at_once(claims.iter().map(async |(key, claim)| inserted(store.insert(key, claim).await))).await
}

async fn complete_all(store: &PostgresStore, claims: &[(ScopedKey, NewRecord)]) -> Vec<Met> {
    let complete = async |(key, claim): &(ScopedKey, NewRecord)| {
        replaced(store.replace(key, owner(claim), &completion(claim)).await)
    };
    at_once(claims.iter().map(complete)).await
}

/// All three in the same moment. The first few of `ahead` find nobody to wait for and go alone; the others, and with them
/// what is asked of the held key, are one group.
async fn together<T>(
    ahead: impl Future<Output = Vec<Met>>,
    of_held: impl Future<Output = T>,
    behind: impl Future<Output = Vec<Met>>,
) -> (T, Vec<Met>) {
    let (mut ahead, of_held, behind) = tokio::join!(ahead, of_held, behind);
    ahead.extend(behind);
    (of_held, ahead)
}

/// The same, where all but the held key's caller are answered while the stranger has not decided yet.
async fn all_but_held<T: core::fmt::Debug>(
    ahead: impl Future<Output = Vec<Met>>,
    of_held: &mut (impl Future<Output = T> + Unpin),
    behind: impl Future<Output = Vec<Met>>,
) {
    // Most often pending; on a busy machine, the answers may be there already.
    let mut ahead = pin!(maybe_done(ahead));
    let _ = futures_util::poll!(&mut ahead);
    let (ahead, behind) = tokio::select! {
        biased;
        answer = of_held => panic!("the stranger has not decided yet: {answer:?}"),
        ((), behind) = async { tokio::join!(&mut ahead, behind) } => (ahead.take_output().unwrap(), behind),
    };
    all_done(&ahead);
    all_done(&behind);
}

fn all_done(met: &[Met]) {
    assert!(met.iter().all(|met| *met == Met::Done), "{met:?}");
}

/// An open transaction that has inserted the held key.
async fn has_inserted(scene: &Scene) -> PgTransaction<'static> {
    let mut stranger = scene.stranger.begin().await.unwrap();
    let text = format!(
        "INSERT INTO idempotency_keys
         SELECT now, now + '1 day', 7, 1, gen_random_uuid(), '', '/pay', '{HELD}', decode(repeat('07', 32), 'hex'), 1,
                now + '1 minute', now + '1 day', 1, 1, NULL
         FROM (SELECT clock_timestamp() AS now) AS clock"
    );
    run(&mut *stranger, text).await;
    stranger
}

/// An open transaction that has written over the row of the held key.
async fn has_updated(scene: &Scene) -> PgTransaction<'static> {
    let mut stranger = scene.stranger.begin().await.unwrap();
    let text = format!("UPDATE idempotency_keys SET lease_until = lease_until + '1 second' WHERE key = '{HELD}'");
    run(&mut *stranger, text).await;
    stranger
}

fn is_locked(answer: Result<impl core::fmt::Debug, StoreError>) {
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.certainty()), (StoreErrorKind::Locked, Certainty::NotWritten), "{error:?}");
}

#[tokio::test]
async fn a_key_that_a_stranger_has_inserted_holds_up_no_other_key_of_its_group_nor_of_the_next() {
    let scene = Scene::new().await;
    let store = scene.patient().groups_in_flight(1).connect().await.unwrap();
    let stranger = has_inserted(&scene).await;
    let (held, mine, claims) = (key(HELD), claim(), claims());

    let mut waiting = pin!(store.insert(&held, &mine));
    let (ahead, behind, next) = (&claims[..5], &claims[5..15], &claims[15..]);
    all_but_held(claim_all(&store, ahead), &mut waiting, claim_all(&store, behind)).await;
    all_but_held(claim_all(&store, next), &mut waiting, claim_all(&store, &[])).await;

    stranger.rollback().await.unwrap();
    assert_eq!(inserted(waiting.await), Met::Done);
}

#[tokio::test]
async fn a_claim_that_waited_for_a_stranger_sees_what_he_has_inserted() {
    let scene = Scene::new().await;
    let store = scene.patient().connect().await.unwrap();
    let stranger = has_inserted(&scene).await;
    let (held, mine) = (key(HELD), claim());
    let mut waiting = pin!(store.insert(&held, &mine));
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("the stranger has not decided yet: {answer:?}"),
        () = until_somebody_waits(&scene.stranger) => {}
    }

    stranger.commit().await.unwrap();

    let Met::There(record) = inserted(waiting.await) else { panic!("two hold the key") };
    assert!(is_in_progress(&record) && record.token != mine.record().token, "{record:?}");
}

#[tokio::test]
async fn a_key_that_a_stranger_has_inserted_is_locked_for_its_claim_alone() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let stranger = has_inserted(&scene).await;
    let (held, mine, claims) = (key(HELD), claim(), claims());

    let (ahead, behind) = claims.split_at(5);
    let of_held = store.insert(&held, &mine);
    let (of_held, met) = together(claim_all(&store, ahead), of_held, claim_all(&store, behind)).await;

    is_locked(of_held);
    all_done(&met);
    stranger.rollback().await.unwrap();
    assert_eq!(found(store.find(&held).await), Met::Vacant);
    assert_eq!(inserted(store.insert(&held, &mine).await), Met::Done);
}

#[tokio::test]
async fn a_claim_of_a_key_whose_row_a_stranger_is_writing_meets_the_row_as_it_was() {
    let scene = Scene::new().await;
    let store = scene.patient().connect().await.unwrap();
    let (held, mine, claims) = (key(HELD), claim(), claims());
    store.insert(&held, &mine).await.unwrap();
    let stranger = has_updated(&scene).await;

    let other = claim();
    let (ahead, behind) = claims.split_at(5);
    let of_held = store.insert(&held, &other);
    let (of_held, met) = together(claim_all(&store, ahead), of_held, claim_all(&store, behind)).await;

    assert_eq!(inserted(of_held), there(&mine));
    all_done(&met);
    drop(stranger);
}

#[tokio::test]
async fn a_row_that_a_stranger_is_writing_holds_up_no_other_completion_of_its_group_nor_of_the_next() {
    let scene = Scene::new().await;
    let store = scene.patient().groups_in_flight(1).connect().await.unwrap();
    let (held, mine, claims) = (key(HELD), claim(), claims());
    store.insert(&held, &mine).await.unwrap();
    all_done(&claim_all(&store, &claims).await);
    let stranger = has_updated(&scene).await;

    let change = completion(&mine);
    let mut waiting = pin!(store.replace(&held, owner(&mine), &change));
    let (ahead, behind, next) = (&claims[..5], &claims[5..15], &claims[15..]);
    all_but_held(complete_all(&store, ahead), &mut waiting, complete_all(&store, behind)).await;
    all_but_held(complete_all(&store, next), &mut waiting, complete_all(&store, &[])).await;

    stranger.commit().await.unwrap();
    assert_eq!(replaced(waiting.await), Met::Done);
    assert_eq!(found(store.find(&held).await), there(&completed(&mine, "paid")));
}

#[tokio::test]
async fn a_row_that_a_stranger_is_writing_is_locked_for_its_completion_alone() {
    let scene = Scene::new().await;
    let store = scene.config().connect().await.unwrap();
    let (held, mine, claims) = (key(HELD), claim(), claims());
    store.insert(&held, &mine).await.unwrap();
    all_done(&claim_all(&store, &claims).await);
    let stranger = has_updated(&scene).await;

    let change = completion(&mine);
    let (ahead, behind) = claims.split_at(5);
    let of_held = store.replace(&held, owner(&mine), &change);
    let (of_held, met) = together(complete_all(&store, ahead), of_held, complete_all(&store, behind)).await;

    is_locked(of_held);
    all_done(&met);
    assert_eq!(found(store.find(&held).await), there(&mine));
    stranger.rollback().await.unwrap();
    assert_eq!(replaced(store.replace(&held, owner(&mine), &change).await), Met::Done);
}

#[tokio::test]
async fn a_completion_that_waited_for_a_stranger_writes_nothing_over_what_he_has_settled() {
    let scene = Scene::new().await;
    let store = scene.patient().connect().await.unwrap();
    let (held, mine) = (key(HELD), claim());
    store.insert(&held, &mine).await.unwrap();
    let mut stranger = scene.stranger.begin().await.unwrap();
    run(&mut *stranger, format!("UPDATE idempotency_keys SET state = 3, revision = 1 WHERE key = '{HELD}'")).await;
    let change = completion(&mine);
    let mut waiting = pin!(store.replace(&held, owner(&mine), &change));
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("the stranger has not decided yet: {answer:?}"),
        () = until_somebody_waits(&scene.stranger) => {}
    }

    stranger.commit().await.unwrap();

    let failed = Record { state: idem_core::State::Failed { no_effect: false }, ..mine.record().clone() };
    assert_eq!(replaced(waiting.await), Met::There(failed));
}

/// What the database may say of one row, and what its caller is to hear.
const FAILURES: [(&str, StoreErrorKind); 4] = [
    // check_violation, lock_not_available, serialization_failure, deadlock_detected
    ("23514", StoreErrorKind::Other),
    ("55P03", StoreErrorKind::Locked),
    ("40001", StoreErrorKind::Contended),
    ("40P01", StoreErrorKind::Contended),
];

/// From now on, whoever writes the held key fails so.
async fn fails(scene: &Scene, code: &str) {
    scene
        .sql(format!(
            "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$;
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT OR UPDATE ON idempotency_keys
             FOR EACH ROW WHEN (NEW.key = '{HELD}') EXECUTE FUNCTION fail()"
        ))
        .await;
}

#[tokio::test]
async fn a_claim_that_fails_fails_alone() {
    for (code, kind) in FAILURES {
        let scene = Scene::new().await;
        let store = scene.config().connect().await.unwrap();
        fails(&scene, code).await;
        let (held, mine, claims) = (key(HELD), claim(), claims());

        let (ahead, behind) = claims.split_at(5);
        let of_held = store.insert(&held, &mine);
        let (of_held, met) = together(claim_all(&store, ahead), of_held, claim_all(&store, behind)).await;

        let error = of_held.unwrap_err();
        assert_eq!((error.kind(), error.certainty()), (kind, Certainty::NotWritten), "{code}: {error:?}");
        all_done(&met);
        assert_eq!(found(store.find(&held).await), Met::Vacant);
        for (key, claim) in &claims {
            assert_eq!(found(store.find(key).await), there(claim));
        }
    }
}

#[tokio::test]
async fn a_completion_that_fails_fails_alone() {
    for (code, kind) in FAILURES {
        let scene = Scene::new().await;
        let store = scene.config().connect().await.unwrap();
        let (held, mine, claims) = (key(HELD), claim(), claims());
        store.insert(&held, &mine).await.unwrap();
        all_done(&claim_all(&store, &claims).await);
        fails(&scene, code).await;

        let change = completion(&mine);
        let (ahead, behind) = claims.split_at(5);
        let of_held = store.replace(&held, owner(&mine), &change);
        let (of_held, met) = together(complete_all(&store, ahead), of_held, complete_all(&store, behind)).await;

        let error = of_held.unwrap_err();
        assert_eq!((error.kind(), error.certainty()), (kind, Certainty::NotWritten), "{code}: {error:?}");
        all_done(&met);
        assert_eq!(found(store.find(&held).await), there(&mine));
        for (key, claim) in &claims {
            assert_eq!(found(store.find(key).await), there(&completed(claim, "paid")));
        }
    }
}
