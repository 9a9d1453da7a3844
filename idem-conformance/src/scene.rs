//! What a case works with: a store, keys of its own, and the store's time.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use idem_core::{
    Answer, Change, Epoch, Fingerprint, Found, Guard, IdempotencyKey, Inserted, KeyStore, NewRecord, OsTokens,
    Principal, ProfileId, Replaced, Response, Revision, Route, ScopedKey, Settlement, Token, TokenSource,
};
use tokio::sync::Barrier;

use crate::{Halt, Harness, Pace};

/// Leases and retentions that no case lives to see the end of.
pub(crate) const LEASE: Duration = Duration::from_secs(10 * 60);
pub(crate) const UNSETTLED: Duration = Duration::from_secs(7 * 24 * 3600);
pub(crate) const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Tasks in one race, and races in one case.
pub(crate) const RACERS: usize = 16;
pub(crate) const ROUNDS: usize = 6;

/// How a case ends.
pub(crate) type Verdict = Result<(), Halt>;

pub(crate) struct Scene {
    harness: Box<dyn Harness>,
    store: Arc<dyn KeyStore>,
    run: String,
    name: &'static str,
    elapsed: Mutex<Duration>,
}

impl Scene {
    pub(crate) async fn set(harness: Box<dyn Harness>, name: &'static str) -> Result<Self, Halt> {
        let store = harness.open().await?;
        let run = token()?.to_bytes()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { harness, store, run, name, elapsed: Mutex::default() })
    }

    pub(crate) fn store(&self) -> &dyn KeyStore {
        &*self.store
    }

    pub(crate) fn harness(&self) -> &dyn Harness {
        &*self.harness
    }

    /// Several handles on the same data, for races as between processes.
    pub(crate) async fn handles(&self) -> Result<Vec<Arc<dyn KeyStore>>, Halt> {
        Ok(vec![Arc::clone(&self.store), self.harness.open().await?, self.harness.open().await?])
    }

    /// A key that no other case and no other run has.
    pub(crate) fn key(&self, label: impl std::fmt::Display) -> Result<ScopedKey, Halt> {
        let key = IdempotencyKey::parse(format!("case-key-{label}"))?;
        Ok(ScopedKey::new(self.principal("payer")?, self.route("")?, key))
    }

    pub(crate) fn principal(&self, name: &str) -> Result<Principal, Halt> {
        Ok(Principal::new(name)?)
    }

    /// A route of this run and case; `rest` is appended.
    pub(crate) fn route(&self, rest: &str) -> Result<Route, Halt> {
        Ok(Route::new(format!("/{}/{}{rest}", self.run, self.name))?)
    }

    pub(crate) fn unit(&self) -> Duration {
        self.harness.pace().unit()
    }

    /// Units for a check that a slow machine may spoil: each is twice as long as the one before.
    pub(crate) fn units(&self) -> impl Iterator<Item = Duration> + use<> {
        let unit = self.unit();
        [1, 2, 4, 8].into_iter().map(move |times| unit * times)
    }

    /// The end of such a check when each of its tries was spoiled.
    pub(crate) fn cannot_tell(&self) -> Verdict {
        Err(Halt::skip("the machine was too slow to tell, four times over"))
    }

    pub(crate) async fn elapse(&self, time: Duration) {
        self.harness.elapse(time).await;
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// Lets a time of this length be over, with room for a clock that runs a little slower.
    pub(crate) async fn outlast(&self, time: Duration) {
        self.elapse(time + time / 8).await;
    }

    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { scene: self, started: Instant::now(), elapsed: self.elapsed() }
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts, and expects it to be done.
    pub(crate) async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Revision, Halt> {
        self.store.insert(key, record).await?.done()
    }

    /// Replaces, and expects it to be done.
    pub(crate) async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Revision, Halt> {
        self.store.replace(key, guard, change).await?.done()
    }

    /// Replaces by a record, and expects it to be done.
    pub(crate) async fn write(&self, key: &ScopedKey, guard: Guard, record: &NewRecord) -> Result<Revision, Halt> {
        self.replace(key, guard, &Change::Record(record.clone())).await
    }

    /// Replaces, and expects it to lose against a record.
    pub(crate) async fn lose(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Found, Halt> {
        self.store.replace(key, guard, change).await?.lost_to_a_record()
    }

    /// Reads, and expects a record.
    pub(crate) async fn find(&self, key: &ScopedKey) -> Result<Found, Halt> {
        let found = self.store.find(key).await?;
        found.ok_or_else(|| Halt::broken("find gives the record", "vacant"))
    }

    /// Reads, and expects the key to be vacant.
    pub(crate) async fn find_vacant(&self, key: &ScopedKey) -> Verdict {
        match self.store.find(key).await? {
            None => Ok(()),
            Some(found) => Err(Halt::broken("the key is vacant", found)),
        }
    }
}

/// Knows between which bounds the store's time has passed since it was started.
pub(crate) struct Watch<'a> {
    scene: &'a Scene,
    started: Instant,
    elapsed: Duration,
}

/// Stores may keep times in whole milliseconds, some of them rounded twice.
pub(crate) const GRAIN: Duration = Duration::from_millis(5);

