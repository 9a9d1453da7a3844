//! The settings of a layer, one method each.

use core::future::Future;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use idem_core::policy::LONGEST_DURATION;
use idem_core::{KeyFormat, Policy, Problem, Profile, RequestIdentity};
use tokio::sync::Semaphore;

use crate::classify::{Answered, Class};
use crate::hooks::{Asked, Denial, hook};
use crate::layer::IdempotencyLayer;
use crate::settings::Settings;

/// # Which requests
impl IdempotencyLayer {
    /// Sets the policy: what happens to abandoned and failed keys, without a key, without the store, and how long
    /// everything lasts.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        self.with(|settings| settings.idem = settings.idem.clone().policy(policy))
    }

    /// Sets the methods whose requests are covered; the default is POST and PATCH. All others pass untouched.
    ///
    /// # Panics
    ///
    /// Where there is none: a layer that covers nothing protects nothing.
    #[must_use]
    #[track_caller]
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods: Arc<[Method]> = methods.into_iter().collect();
        assert!(!methods.is_empty(), "an idempotency layer without methods protects nothing");
        self.with(|settings| settings.methods = methods)
    }

    /// Covers only those requests of the covered methods for which `covers` is true. All others pass untouched, so
    /// that a wrong answer here is a request without protection.
    ///
    /// For a bidirectional gRPC stream among unary calls: it could not begin before its client has ended it.
    #[must_use]
    pub fn covers_only(self, covers: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.covers = Some(Arc::new(covers)))
    }

    /// Takes keys from another header than `Idempotency-Key`.
    #[must_use]
    pub fn key_header(self, name: HeaderName) -> Self {
        self.with(|settings| settings.key_header = name)
    }

    /// Accepts keys of another format than 8 to 128 characters.
    #[must_use]
    pub fn key_format(self, format: KeyFormat) -> Self {
        self.with(|settings| settings.key_format = format)
    }
}

/// # How requests are compared
impl IdempotencyLayer {
    /// Leaves members of the body out of the comparison, by JSON Pointer: client clocks, trace ids. Called again, it
    /// adds to what was named before.
    ///
    /// Sets the profile; where the pointers come from a configuration, [`profile`](Self::profile) takes a
    /// [`Profile`] whose builder gives a typed error.
    ///
    /// # Panics
    ///
    /// Where a pointer is malformed.
    #[must_use]
    #[track_caller]
    pub fn ignore<P: Into<String>>(self, pointers: impl IntoIterator<Item = P>) -> Self {
        let mut ignored = self.settings.comparison.ignored.clone();
        ignored.extend(pointers.into_iter().map(Into::into));
        let profile = Profile::builder().ignore(ignored.clone()).build();
        assert!(profile.is_ok(), "{}", profile.as_ref().err().map(ToString::to_string).unwrap_or_default());
        let Ok(profile) = profile else { return self };
        let layer = self.profile(profile);
        layer.with(|settings| settings.comparison.ignored = ignored)
    }

    /// Compares under this profile, in place of whatever profile or ignored members were set before.
    #[must_use]
    pub fn profile(self, profile: Profile) -> Self {
        self.with(|settings| {
            settings.comparison.ignored.clear();
            settings.comparison.profile = profile;
            settings.comparison.renew();
        })
    }

    /// Still compares with records that were made under these profiles. Keep a profile here for one retention after it
    /// was replaced, and no honest retry from before the change is refused. Called again, it adds.
    #[must_use]
    pub fn previous_profiles(self, profiles: impl IntoIterator<Item = Profile>) -> Self {
        self.with(|settings| {
            settings.comparison.previous.extend(profiles);
            settings.comparison.renew();
        })
    }

