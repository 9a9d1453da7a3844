//! Promise 3: look and write are one step, also while others write.

use std::sync::Arc;

use idem_core::{Change, Guard, NewRecord, Replaced, ScopedKey, Settlement, StoreError};

use crate::Halt;
use crate::expect::{ensure, is_version, is_written};
use crate::scene::{
    LEASE, RACERS, ROUNDS, Scene, Verdict, all_at_once, claim, completed, completion, owner, renewal, settled, takeover,
};

cases! { 3:
    one_of_many_takeovers_wins = "Of many takeovers of one version at once, exactly one is Done.";
    one_of_many_claims_of_a_released_key_wins = "Of many claims over one released record at once, exactly one is Done.";
    one_of_many_settlements_wins = "Of many settlements with one token at once, exactly one is Done, and stays.";
    a_takeover_and_a_completion_exclude_each_other = "Of a takeover and a completion at once, one is Done and the other sees it.";
    renewals_do_not_undo_a_completion = "A completion at the same time as renewals of its own attempt stays completed.";
    renewals_do_not_undo_a_takeover = "A takeover at the same time as renewals is Done, or was told of a renewal; it is never undone.";
}

/// Replaces one record by many at once, each under the same guard; gives the changes that were Done.
async fn race(scene: &Scene, key: &ScopedKey, racers: Vec<(Guard, Change)>) -> Result<Vec<(Replaced, Change)>, Halt> {
    let handles = scene.handles().await?;
    let races = racers.into_iter().enumerate().map(|(racer, (guard, change))| {
        let (handle, key) = (Arc::clone(&handles[racer % handles.len()]), key.clone());
        async move { Ok::<_, StoreError>((handle.replace(&key, guard, &change).await?, change)) }
    });
    let mut answers = Vec::new();
    for answer in all_at_once(races.collect()).await? {
        answers.push(answer?);
    }
    Ok(answers)
}

async fn exactly_one_wins(scene: &Scene, key: &ScopedKey, racers: Vec<(Guard, Change)>) -> Verdict {
    let answers = race(scene, key, racers).await?;
    let won: Vec<_> = answers
        .iter()
        .filter_map(|(answer, change)| match (answer, change) {
            (Replaced::Done(revision), Change::Record(record)) => Some((*revision, record)),
            _ => None,
        })
        .collect();
    let &[(revision, winner)] = &won[..] else {
        return Err(Halt::broken("exactly one replacement is Done", format!("{} are", won.len())));
    };
    let found = scene.find(key).await?;
    is_written(&found, winner)?;
    is_version(&found, revision)
}

fn takeovers(of: &NewRecord, guard: Guard) -> Result<Vec<(Guard, Change)>, Halt> {
    (0..RACERS).map(|_| Ok((guard, Change::Record(takeover(of)?)))).collect()
}

async fn one_of_many_takeovers_wins(scene: &Scene) -> Verdict {
    for round in 0..ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        let seen = scene.insert(&key, &first).await?;
        exactly_one_wins(scene, &key, takeovers(&first, Guard::Unchanged(seen))?).await?;
    }
    Ok(())
}

async fn one_of_many_claims_of_a_released_key_wins(scene: &Scene) -> Verdict {
    for round in 0..ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        scene.insert(&key, &first).await?;
        let seen = scene.write(&key, owner(&first), &settled(&first, Settlement::Released)).await?;
        exactly_one_wins(scene, &key, takeovers(&first, Guard::Unchanged(seen))?).await?;
    }
    Ok(())
}

async fn one_of_many_settlements_wins(scene: &Scene) -> Verdict {
    const BODIES: [&str; 4] = ["one", "two", "three", "four"];
    for round in 0..ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        scene.insert(&key, &first).await?;
        let settlements = (0..RACERS).map(|racer| {
            let record = settled(&first, completion(BODIES[racer % BODIES.len()]));
            (owner(&first), Change::Record(record))
        });
        exactly_one_wins(scene, &key, settlements.collect()).await?;
    }
    Ok(())
}

async fn a_takeover_and_a_completion_exclude_each_other(scene: &Scene) -> Verdict {
    for round in 0..4 * ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        let seen = scene.insert(&key, &first).await?;
        let completion = (owner(&first), Change::Record(completed(&first)));
        let taking = (Guard::Unchanged(seen), Change::Record(takeover(&first)?));
        let racers = if round % 2 == 0 { vec![completion, taking] } else { vec![taking, completion] };
        exactly_one_wins(scene, &key, racers).await?;
    }
    Ok(())
}

async fn renewals_do_not_undo_a_completion(scene: &Scene) -> Verdict {
    for round in 0..2 * ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = completed(&first);
        let mut racers = vec![(owner(&first), renewal(LEASE)); RACERS];
        racers.insert(round % RACERS, (owner(&first), Change::Record(record.clone())));
        for (answer, change) in race(scene, &key, racers).await? {
            let completes = matches!(change, Change::Record(_));
            let done = matches!(answer, Replaced::Done(_));
            ensure(done || !completes, "the completion is Done: its claim is in progress", answer)?;
        }
        is_written(&scene.find(&key).await?, &record)?;
    }
    Ok(())
}

async fn renewals_do_not_undo_a_takeover(scene: &Scene) -> Verdict {
    for round in 0..4 * ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        let seen = scene.insert(&key, &first).await?;
        let next = takeover(&first)?;
        let mut racers = vec![(owner(&first), renewal(LEASE)); 1 + round % 4];
        // In every place, so that in some round it is the first to look, and in some round it is not.
        let place = round / 4 % (racers.len() + 1);
        racers.insert(place, (Guard::Unchanged(seen), Change::Record(next.clone())));
        let answers = race(scene, &key, racers).await?;
        let done = |renews| {
            let those = answers.iter().filter(move |(_, change)| matches!(change, Change::Renew { .. }) == renews);
            those.filter(|(answer, _)| matches!(answer, Replaced::Done(_))).count() > 0
        };
        let (taken, renewed) = (done(false), done(true));
        ensure(taken || renewed, "the takeover is Done, or a renewal came before it", &answers[place])?;
        // A renewal changes the revision, so whichever is first shuts the other out.
        ensure(!(taken && renewed), "only one of takeover and renewals is Done", &answers)?;
        is_written(&scene.find(&key).await?, if taken { &next } else { &first })?;
    }
    Ok(())
}
