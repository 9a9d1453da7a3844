//! The layer's own replies: problems, and whatever else goes out with a body that is there.

use bytes::Bytes;
use http::Response;
use idem_core::{Problem, ScopedKey};

use crate::body::Body;
use crate::observe::{self, Outcome};
use crate::settings::Settings;

/// Counts the request, and says in its span how it ended.
pub(crate) fn count(key: &ScopedKey, outcome: Outcome) {
    tracing::Span::current().record("outcome", outcome.as_str());
    observe::count(Some(key.route()), outcome);
}

pub(crate) fn refuse<R: http_body::Body>(settings: &Settings, key: &ScopedKey, problem: Problem) -> Response<Body<R>> {
    count(key, Outcome::Problem(problem.slug));
    kept(settings.render(problem))
}

pub(crate) fn kept<R: http_body::Body>(response: Response<Bytes>) -> Response<Body<R>> {
    response.map(|body| Body::kept(body, None))
}
