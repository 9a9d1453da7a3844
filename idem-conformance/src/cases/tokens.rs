//! Promise 6: tokens are compared verbatim, and an attempt finds its own.

use std::sync::Arc;

use idem_core::{Change, Epoch, Inserted, NewRecord, Token};

use crate::Halt;
use crate::expect::{ensure, is_version, is_written};
use crate::scene::{
    LEASE, Occupied, RACERS, ROUNDS, Scene, UNSETTLED, Verdict, all_at_once, claim, completed, fingerprint, owner,
    renewal,
};

cases! { 6:
    tokens_are_compared_verbatim = "Tokens that differ in one bit, in case, after a NUL or in bytes that are no text are different tokens.";
    every_token_comes_back = "A token comes back to the last bit, whatever its bytes.";
    a_repeated_insert_finds_its_own_token = "An insert that is repeated with one token is Occupied by its own record, unchanged.";
    repeated_inserts_at_once_write_one_record = "Of inserts with one token at once, one is Done and the others find it.";
    a_repeated_settlement_finds_itself = "A settlement that is repeated with one token is Lost to its own record.";
}

const COUNTING: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn with(position: usize, byte: u8) -> [u8; 16] {
    let mut bytes = COUNTING;
    bytes[position] = byte;
    bytes
}

fn claim_with(token: [u8; 16]) -> NewRecord {
    NewRecord::claim(fingerprint(7), Token::from_bytes(token), Epoch::FIRST, LEASE, UNSETTLED)
}

async fn tokens_are_compared_verbatim(scene: &Scene) -> Verdict {
    let after_nul = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let pairs = [
        (COUNTING, with(0, 0)),
        (COUNTING, with(0, 0x81)),
        (COUNTING, with(7, 0)),
        (COUNTING, with(8, 0)),
        (COUNTING, with(15, 0)),
        (COUNTING, with(15, 17)),
        (*b"ABCDEFGHIJKLMNOP", *b"abcdefghijklmnop"),
        (*b"ABCDEFGHIJKLMNOP", *b"ABCDEFGHIJKLMNOp"),
        ([0; 16], after_nul),
        ([0xff; 16], [0xfe; 16]),
        ([0x80; 16], [0x81; 16]),
        (*b"token           ", *b"token          \0"),
    ];
    let both_ways = pairs.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]);
    for (label, (mine, theirs)) in both_ways.enumerate() {
        let (key, first, other) = (scene.key(label)?, claim_with(mine), claim_with(theirs));
        let revision = scene.insert(&key, &first).await?;
        is_written(&scene.store().insert(&key, &other).await?.occupied()?, &first)?;
        is_written(&scene.lose(&key, owner(&other), &Change::Record(completed(&other))).await?, &first)?;
        is_written(&scene.lose(&key, owner(&other), &renewal(LEASE)).await?, &first)?;
        is_version(&scene.find(&key).await?, revision)?;
        scene.replace(&key, owner(&first), &renewal(LEASE)).await?;
        scene.write(&key, owner(&first), &completed(&first)).await?;
    }
    Ok(())
}

async fn every_token_comes_back(scene: &Scene) -> Verdict {
    let tokens = [
        [0; 16],
        [0xff; 16],
        COUNTING,
        with(0, 0),
        with(15, 0),
        with(3, 0x80),
        *b"UPPER and lower ",
        *b"\xf0\x9f\x92\xb3\xc3(\xed\xa0\x80\0\0'\"\\;\n",
    ];
    for (label, token) in tokens.into_iter().enumerate() {
        let (key, first) = (scene.key(label)?, claim_with(token));
        scene.insert(&key, &first).await?;
        is_written(&scene.find(&key).await?, &first)?;
        let record = completed(&first);
        scene.write(&key, owner(&first), &record).await?;
        is_written(&scene.find(&key).await?, &record)?;
    }
    Ok(())
}

async fn a_repeated_insert_finds_its_own_token(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    let revision = scene.insert(&key, &first).await?;
    for _ in 0..2 {
        let found = scene.store().insert(&key, &first).await?.occupied()?;
        is_written(&found, &first)?;
        is_version(&found, revision)?;
    }
    // Not in the state of a first claim any more: also then, the repetition writes nothing.
    let record = completed(&first);
    let revision = scene.write(&key, owner(&first), &record).await?;
    let found = scene.store().insert(&key, &first).await?.occupied()?;
    is_written(&found, &record)?;
    is_version(&found, revision)
}

async fn repeated_inserts_at_once_write_one_record(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    for round in 0..ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        let races = (0..RACERS).map(|racer| {
            let (handle, key, first) = (Arc::clone(&handles[racer % handles.len()]), key.clone(), first.clone());
            async move { handle.insert(&key, &first).await }
        });
        let (mut done, mut met) = (Vec::new(), Vec::new());
        for answer in all_at_once(races.collect()).await? {
            match answer? {
                Inserted::Done(revision) => done.push(revision),
                Inserted::Occupied(found) => met.push(found),
            }
        }
        let &[revision] = &done[..] else {
            return Err(Halt::broken("exactly one insert is Done", format!("{} are", done.len())));
        };
        for found in met {
            is_written(&found, &first)?;
            is_version(&found, revision)?;
        }
    }
    Ok(())
}

async fn a_repeated_settlement_finds_itself(scene: &Scene) -> Verdict {
    let (key, first) = (scene.key("a")?, claim()?);
    scene.insert(&key, &first).await?;
    let record = completed(&first);
    let revision = scene.write(&key, owner(&first), &record).await?;
    for _ in 0..2 {
        let found = scene.lose(&key, owner(&first), &Change::Record(record.clone())).await?;
        is_written(&found, &record)?;
        is_version(&found, revision)?;
        ensure(found.lease_left.is_zero(), "a settled record has no lease", found)?;
    }
    Ok(())
}
