//! Promise 2: a lost race gives what is there now.

use std::sync::Arc;

use idem_core::{Change, Guard, Inserted, Replaced, Settlement, StoreError};

use crate::Halt;
use crate::expect::{ensure, is_version, is_written, record};
use crate::scene::{
    LEASE, Lost, Occupied, RACERS, ROUNDS, Scene, Verdict, all_at_once, claim, claim_for, completed, completion, owner,
    renewal, settled, settled_for, settlements, takeover,
};

cases! { 2:
    a_lost_race_sees_the_winner = "Every loser of a race of inserts is given the winner's record, in its version.";
    a_lost_takeover_sees_the_winner = "Every loser of a race of takeovers is given the winner's claim.";
    an_occupied_insert_sees_the_latest_record = "An insert gives what is there now, not what was there first.";
    a_lost_replacement_sees_the_latest_record = "A replacement whose guard does not hold gives what is there now.";
    a_lost_replacement_sees_the_settlement = "An owner whose claim was settled meanwhile is given the settled record.";
    a_lost_replacement_of_a_vacant_key_says_vacant = "Where nothing is there, a lost replacement says so, and invents nothing.";
    a_lost_replacement_shows_no_expired_record (slow) = "An expired record is not what is there now.";
    each_caller_gets_the_answer_to_its_own_key = "Calls at the same time, some won and some lost, are each answered for their own key.";
    a_loser_is_told_once_the_winner_has_written = "A loser finds at least the version that it was told of.";
}

async fn a_lost_race_sees_the_winner(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    for round in 0..ROUNDS {
        let key = scene.key(round)?;
        let mut races = Vec::new();
        for racer in 0..RACERS {
            let (handle, key, claim) = (Arc::clone(&handles[racer % handles.len()]), key.clone(), claim()?);
            races.push(async move { handle.insert(&key, &claim).await.map(|answer| (answer, claim)) });
        }
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for answer in all_at_once(races).await? {
            match answer? {
                (Inserted::Done(revision), claim) => won.push((revision, claim)),
                (Inserted::Occupied(found), _) => lost.push(found),
            }
        }
        let [(revision, winner)] = &won[..] else {
            return Err(Halt::broken("exactly one insert is Done", format!("{} are", won.len())));
        };
        for found in lost {
            is_written(&found, winner)?;
            is_version(&found, *revision)?;
        }
    }
    Ok(())
}

async fn a_lost_takeover_sees_the_winner(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    for round in 0..ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        let seen = scene.insert(&key, &first).await?;
        let mut races = Vec::new();
        for racer in 0..RACERS {
            let (handle, key, next) = (Arc::clone(&handles[racer % handles.len()]), key.clone(), takeover(&first)?);
            races.push(async move {
                let change = Change::Record(next.clone());
                handle.replace(&key, Guard::Unchanged(seen), &change).await.map(|answer| (answer, next))
            });
        }
        let (mut won, mut lost) = (Vec::new(), Vec::new());
        for answer in all_at_once(races).await? {
            match answer? {
                (Replaced::Done(revision), next) => won.push((revision, next)),
                (answer, _) => lost.push(answer.lost_to_a_record()?),
            }
        }
        let [(revision, winner)] = &won[..] else {
            return Err(Halt::broken("exactly one takeover is Done", format!("{} are", won.len())));
        };
        for found in lost {
            is_written(&found, winner)?;
            is_version(&found, *revision)?;
        }
    }
    Ok(())
}

async fn an_occupied_insert_sees_the_latest_record(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let revision = scene.insert(&key, &first).await?;
    is_version(&scene.store().insert(&key, &claim()?).await?.occupied()?, revision)?;
    let revision = scene.replace(&key, owner(&first), &renewal(LEASE)).await?;
    is_version(&scene.store().insert(&key, &claim()?).await?.occupied()?, revision)?;
    let next = takeover(&first)?;
    let revision = scene.write(&key, Guard::Unchanged(revision), &next).await?;
    let found = scene.store().insert(&key, &claim()?).await?.occupied()?;
    is_written(&found, &next)?;
    is_version(&found, revision)?;
    let done = completed(&next);
    let revision = scene.write(&key, owner(&next), &done).await?;
    let found = scene.store().insert(&key, &claim()?).await?.occupied()?;
    is_written(&found, &done)?;
    is_version(&found, revision)
}

async fn a_lost_replacement_sees_the_latest_record(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let seen = scene.insert(&key, &first).await?;
    let next = takeover(&first)?;
    let revision = scene.write(&key, Guard::Unchanged(seen), &next).await?;
    let changes = [
        (owner(&first), Change::Record(completed(&first))),
        (owner(&first), renewal(LEASE)),
        (Guard::Unchanged(seen), Change::Record(takeover(&first)?)),
    ];
    for (guard, change) in changes {
        let found = scene.lose(&key, guard, &change).await?;
        is_written(&found, &next)?;
        is_version(&found, revision)?;
    }
    Ok(())
}