    /// Compares by a function of one's own, in place of the profiles.
    ///
    /// Two requests for which it gives the same fingerprint are one request, and the second gets the answer of the
    /// first: what it leaves out can change unnoticed.
    #[must_use]
    pub fn fingerprint<I>(self, identify: impl Fn(&Parts, &Bytes) -> I + Send + Sync + 'static) -> Self
    where
        I: RequestIdentity + 'static,
    {
        self.with(|settings| {
            settings.comparison.custom = Some(Arc::new(move |parts, body| Arc::new(identify(parts, body))));
        })
    }

    /// Reads request bodies of at most this many bytes; larger ones are refused with 413. The default is
    /// [`MAX_REQUEST_BODY`](crate::MAX_REQUEST_BODY).
    ///
    /// A body is read before a permit is taken, so that slow uploads hold none: what bounds the memory for bodies is
    /// this limit times the connections that the server accepts.
    #[must_use]
    pub fn max_request_body(self, bytes: usize) -> Self {
        self.with(|settings| settings.max_request_body = bytes)
    }
}

/// # What is kept
impl IdempotencyLayer {
    /// Keeps response bodies of at most this many bytes. The default is [`MAX_RESPONSE`](crate::MAX_RESPONSE). A larger
    /// one reaches its client whole; its retries are refused with *response not kept*.
    #[must_use]
    pub fn max_response(self, bytes: usize) -> Self {
        self.with(|settings| settings.limits.bytes = bytes)
    }

    /// Buffers a response body for at most this long, counted from its head. The default is
    /// [`BUFFER_TIME`](crate::BUFFER_TIME). A slower one is treated as one that is too large.
    #[must_use]
    pub fn buffer_time(self, time: Duration) -> Self {
        self.with(|settings| settings.limits.time = time)
    }

    /// Leaves these headers out of what is stored, beside those that never are: request ids, server timings. The first
    /// client gets them. Called again, it adds.
    #[must_use]
    pub fn not_stored_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.with(|settings| Arc::make_mut(&mut settings.not_stored).extend(names))
    }

    /// Decides what an answer does to its key, before the [default](crate::classify) does: `None` leaves it to that.
    ///
    /// It is asked about every response that has an end or is a stream; not about panics, errors of the inner service
    /// and bodies that break off, which always fail, and not where the handler has declared the outcome. Releasing a
    /// key after an operation that took effect lets it happen twice.
    #[must_use]
    pub fn classify(self, classify: impl Fn(&Answered<'_>) -> Option<Class> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.classify = Some(Arc::new(classify)))
    }
}

/// # Concurrency
impl IdempotencyLayer {
    /// Lets a request wait up to this long for the running attempt of its key, and gives its answer then. Without it,
    /// and after it, the answer is 409 `in-progress`.
    ///
    /// A waiter holds no permit and is not counted among the attempts. It asks the store at pauses of 10 ms to 500 ms,
    /// doubling, and holds its request meanwhile. Once its client hangs up, it is gone. Where the store fails meanwhile,
    /// it is refused with 503 `store-unavailable` under every policy: it has seen that the operation runs.
    ///
    /// # Panics
    ///
    /// Where it is longer than [`LONGEST_DURATION`].
    #[must_use]
    #[track_caller]
    pub fn wait(self, limit: Duration) -> Self {
        assert!(limit <= LONGEST_DURATION, "a request cannot be asked to wait longer than ten years");
        self.with(|settings| settings.wait = Some(limit))
    }

    /// Lets at most this many attempts run at once, shared with the later clones and no longer with the earlier ones.
    /// The default is [`MAX_IN_FLIGHT`](crate::MAX_IN_FLIGHT). Further new work is refused with 503 `overloaded`;
    /// replays are served.
    ///
    /// # Panics
    ///
    /// Where it is zero, or more than a semaphore can count; in the [one-transaction
    /// mode](Self::one_transaction), where it leaves no connection of the store to duplicates.
    #[must_use]
    #[track_caller]
    pub fn max_in_flight(self, attempts: usize) -> Self {
        assert!(attempts > 0, "an idempotency layer with no attempt in flight runs nothing");
        assert!(attempts <= Semaphore::MAX_PERMITS, "more attempts in flight than can be counted");
        if let Some(transactions) = &self.settings.transactions {
            let capacity = transactions.capacity();
            assert!(
                attempts < capacity.get(),
                "{attempts} attempts in flight leave none of the store's {capacity} connections to duplicates"
            );
        }
        self.with(|settings| settings.in_flight = settings.in_flight.with_bound(attempts))
    }

