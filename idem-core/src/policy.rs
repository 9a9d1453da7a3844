//! What to do where the protocol leaves a choice.

use core::time::Duration;

/// The choices for one route, validated together.
///
/// Two presets, [`strict`](Self::strict) for money and [`relaxed`](Self::relaxed) for what may happen twice; knobs
/// through [`customize`](Self::customize).
///
/// ```
/// use core::time::Duration;
/// use idem_core::Policy;
///
/// let policy = Policy::strict().customize().lease(Duration::from_secs(10)).build()?;
/// assert_eq!(policy.lease(), Duration::from_secs(10));
///
/// // Nothing is clamped in silence: a lease of zero is an error, not "none".
/// assert!(Policy::strict().customize().lease(Duration::ZERO).build().is_err());
/// # Ok::<(), idem_core::PolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    key: KeyPresence,
    abandoned: Abandoned,
    failed: AfterFailure,
    store_down: StoreDown,
    lease: Duration,
    ceiling: Duration,
    retention: Duration,
    unsettled_retention: Duration,
}

/// Whether a request must have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPresence {
    /// A request without a key is refused.
    Required,
    /// A request without a key runs, unprotected.
    Optional,
}

/// What becomes of a claim whose lease is over and that nobody settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// Refuse: nobody knows whether it happened; somebody has to look.
    Refuse,
    /// Run again: it may happen twice.
    Rerun,
}

/// What becomes of a key whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Refuse, and say whether the attempt provably had no effect.
    Refuse,
    /// Run again.
    Rerun,
}

/// What becomes of a request while the store is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreDown {
    /// Refuse.
    Refuse,
    /// Run without protection where the store *certainly* wrote nothing; the observer is told. It may happen twice.
    RunUnprotected,
}

/// The longest duration that a policy takes: ten years, far inside what any store's clock can add.
pub const LONGEST_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The shortest lease: below it, the network alone would end leases.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(10);

impl Default for Policy {
    fn default() -> Self {
        Self::strict()
    }
}

impl Policy {
    /// For money: a key is required; what was abandoned, or failed, is refused; without the store nothing runs.
    ///
    /// Lease 30 s, renewed for at most 15 min; retention 24 h; unsettled claims are kept for 7 days.
    #[must_use]
    pub const fn strict() -> Self {
        Self {
            key: KeyPresence::Required,
            abandoned: Abandoned::Refuse,
            failed: AfterFailure::Refuse,
            store_down: StoreDown::Refuse,
            lease: Duration::from_secs(30),
            ceiling: Duration::from_secs(15 * 60),
            retention: Duration::from_secs(24 * 60 * 60),
            unsettled_retention: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }

    /// For likes and read marks: a key is optional; what was abandoned, or failed, runs again; without the store it
    /// runs unprotected. The times are those of [`strict`](Self::strict).
    #[must_use]
    pub const fn relaxed() -> Self {
        Self {
            key: KeyPresence::Optional,
            abandoned: Abandoned::Rerun,
            failed: AfterFailure::Rerun,
            store_down: StoreDown::RunUnprotected,
            ..Self::strict()
        }
    }

    /// Opens the policy for changes.
    pub const fn customize(self) -> PolicyBuilder {
        PolicyBuilder(self)
    }

    /// Whether a request must have a key.
    #[must_use]
    pub const fn key(&self) -> KeyPresence {
        self.key
    }

    /// What becomes of an abandoned claim.
    #[must_use]
    pub const fn abandoned(&self) -> Abandoned {
        self.abandoned
    }

    /// What becomes of a failed attempt's key.
    #[must_use]
    pub const fn failed(&self) -> AfterFailure {
        self.failed
    }

    /// What becomes of a request while the store is down.
    #[must_use]
    pub const fn store_down(&self) -> StoreDown {
        self.store_down
    }

    /// How long an attempt may be silent before it counts as abandoned.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long after its claim an attempt's lease is still renewed.
    #[must_use]
    pub const fn ceiling(&self) -> Duration {
        self.ceiling
    }

    /// How long a settled record is kept from its claim.
    #[must_use]
    pub const fn retention(&self) -> Duration {
        self.retention
    }

    /// How long a claim that nobody settled is kept.
    #[must_use]
    pub const fn unsettled_retention(&self) -> Duration {
        self.unsettled_retention
    }
}

/// A policy under construction.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct PolicyBuilder(Policy);

impl PolicyBuilder {
    /// Sets whether a request must have a key.
    pub const fn key(mut self, key: KeyPresence) -> Self {
        self.0.key = key;
        self
    }