async fn a_lost_replacement_sees_the_settlement(scene: &Scene) -> Verdict {
    for (label, settlement) in settlements() {
        let (key, first) = (scene.key(label)?, claim()?);
        let seen = scene.insert(&key, &first).await?;
        let record = settled(&first, settlement);
        let revision = scene.write(&key, owner(&first), &record).await?;
        let changes = [
            (owner(&first), Change::Record(settled(&first, completion("again")))),
            (owner(&first), renewal(LEASE)),
            (Guard::Unchanged(seen), Change::Record(takeover(&first)?)),
        ];
        for (guard, change) in changes {
            let found = scene.lose(&key, guard, &change).await?;
            is_written(&found, &record)?;
            is_version(&found, revision)?;
        }
    }
    Ok(())
}

async fn a_lost_replacement_of_a_vacant_key_says_vacant(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let elsewhere = scene.key("elsewhere")?;
    let revision = scene.insert(&elsewhere, &first).await?;
    for guard in [owner(&first), Guard::Unchanged(revision)] {
        for change in [Change::Record(completed(&first)), renewal(LEASE)] {
            scene.store().replace(&key, guard, &change).await?.lost_to_vacancy()?;
        }
    }
    Ok(())
}

async fn a_lost_replacement_shows_no_expired_record(scene: &Scene) -> Verdict {
    let (claimed, done) = (scene.key("claimed")?, scene.key("settled")?);
    let first = claim_for(scene.unit() / 2, scene.unit())?;
    scene.insert(&claimed, &first).await?;
    scene.insert(&done, &settled_for(&first, Settlement::Released, scene.unit())).await?;
    scene.outlast(scene.unit()).await;
    for key in [claimed, done] {
        let other = claim()?;
        scene.store().replace(&key, owner(&other), &Change::Record(completed(&other))).await?.lost_to_vacancy()?;
    }
    Ok(())
}

async fn each_caller_gets_the_answer_to_its_own_key(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    for round in 0..ROUNDS {
        let mut calls = Vec::new();
        for racer in 0..RACERS {
            let (key, first) = (scene.key(format_args!("{round}-{racer}"))?, claim()?);
            let handle = Arc::clone(&handles[racer % handles.len()]);
            let taken = if racer % 2 == 0 { Some(scene.insert(&key, &first).await?) } else { None };
            calls.push(async move {
                let answer = handle.insert(&key, &first).await?;
                let found = handle.find(&key).await?;
                let change = Change::Record(completed(&first));
                let settled = handle.replace(&key, owner(&first), &change).await?;
                Ok::<_, StoreError>((first, taken, answer, found, settled))
            });
        }
        for call in all_at_once(calls).await? {
            let (first, taken, answer, found, settled) = call?;
            let found = found.ok_or_else(|| Halt::broken("find gives the claim", "vacant"))?;
            is_written(&found, &first)?;
            match (taken, &answer) {
                (Some(revision), Inserted::Occupied(occupied)) => {
                    is_written(occupied, &first)?;
                    is_version(occupied, revision)?;
                }
                (None, Inserted::Done(revision)) => is_version(&found, *revision)?,
                (Some(_), _) => ensure(false, "Occupied: this key was taken", &answer)?,
                (None, _) => ensure(false, "Done: this key was vacant", &answer)?,
            }
            ensure(matches!(settled, Replaced::Done(_)), "Done: the owner settles its claim", settled)?;
        }
    }
    Ok(())
}

async fn a_loser_is_told_once_the_winner_has_written(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    for round in 0..ROUNDS {
        let key = scene.key(round)?;
        let mut races = Vec::new();
        for racer in 0..RACERS {
            let (handle, key, claim) = (Arc::clone(&handles[racer % handles.len()]), key.clone(), claim()?);
            races.push(async move {
                let told = handle.insert(&key, &claim).await?;
                Ok::<_, StoreError>((told, handle.find(&key).await?))
            });
        }
        for race in all_at_once(races).await? {
            let (told, then) = race?;
            let then = then.ok_or_else(|| Halt::broken("the key stays claimed", "vacant"))?;
            match told {
                Inserted::Done(revision) => is_version(&then, revision)?,
                Inserted::Occupied(found) => {
                    ensure(record(&found)? == record(&then)?, format_args!("what it was told, {found:?}"), &then)?;
                    is_version(&then, found.revision)?;
                }
            }
        }
    }
    Ok(())
}
