use core::fmt;
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, Method};
use idem_core::{Fingerprinter, Idempotency, KeyFormat, KeyStore, Principal, Profile, Route, problem};
use tower_layer::Layer;

use crate::capture::Limits;
use crate::inflight::InFlight;
use crate::metered::Metered;
use crate::observe::Reporter;
use crate::scope::Scoped;
use crate::service::IdempotencyService;
use crate::settings::{Comparison, Settings};

/// Bytes of a request body that are read, unless [`max_request_body`](IdempotencyLayer::max_request_body) says
/// otherwise.
pub const MAX_REQUEST_BODY: usize = 2 << 20;

/// Bytes of a response body that are kept, unless [`max_response`](IdempotencyLayer::max_response) says otherwise.
pub const MAX_RESPONSE: usize = 1 << 20;

/// How long a response body is buffered, unless [`buffer_time`](IdempotencyLayer::buffer_time) says otherwise.
pub const BUFFER_TIME: Duration = Duration::from_secs(10);

/// Attempts that run at once, unless [`max_in_flight`](IdempotencyLayer::max_in_flight) says otherwise. They outlive
/// the connections that began them, so that something has to bound them.
pub const MAX_IN_FLIGHT: usize = 4096;

/// Makes the covered requests of a service run at most once per key.
///
/// A clone costs one reference count. Clones share the store, the permits, the drain and the owed writes; what is set
/// on a clone holds for that clone and its later clones. One value is made at start, and each route gets a clone under
/// its own policy.
///
/// Every setting is checked where it is made. What no type can rule out panics there, at start, and not when the first
/// request comes.
///
/// # Example
///
/// ```
/// use idem_core::{Policy, Principal, Route};
/// use idem_memory::MemoryStore;
/// use idem_tower::{IdempotencyLayer, fixed_route};
///
/// # #[derive(Clone)] struct User { id: String }
/// fn caller(parts: &http::request::Parts) -> Option<Result<Principal, idem_core::ScopeError>> {
///     parts.extensions.get::<User>().map(|user| Principal::new(&user.id))
/// }
///
/// let payments = IdempotencyLayer::new(MemoryStore::default(), caller, fixed_route(Route::new("payments")?))
///     .ignore(["/client_timestamp"]);
/// let likes = payments.clone().policy(Policy::relaxed());
/// assert_eq!(likes.owed_writes(), payments.owed_writes());
/// # Ok::<(), idem_core::ScopeError>(())
/// ```
#[derive(Clone)]
pub struct IdempotencyLayer {
    pub(crate) settings: Arc<Settings>,
}

impl IdempotencyLayer {
    /// Protects with the records of `store`, under [`Policy::strict`](idem_core::Policy::strict).
    ///
    /// `principal` says who calls; `route` names the operation, stably: every key in flight hangs on it. Both see the
    /// head of the request as it comes to the layer, so that the layer stands inside authentication. Where one of them
    /// gives nothing, the request is answered with 500 `misconfigured` and does not run.
    pub fn new<P, R>(
        store: impl KeyStore + 'static,
        principal: impl Fn(&Parts) -> P + Send + Sync + 'static,
        route: impl Fn(&Parts) -> R + Send + Sync + 'static,
    ) -> Self
    where
        P: Scoped<Principal>,
        R: Scoped<Route>,
    {
        let in_flight = InFlight::new(MAX_IN_FLIGHT);
        let owed = in_flight.clone();
        let idem = Idempotency::new(Metered(store), tokio::time::sleep as fn(Duration) -> tokio::time::Sleep)
            .spawn_with(move |task| owed.spawn_owed(task))
            .observe(Reporter);
        let comparison = Comparison {
            ignored: Vec::new(),
            profile: Profile::default(),
            previous: Vec::new(),
            fingerprinter: Fingerprinter::default(),
            custom: None,
        };
        Self {
            settings: Arc::new(Settings {
                idem,
                principal: Arc::new(move |parts| principal(parts).into_scope()),
                route: Arc::new(move |parts| route(parts).into_scope()),
                methods: Arc::new([Method::POST, Method::PATCH]),
                covers: None,
                key_header: HeaderName::from_static("idempotency-key"),
                key_format: KeyFormat::default(),
                comparison,
                max_request_body: MAX_REQUEST_BODY,
                limits: Limits { bytes: MAX_RESPONSE, time: BUFFER_TIME },
                wait: None,
                in_flight,
                classify: None,
                check_replay: None,
                admit: None,
                render: None,
                problem_type_base: problem::TYPE_BASE.into(),
                not_stored: Arc::new(HashSet::new()),
                key_reused_status: None,
                previous_failed_status: None,
            }),
        }
    }

    /// Lets nothing new begin, and waits until every attempt has settled and every owed write is written.
    ///
    /// From the first call on, of any clone, new work is refused with 503 `overloaded`; replays are still served. Call
    /// it after the server has stopped to accept connections. It may take as long as the slowest handler or, while the
    /// store is down, as the store: [`drain_for`](Self::drain_for) is bounded.
    ///
    /// # Cancellation
    ///
    /// Nothing begins any more; call it again to wait.
    pub async fn drain(&self) {
        self.settings.idem.hurry_owed_writes();
        self.settings.in_flight.drain().await;
    }

    /// As [`drain`](Self::drain), for at most `limit`. Says what is left.
    pub async fn drain_for(&self, limit: Duration) -> Undrained {
        match tokio::time::timeout(limit, self.drain()).await {
            Ok(()) => Undrained::default(),
            Err(_) => {
                let owed_writes = self.owed_writes();
                Undrained { attempts: self.settings.in_flight.count().saturating_sub(owed_writes), owed_writes }
            }
        }
    }

    /// Outcomes that the store has not taken yet, and that are tried again in the background.
    #[must_use]
    pub fn owed_writes(&self) -> usize {
        self.settings.idem.owed_writes()
    }

    /// The driver beneath: to look at a key, to resolve a claim, to sweep the store.
    #[must_use]
    pub fn idempotency(&self) -> &Idempotency<fn(Duration) -> tokio::time::Sleep> {
        &self.settings.idem
    }
}

/// What a bounded drain has left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "what is left will be cut off by the end of the process"]
pub struct Undrained {
    /// Attempts that still run. Ended now, their claims are abandoned.
    pub attempts: usize,
    /// Outcomes that the store has not taken. Ended now, their claims are abandoned although their handlers are done.
    pub owed_writes: usize,
}

impl Undrained {
    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.attempts == 0 && self.owed_writes == 0
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(Arc::clone(&self.settings), inner)
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("policy", self.settings.idem.current_policy())
            .field("methods", &self.settings.methods)
            .field("max_request_body", &self.settings.max_request_body)
            .field("limits", &self.settings.limits)
            .field("wait", &self.settings.wait)
            .field("in_flight", &self.settings.in_flight)
            .finish_non_exhaustive()
    }
}