    /// Sets what becomes of an abandoned claim.
    pub const fn abandoned(mut self, abandoned: Abandoned) -> Self {
        self.0.abandoned = abandoned;
        self
    }

    /// Sets what becomes of a failed attempt's key.
    pub const fn failed(mut self, failed: AfterFailure) -> Self {
        self.0.failed = failed;
        self
    }

    /// Sets what becomes of a request while the store is down.
    pub const fn store_down(mut self, store_down: StoreDown) -> Self {
        self.0.store_down = store_down;
        self
    }

    /// Sets how long an attempt may be silent before it counts as abandoned.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.0.lease = lease;
        self
    }

    /// Sets how long after its claim an attempt's lease is still renewed.
    pub const fn ceiling(mut self, ceiling: Duration) -> Self {
        self.0.ceiling = ceiling;
        self
    }

    /// Sets how long a settled record is kept from its claim.
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.0.retention = retention;
        self
    }

    /// Sets how long a claim that nobody settled is kept.
    pub const fn unsettled_retention(mut self, unsettled_retention: Duration) -> Self {
        self.0.unsettled_retention = unsettled_retention;
        self
    }

    /// Checks the choices against each other.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] names the first pair that does not fit.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let policy = self.0;
        if policy.lease < SHORTEST_LEASE {
            return Err(PolicyError::LeaseTooShort { lease: policy.lease });
        }
        if policy.lease >= policy.retention {
            return Err(PolicyError::LeaseOutlivesRetention { lease: policy.lease, retention: policy.retention });
        }
        if policy.ceiling < policy.lease {
            return Err(PolicyError::CeilingUnderLease { ceiling: policy.ceiling, lease: policy.lease });
        }
        if policy.unsettled_retention < policy.retention {
            return Err(PolicyError::UnsettledForgottenFirst {
                unsettled_retention: policy.unsettled_retention,
                retention: policy.retention,
            });
        }
        for (name, duration) in [("ceiling", policy.ceiling), ("unsettled retention", policy.unsettled_retention)] {
            if duration > LONGEST_DURATION {
                return Err(PolicyError::TooLong { name, duration });
            }
        }
        Ok(policy)
    }
}

/// Which two choices of a policy do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A lease of zero would mean "nobody ever holds the key".
    #[error("the lease of {lease:?} is below {SHORTEST_LEASE:?}; choose one longer than the store's slowest answer")]
    LeaseTooShort {
        /// What was asked for.
        lease: Duration,
    },
    /// The record would be gone while its attempt runs.
    #[error("the lease of {lease:?} is not below the retention of {retention:?}; shorten it or keep records longer")]
    LeaseOutlivesRetention {
        /// What was asked for.
        lease: Duration,
        /// What it must be below.
        retention: Duration,
    },
    /// The lease could never be renewed.
    #[error("the ceiling of {ceiling:?} is below the lease of {lease:?}; an attempt may run at least one lease")]
    CeilingUnderLease {
        /// What was asked for.
        ceiling: Duration,
        /// What it must reach.
        lease: Duration,
    },
    /// A claim that nobody settled would be forgotten, and run again in silence.
    #[error(
        "the unsettled retention of {unsettled_retention:?} is below the retention of {retention:?}; \
         a claim that nobody settled must be remembered at least as long"
    )]
    UnsettledForgottenFirst {
        /// What was asked for.
        unsettled_retention: Duration,
        /// What it must reach.
        retention: Duration,
    },
    /// Beyond what stores can add to their clocks.
    #[error("the {name} of {duration:?} is above ten years")]
    TooLong {
        /// Which duration.
        name: &'static str,
        /// What was asked for.
        duration: Duration,
    },
}
