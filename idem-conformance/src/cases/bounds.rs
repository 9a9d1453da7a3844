//! Promise 8: every wait is bounded.

use core::fmt::Debug;
use core::num::NonZeroU32;
use core::time::Duration;
use std::sync::Arc;

use idem_core::{Change, StoreError, StoreErrorKind};

use crate::expect::{ensure, is_written};
use crate::scene::{Answered, ROUNDS, Scene, Verdict, all_at_once, claim, completed, owner};
use crate::{Halt, Outage};

cases! { 8:
    a_refused_connection_is_unavailable_in_time = "Where nobody listens, every method is an error of kind Unavailable, within the configured time.";
    a_silent_server_is_unavailable_in_time (slow) = "Where the server never answers, every method is an error of kind Unavailable, within the configured time.";
    a_burst_of_calls_is_answered = "Many more calls at once than a pool has connections are all answered.";
    a_dropped_call_blocks_nobody = "Calls whose futures are dropped half-way hold up no later call.";
}

/// What a slow machine may take beside the configured time; a store that hangs takes longer.
const SLACK: Duration = Duration::from_secs(15);

async fn is_unavailable<T: Debug>(
    what: &str,
    within: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Verdict {
    let Ok(answer) = tokio::time::timeout(within + SLACK, call).await else {
        return Err(Halt::broken(format_args!("{what} gives up within {within:?}"), "no answer"));
    };
    let unavailable = answer.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Unavailable);
    ensure(unavailable, format_args!("{what} is an error of kind Unavailable"), answer)
}

async fn is_unavailable_in_time(scene: &Scene, outage: Outage) -> Verdict {
    let stranded = scene.harness().strand(outage).await?;
    let (store, within) = (stranded.store, stranded.gives_up_within);
    let (key, first) = (scene.key("a")?, claim()?);
    let change = Change::Record(completed(&first));
    is_unavailable("find", within, store.find(&key)).await?;
    is_unavailable("insert", within, store.insert(&key, &first)).await?;
    is_unavailable("replace", within, store.replace(&key, owner(&first), &change)).await?;
    is_unavailable("sweep", within, store.sweep(NonZeroU32::MIN)).await?;
    is_unavailable("stats", within, store.stats()).await?;
    // Nor do calls that wait behind each other add their times up.
    let calls = (0..32).map(|_| {
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { is_unavailable("one of many calls", within, store.find(&key)).await }
    });
    all_at_once(calls.collect()).await?.into_iter().collect()
}

async fn a_refused_connection_is_unavailable_in_time(scene: &Scene) -> Verdict {
    is_unavailable_in_time(scene, Outage::Refused).await
}

async fn a_silent_server_is_unavailable_in_time(scene: &Scene) -> Verdict {
    is_unavailable_in_time(scene, Outage::Silent).await
}

async fn a_burst_of_calls_is_answered(scene: &Scene) -> Verdict {
    let handles = scene.handles().await?;
    let mut calls = Vec::new();
    for number in 0..200 {
        // Some calls share a key, and wait for each other where the store locks.
        let (handle, key) = (Arc::clone(&handles[number % handles.len()]), scene.key(number / 4)?);
        let first = claim()?;
        calls.push(async move {
            handle.insert(&key, &first).await?;
            handle.find(&key).await
        });
    }
    for answer in all_at_once(calls).await? {
        ensure(answer?.is_some(), "every key of the burst is claimed", "vacant")?;
    }
    Ok(())
}

async fn a_dropped_call_blocks_nobody(scene: &Scene) -> Verdict {
    for round in 0..ROUNDS {
        let (key, first) = (scene.key(round)?, claim()?);
        scene.insert(&key, &first).await?;
        let record = completed(&first);
        let change = Change::Record(record.clone());
        // More of them than a pool has connections.
        for call in 0..20 {
            let bound = Duration::from_micros(20 * call);
            let _ = tokio::time::timeout(bound, scene.store().replace(&key, owner(&first), &change)).await;
            let _ = tokio::time::timeout(bound, scene.store().find(&key)).await;
        }
        match scene.store().replace(&key, owner(&first), &change).await?.done() {
            Ok(_) => {}
            // One of the dropped calls has settled it.
            Err(_) => is_written(&scene.find(&key).await?, &record)?,
        }
        is_written(&scene.find(&key).await?, &record)?;
    }
    Ok(())
}