    /// Bounds every single call of the store. The default is 5 s.
    ///
    /// # Panics
    ///
    /// Where it is zero: every call would be given up.
    #[must_use]
    #[track_caller]
    pub fn call_timeout(self, timeout: Duration) -> Self {
        assert!(!timeout.is_zero(), "with no time for a store call, every call is given up");
        self.with(|settings| settings.idem = settings.idem.clone().call_timeout(timeout))
    }
}

/// # Hooks and rendering
impl IdempotencyLayer {
    /// Asks before an answer is replayed, also to the client of an attempt that has lost its lease to the one that made
    /// it: a grant may have been revoked since it was made. What the hook answers
    /// instead goes out as it is, and the record stays.
    ///
    /// ```
    /// # use idem_core::Route;
    /// # use idem_memory::MemoryStore;
    /// # use idem_tower::{IdempotencyLayer, every_caller_shares_all_keys, fixed_route};
    /// # let route = fixed_route(Route::new("payments")?);
    /// # #[derive(Clone)] struct MayPay;
    /// # let layer = IdempotencyLayer::new(MemoryStore::default(), every_caller_shares_all_keys, route);
    /// let layer = layer.check_replay(async |asked| match asked.parts.extensions.get::<MayPay>() {
    ///     Some(_) => Ok(()),
    ///     None => Err(http::StatusCode::FORBIDDEN),
    /// });
    /// # Ok::<(), idem_core::ScopeError>(())
    /// ```
    #[must_use]
    pub fn check_replay<F, A, D>(self, ask: F) -> Self
    where
        F: Fn(Asked) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), D>> + Send + 'static,
        D: Into<Denial> + 'static,
    {
        self.with(|settings| settings.check_replay = Some(hook(ask)))
    }

    /// Asks before a new key is claimed: a quota per principal. Replays and refusals are never asked for.
    ///
    /// # Cost
    ///
    /// One look into the store more for each new key.
    #[must_use]
    pub fn admit<F, A, D>(self, ask: F) -> Self
    where
        F: Fn(Asked) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), D>> + Send + 'static,
        D: Into<Denial> + 'static,
    {
        self.with(|settings| settings.admit = Some(hook(ask)))
    }

    /// Renders problems by a function of one's own, in place of [`problem_json`](crate::problem_json). For gRPC,
    /// [`problem_grpc`](crate::problem_grpc) is one.
    #[must_use]
    pub fn render(self, render: impl Fn(&Problem) -> http::Response<Bytes> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.render = Some(Arc::new(render)))
    }

    /// Sets what problem types begin with, such as `https://api.example/problems/`. The default is the documentation
    /// of [`idem_core::problem`].
    #[must_use]
    pub fn problem_type_base(self, base: impl AsRef<str>) -> Self {
        self.with(|settings| settings.problem_type_base = base.as_ref().into())
    }

    /// Sets the status of `key-reused`; the default is 422.
    ///
    /// # Panics
    ///
    /// Where it is no 4xx: the request is wrong, and sending it again cannot help.
    #[must_use]
    #[track_caller]
    pub fn key_reused_status(self, status: StatusCode) -> Self {
        assert!(status.is_client_error(), "a reused key is the client's error; {status} is no 4xx");
        self.with(|settings| settings.key_reused_status = Some(status))
    }

    /// Sets the status of `previous-attempt-failed`; the default is 500.
    ///
    /// # Panics
    ///
    /// Where it is neither 4xx nor 5xx: the operation did not succeed.
    #[must_use]
    #[track_caller]
    pub fn previous_failed_status(self, status: StatusCode) -> Self {
        let is_error = status.is_client_error() || status.is_server_error();
        assert!(is_error, "a failed attempt is an error; {status} is none");
        self.with(|settings| settings.previous_failed_status = Some(status))
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}
