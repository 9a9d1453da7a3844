//! Promise 5: what marks a record comes back too: fingerprint, epoch, state.

use idem_core::{Epoch, Fingerprint, NewRecord, ProfileId, Settlement};

use crate::Halt;
use crate::expect::is_written;
use crate::scene::{
    LEASE, Occupied, RETENTION, Scene, UNSETTLED, Verdict, claim, fingerprint, owner, settlements, token,
};

cases! { 5:
    every_fingerprint_comes_back = "Profile and digest come back to the last bit, for claims and for settled records.";
    every_epoch_comes_back = "Epochs come back exactly, also where a floating-point or a signed number ends, in every state.";
    a_failure_keeps_whether_it_had_an_effect = "Failed without effect and failed otherwise are told apart.";
    a_state_is_no_other_state = "In progress, completed, failed and released are told apart.";
}

async fn come_back(scene: &Scene, records: Vec<NewRecord>) -> Verdict {
    for (label, record) in records.into_iter().enumerate() {
        let (inserted, replaced) = (scene.key(format_args!("i{label}"))?, scene.key(format_args!("r{label}"))?);
        scene.insert(&inserted, &record).await?;
        let first = claim()?;
        scene.insert(&replaced, &first).await?;
        scene.write(&replaced, owner(&first), &record).await?;
        for key in [inserted, replaced] {
            is_written(&scene.find(&key).await?, &record)?;
            is_written(&scene.store().insert(&key, &claim()?).await?.occupied()?, &record)?;
        }
    }
    Ok(())
}

/// The record in each of its states.
fn states(fingerprint: Fingerprint, epoch: Epoch) -> Result<Vec<NewRecord>, Halt> {
    let mut records = vec![NewRecord::claim(fingerprint, token()?, epoch, LEASE, UNSETTLED)];
    for (_, settlement) in settlements() {
        records.push(NewRecord::settled(fingerprint, token()?, epoch, settlement, RETENTION));
    }
    Ok(records)
}

async fn every_fingerprint_comes_back(scene: &Scene) -> Verdict {
    let mut counting = [0; 32];
    for (byte, number) in counting.iter_mut().zip(1..) {
        *byte = number;
    }
    let mut last = counting;
    last[31] = 0;
    let profiles = [0, 1, (1 << 53) + 1, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX];
    let mut records = Vec::new();
    for profile in profiles {
        records.extend(states(Fingerprint::from_parts(ProfileId::from_bits(profile), counting), Epoch::FIRST)?);
    }
    for digest in [[0; 32], [0xff; 32], last] {
        records.extend(states(Fingerprint::from_parts(ProfileId::from_bits(7), digest), Epoch::FIRST)?);
    }
    come_back(scene, records).await
}

async fn every_epoch_comes_back(scene: &Scene) -> Verdict {
    let mut records = Vec::new();
    for epoch in [1, 2, 255, 65_536, 1 << 32, (1 << 53) + 1, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX] {
        records.extend(states(fingerprint(3), Epoch::from_number(epoch))?);
    }
    come_back(scene, records).await
}

async fn a_failure_keeps_whether_it_had_an_effect(scene: &Scene) -> Verdict {
    let failed = |no_effect| -> Result<_, Halt> {
        let settlement = Settlement::Failed { no_effect };
        Ok(NewRecord::settled(fingerprint(3), token()?, Epoch::FIRST, settlement, RETENTION))
    };
    come_back(scene, vec![failed(true)?, failed(false)?]).await
}

async fn a_state_is_no_other_state(scene: &Scene) -> Verdict {
    come_back(scene, states(fingerprint(3), Epoch::FIRST)?).await
}
