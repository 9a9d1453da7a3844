//! What a layer value is set to, and the small decisions that follow from it.

use core::time::Duration;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use idem_core::{
    Fingerprinter, Idempotency, KeyFormat, Principal, Problem, Profile, RequestIdentity, RequestParts, Route,
    StoreError,
};

use crate::capture::Limits;
use crate::classify::{Answered, Class, classify};
use crate::hooks::Hook;
use crate::inflight::InFlight;
use crate::problem::problem_json;
use crate::scope::NoScope;
use crate::transactions::Transactions;

/// How the driver waits here.
pub(crate) type Timer = fn(Duration) -> tokio::time::Sleep;

/// Copied on the first change after a clone of the layer.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) idem: Idempotency<Timer>,
    /// Where attempts hold their keys by open transactions instead of claims.
    pub(crate) transactions: Option<Arc<dyn Transactions>>,
    pub(crate) principal: Arc<OfHead<Result<Principal, NoScope>>>,
    pub(crate) route: Arc<OfHead<Result<Route, NoScope>>>,
    pub(crate) methods: Arc<[Method]>,
    pub(crate) covers: Option<Arc<OfHead<bool>>>,
    pub(crate) key_header: HeaderName,
    pub(crate) key_format: KeyFormat,
    pub(crate) comparison: Comparison,
    pub(crate) max_request_body: usize,
    pub(crate) limits: Limits,
    pub(crate) wait: Option<Duration>,
    pub(crate) in_flight: InFlight,
    pub(crate) classify: Option<Arc<Classify>>,
    pub(crate) check_replay: Option<Hook>,
    pub(crate) admit: Option<Hook>,
    pub(crate) render: Option<Arc<Render>>,
    pub(crate) problem_type_base: Arc<str>,
    pub(crate) not_stored: Arc<HashSet<HeaderName>>,
    pub(crate) key_reused_status: Option<StatusCode>,
    pub(crate) previous_failed_status: Option<StatusCode>,
}

/// How requests are told apart.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) ignored: Vec<String>,
    pub(crate) profile: Profile,
    pub(crate) previous: Vec<Profile>,
    pub(crate) fingerprinter: Fingerprinter,
    pub(crate) custom: Option<Arc<Identify>>,
}

/// A function of a request's head.
pub(crate) type OfHead<T> = dyn Fn(&Parts) -> T + Send + Sync;
pub(crate) type Classify = dyn Fn(&Answered<'_>) -> Option<Class> + Send + Sync;
pub(crate) type Render = dyn Fn(&Problem) -> http::Response<Bytes> + Send + Sync;
pub(crate) type Identify = dyn Fn(&Parts, &Bytes) -> Arc<dyn RequestIdentity> + Send + Sync;

impl Comparison {
    /// Takes note that profiles have changed.
    pub(crate) fn renew(&mut self) {
        self.fingerprinter = Fingerprinter::new(self.profile.clone()).previous(self.previous.iter().cloned());
    }
}

impl Settings {
    /// What the request is compared by.
    pub(crate) fn identify(&self, parts: &Parts, body: &Bytes) -> Arc<dyn RequestIdentity> {
        if let Some(custom) = &self.comparison.custom {
            return custom(parts, body);
        }
        let uri = original_uri(parts);
        let content_type = joined(&parts.headers, &header::CONTENT_TYPE);
        let content_encoding = joined(&parts.headers, &header::CONTENT_ENCODING);
        let request = RequestParts::new(parts.method.as_str(), uri.path(), body.clone())
            .query(uri.query())
            .content_type(content_type.as_deref())
            .content_encoding(content_encoding.as_deref());
        Arc::new(self.comparison.fingerprinter.fingerprint(request))
    }

    /// What an answer does to its key: the route's own word, otherwise the default.
    pub(crate) fn classify(&self, answered: &Answered<'_>) -> Class {
        let own = self.classify.as_ref().and_then(|classify| classify(answered));
        own.unwrap_or_else(|| classify(answered))
    }

    /// Renders a problem, under the statuses that this layer was given.
    pub(crate) fn render(&self, mut problem: Problem) -> http::Response<Bytes> {
        let status = match problem.slug {
            "key-reused" => self.key_reused_status,
            "previous-attempt-failed" => self.previous_failed_status,
            _ => None,
        };
        if let Some(status) = status {
            problem.status = status.as_u16();
        }
        match &self.render {
            Some(render) => render(&problem),
            None => problem_json(&problem, &self.problem_type_base),
        }
    }

    pub(crate) fn has_hooks(&self) -> bool {
        self.admit.is_some() || self.check_replay.is_some()
    }
}

/// No permit is free, or the drain has begun.
pub(crate) fn overloaded() -> Problem {
    Problem::overloaded(spread(Duration::from_secs(1)))
}

/// The store could not be asked.
pub(crate) fn store_failed(error: &StoreError) -> Problem {
    Problem::store(error, spread(Duration::from_secs(2)))
}

/// The transaction of an operation that ran could not be committed.
pub(crate) fn commit_failed(error: &StoreError) -> Problem {
    Problem::commit(error, spread(Duration::from_secs(2)))
}

/// Between `shortest` and three times as long: clients that were refused together do not come back together.
fn spread(shortest: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    let longest_addition = u64::try_from(shortest.as_millis()).unwrap_or(u64::MAX).saturating_mul(2).max(1);
    shortest + Duration::from_millis(random % longest_addition)
}

/// The URI as the client sent it. Where an axum router is nested, its requests have lost what the outer path said, and
/// `/a/payments` would be `/b/payments`.
fn original_uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(original) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return &original.0;
    }
    &parts.uri
}

/// All values of a header, as one list.
fn joined<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, [u8]>> {
    let mut values = headers.get_all(name).into_iter();
    let first = Cow::Borrowed(values.next()?.as_bytes());
    Some(values.fold(first, |mut list, value| {
        list.to_mut().extend_from_slice(b", ");
        list.to_mut().extend_from_slice(value.as_bytes());
        list
    }))
}
