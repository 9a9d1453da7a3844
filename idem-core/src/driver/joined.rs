use core::pin::pin;

use futures_util::future::select;

use super::Timer;
use super::attempt::Attempt;
use crate::{Change, Guard, ScopedKey, Settlement};

/// The write that settles a claim, for the caller's backend to make inside the caller's own transaction.
///
/// Made by [`Attempt::joined`], which holds the protocol.
#[derive(Clone, Debug)]
#[must_use = "nothing is settled until the backend has written this and the transaction has committed"]
pub struct Joined {
    key: ScopedKey,
    guard: Guard,
    change: Change,
}

impl Joined {
    /// The key that the claim stands under.
    #[must_use]
    pub const fn key(&self) -> &ScopedKey {
        &self.key
    }

    /// What must hold for the write: the claim is still this attempt's.
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    /// What is to be written over the claim.
    #[must_use]
    pub const fn change(&self) -> &Change {
        &self.change
    }
}

impl<T: Timer> Attempt<T> {
    /// Gives the write that settles this attempt, for a transaction of the caller: business writes and outcome then
    /// commit together, under a claim that was made before.
    ///
    /// # Contract
    ///
    /// 1. This call stops the renewals of the attempt for good, and waits for one that is under way: it would wait for
    ///    the row that the transaction locks. The lease goes on as it is; the write is fenced by the attempt's token
    ///    and not by its lease.
    /// 2. The caller's backend makes the write inside the transaction: [`key`](Joined::key), [`guard`](Joined::guard)
    ///    and [`change`](Joined::change) mean what they mean to [`KeyStore::replace`](crate::KeyStore::replace).
    /// 3. Where it says `Done`, the caller commits. There is nothing more to do; the same settlement through
    ///    [`settle`](Self::settle) is `Done`, also where the reply to the commit was lost and it took place.
    /// 4. Where it says `Lost`, the key is another attempt's or was settled in this one's place. **The caller rolls
    ///    back**, and nothing of this attempt has happened. [`begin`](super::Idempotency::begin) says what the client
    ///    gets instead.
    /// 5. After any rollback the claim is as it was. The attempt can be settled otherwise; until then it is in
    ///    progress, and abandoned once its lease is over.
    ///
    /// `None` where the attempt runs unprotected: there is no claim to be settled.
    ///
    /// # Cost
    ///
    /// No store call. The reply to a renewal that is under way is waited for, at most as long as the renewal may take.
    ///
    /// # Cancellation
    ///
    /// The renewals stay stopped.
    ///
    /// # Example
    ///
    /// ```
    /// # use idem_memory::MemoryStore;
    /// # use idem_core::*;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// # let key = ScopedKey::new(Principal::shared(), Route::new("ship")?, IdempotencyKey::parse("order-4711")?);
    /// # let request = Fingerprint::json("ship", b"{}");
    /// # let store = MemoryStore::default();
    /// let idem = Idempotency::new(store.clone(), tokio::time::sleep);
    /// let Begin::Run(attempt) = idem.begin(&key, &request).await? else { panic!("a fresh key runs") };
    ///
    /// let parcel = Settlement::Completed(Answer::Value("parcel 1".into()));
    /// let joined = attempt.joined(parcel.clone()).await.expect("a strict policy runs nothing unprotected");
    /// // In the caller's transaction, beside the business writes; here, a store that has none stands in for it.
    /// let written = store.replace(joined.key(), joined.guard(), joined.change()).await?;
    /// assert!(matches!(written, Replaced::Done(_)));
    /// // … commit.
    /// assert_eq!(attempt.settle(parcel).await, Settled::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn joined(&self, settlement: Settlement) -> Option<Joined> {
        let (guard, record) = self.settled_record(settlement)?;
        self.stop_renewals().await;
        Some(Joined { key: self.running().key().clone(), guard, change: Change::Record(record) })
    }

    async fn stop_renewals(&self) {
        // Before the look, or the end of a renewal could be missed.
        let over = self.on_renewal_over.listen();
        if self.clocks().renewals.stop() {
            select(over, pin!(self.idem.settings.timer.sleep(self.idem.renewal_timeout()))).await;
        }
    }

    /// `None` where there are to be no renewals any more.
    pub(super) fn renewal_begins(&self) -> Option<UnderWay<'_, T>> {
        let begins = self.clocks().renewals.begin();
        // Made only then: its end locks what was locked a moment ago.
        if begins { Some(UnderWay(self)) } else { None }
    }
}

/// Whether an attempt still renews, and whether a renewal is under way.
#[derive(Default)]
pub(super) struct Renewals {
    are_stopped: bool,
    one_is_under_way: bool,
}

impl Renewals {
    fn begin(&mut self) -> bool {
        self.one_is_under_way = !self.are_stopped;
        self.one_is_under_way
    }

    /// Says whether there is still one to wait for.
    fn stop(&mut self) -> bool {
        self.are_stopped = true;
        self.one_is_under_way
    }
}

/// A renewal on its way, until it is answered or given up.
pub(super) struct UnderWay<'a, T: Timer>(&'a Attempt<T>);

impl<T: Timer> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        self.0.clocks().renewals.one_is_under_way = false;
        self.0.on_renewal_over.notify(usize::MAX);
    }
}
