use core::fmt;
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, Method};
use idem_core::{
    Fingerprinter, Idempotency, KeyFormat, KeyStore, Principal, Profile, Route, TransactionalStore, problem,
};
use tower_layer::Layer;

use crate::capture::Limits;
use crate::inflight::InFlight;
use crate::metered::Metered;
use crate::observe::Reporter;
use crate::scope::Scoped;
use crate::service::IdempotencyService;
use crate::settings::{Comparison, Settings};
use crate::transactions::{Of, Transactions};

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
        Self::over(Metered(store), None, MAX_IN_FLIGHT, principal, route)
    }

    /// Protects in the **one-transaction mode**: the handler writes in a transaction of `store` that the layer commits
    /// together with the record. Both are there, or neither.
    ///
    /// `principal` and `route` are those of [`new`](Self::new). The handler takes its transaction as [`Tx`](crate::Tx).
    /// While it runs, the key is locked by that transaction: there is no claim and no lease. A crash, a lost connection
    /// or a rollback frees the key at once, and nothing has happened in the database; what the handler does elsewhere
    /// is not undone by that.
    ///
    /// | the handler ends with | business writes | record | the client gets |
    /// |---|---|---|---|
    /// | 2xx, 3xx | committed | completed, in the same commit | the answer, once the commit is known |
    /// | another 4xx that completes | rolled back | completed, in a write of its own right after | the answer; or that of another who got the key meanwhile |
    /// | 401, 425, 429 | rolled back | none, a retry runs | the answer |
    /// | 408, 5xx, a panic, an `Err`, a body that breaks off | rolled back | none, a retry runs | the answer |
    /// | *release* or *failed*, said through [`Running`](crate::Running) | rolled back | none, a retry runs | the answer |
    /// | success, its transaction aborted, never taken or not given back | rolled back | none, a retry runs | 500 `not-committed` |
    /// | success, the reply to its commit lost | looked up | as found | the answer where it is found, otherwise 503 |
    ///
    /// Whether an answer completes is decided by [`classify`](Self::classify); one that does, commits below status 400
    /// and with the `grpc-status` 0, and is remembered without its writes otherwise. A response that is not kept is
    /// committed before its first byte goes out. A duplicate of a running request is *in progress* at once, also where
    /// it asks for something else.
    ///
    /// # Settings that mean something else here
    ///
    /// - At most [`capacity`](TransactionalStore::capacity) less one attempts run at once, so that a duplicate finds a
    ///   connection; [`max_in_flight`](Self::max_in_flight) sets it lower. Layers and clones that have bounds of their
    ///   own and share a pool must stay below its size together. A store of one connection runs one attempt, and its
    ///   duplicates wait for it as long as the store lets them.
    /// - Nothing runs unprotected, whatever the policy says of a store that is down.
    /// - Of the policy's times, the retention counts; lease, ceiling and unsettled retention belong to claims, as does
    ///   what it says of abandoned and failed attempts, should the route have been used in the other mode before.
    /// - A handler holds a connection for as long as it runs, and nothing bounds that but a time limit inside this layer.
    /// - A request that [waits](Self::wait) asks for the lock whenever it looks, and takes a permit for that moment; while
    ///   there is none, it goes on waiting.
    /// - [`admit`](Self::admit) looks before it asks, and a look does not see what runs: it is asked for a duplicate of a
    ///   running request too.
    pub fn one_transaction<P, R>(
        store: impl TransactionalStore + 'static,
        principal: impl Fn(&Parts) -> P + Send + Sync + 'static,
        route: impl Fn(&Parts) -> R + Send + Sync + 'static,
    ) -> Self
    where
        P: Scoped<Principal>,
        R: Scoped<Route>,
    {
        let store = Arc::new(Metered(store));
        let at_once = store.capacity().get().saturating_sub(1).clamp(1, MAX_IN_FLIGHT);
        Self::over(Arc::clone(&store), Some(Arc::new(Of(store))), at_once, principal, route)
    }

    fn over<P, R>(
        store: impl KeyStore + 'static,
        transactions: Option<Arc<dyn Transactions>>,
        at_once: usize,
        principal: impl Fn(&Parts) -> P + Send + Sync + 'static,
        route: impl Fn(&Parts) -> R + Send + Sync + 'static,
    ) -> Self
    where
        P: Scoped<Principal>,
        R: Scoped<Route>,
    {
        let in_flight = InFlight::new(at_once);
        let owed = in_flight.clone();
        let idem = Idempotency::new(store, tokio::time::sleep as fn(Duration) -> tokio::time::Sleep)
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
                transactions,
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
    /// Attempts that still run. Ended now, their claims are abandoned, or their transactions rolled back.
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