impl Watch<'_> {
    /// At least this much has passed.
    pub(crate) fn at_least(&self) -> Duration {
        let waited = self.scene.elapsed() - self.elapsed;
        match self.scene.harness.pace() {
            Pace::Manual => waited.saturating_sub(GRAIN),
            // Two clocks need not run at the same speed.
            Pace::Real { .. } => (waited - waited / 50).saturating_sub(GRAIN),
        }
    }

    /// At most this much has passed.
    pub(crate) fn at_most(&self) -> Duration {
        match self.scene.harness.pace() {
            Pace::Manual => self.scene.elapsed() - self.elapsed + GRAIN,
            Pace::Real { .. } => {
                let waited = self.started.elapsed();
                waited + waited / 50 + 2 * GRAIN
            }
        }
    }
}

/// A token that nobody has.
pub(crate) fn token() -> Result<Token, Halt> {
    Ok(OsTokens.draw()?)
}

pub(crate) const fn fingerprint(seed: u8) -> Fingerprint {
    Fingerprint::from_parts(ProfileId::from_bits(0x1d3a_0000_0000_0001), [seed; 32])
}

/// A first claim with a token of its own, alive for longer than any case.
pub(crate) fn claim() -> Result<NewRecord, Halt> {
    claim_for(LEASE, UNSETTLED)
}

pub(crate) fn claim_for(lease: Duration, retention: Duration) -> Result<NewRecord, Halt> {
    Ok(NewRecord::claim(fingerprint(7), token()?, Epoch::FIRST, lease, retention))
}

/// The claim that takes over from `former`.
pub(crate) fn takeover(former: &NewRecord) -> Result<NewRecord, Halt> {
    let record = former.record();
    Ok(NewRecord::claim(record.fingerprint, token()?, record.epoch.next(), LEASE, UNSETTLED))
}

/// What the attempt of `claim` writes when it is done.
pub(crate) fn settled(claim: &NewRecord, settlement: Settlement) -> NewRecord {
    settled_for(claim, settlement, RETENTION)
}

pub(crate) fn settled_for(claim: &NewRecord, settlement: Settlement, retention: Duration) -> NewRecord {
    let record = claim.record();
    NewRecord::settled(record.fingerprint, record.token, record.epoch, settlement, retention)
}

pub(crate) fn completed(claim: &NewRecord) -> NewRecord {
    settled(claim, completion("paid"))
}

pub(crate) fn completion(body: &'static str) -> Settlement {
    Settlement::Completed(answer(body))
}

pub(crate) fn answer(body: &'static str) -> Answer {
    Response { status: 201, body: body.into(), ..Response::default() }.into()
}

/// Every way to settle.
pub(crate) fn settlements() -> [(&'static str, Settlement); 4] {
    [
        ("completed", completion("paid")),
        ("failed", Settlement::Failed { no_effect: false }),
        ("failed-no-effect", Settlement::Failed { no_effect: true }),
        ("released", Settlement::Released),
    ]
}

pub(crate) const fn owner(claim: &NewRecord) -> Guard {
    Guard::Owner(claim.record().token)
}

pub(crate) const fn renewal(lease: Duration) -> Change {
    Change::Renew { lease, retention: UNSETTLED }
}

/// Runs all of them at once: none begins before the last is ready.
pub(crate) async fn all_at_once<F>(tasks: Vec<F>) -> Result<Vec<F::Output>, Halt>
where
    F: Future<Output: Send> + Send + 'static,
{
    let start = Arc::new(Barrier::new(tasks.len()));
    let running: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let start = Arc::clone(&start);
            tokio::spawn(async move {
                start.wait().await;
                task.await
            })
        })
        .collect();
    let mut outputs = Vec::with_capacity(running.len());
    for task in running {
        outputs.push(task.await?);
    }
    Ok(outputs)
}

pub(crate) trait Answered {
    fn done(self) -> Result<Revision, Halt>;
}

impl Answered for Inserted {
    fn done(self) -> Result<Revision, Halt> {
        match self {
            Self::Done(revision) => Ok(revision),
            occupied => Err(Halt::broken("the insert is Done: the key was vacant", occupied)),
        }
    }
}

impl Answered for Replaced {
    fn done(self) -> Result<Revision, Halt> {
        match self {
            Self::Done(revision) => Ok(revision),
            lost => Err(Halt::broken("the replacement is Done: its guard holds", lost)),
        }
    }
}

pub(crate) trait Occupied {
    fn occupied(self) -> Result<Found, Halt>;
}

impl Occupied for Inserted {
    fn occupied(self) -> Result<Found, Halt> {
        match self {
            Self::Occupied(found) => Ok(found),
            done => Err(Halt::broken("the insert is Occupied: a record is alive under the key", done)),
        }
    }
}

pub(crate) trait Lost {
    fn lost(self) -> Result<Option<Found>, Halt>;
    fn lost_to_a_record(self) -> Result<Found, Halt>;
    fn lost_to_vacancy(self) -> Verdict;
}

impl Lost for Replaced {
    fn lost(self) -> Result<Option<Found>, Halt> {
        match self {
            Self::Lost(found) => Ok(found),
            done => Err(Halt::broken("the replacement is Lost: its guard does not hold", done)),
        }
    }

    fn lost_to_a_record(self) -> Result<Found, Halt> {
        self.lost()?.ok_or_else(|| Halt::broken("Lost gives the record that is there", "Lost(None)"))
    }

    fn lost_to_vacancy(self) -> Verdict {
        match self.lost()? {
            None => Ok(()),
            Some(found) => Err(Halt::broken("Lost(None): the key is vacant", found)),
        }
    }
}
