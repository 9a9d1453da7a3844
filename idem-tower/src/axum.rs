//! What axum users need: the route of a request, and the running attempt and its transaction as extractors.

use axum::extract::MatchedPath;
use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use core::convert::Infallible;
use http::request::Parts;
use idem_core::{Problem, Route, ScopeError, problem};

use crate::lend::{NoTransaction, Tx};
use crate::problem::problem_json;
use crate::running::Running;

/// A route function: the path of the axum route that matched, such as `/payments/{id}`.
///
/// It exists inside a router's `layer` and `route_layer`, inside a method router's `layer`, and inside `nest`. Around a
/// whole router, outside of `nest_service`, or on a fallback there is none, and the request is answered with 500
/// `misconfigured`.
///
/// Renaming a path parameter renames the route: keys that were in flight are forgotten. A route that must outlive that
/// has a name of its own, by [`fixed_route`](crate::fixed_route).
#[must_use]
pub fn matched_path(parts: &Parts) -> Option<Result<Route, ScopeError>> {
    parts.extensions.get::<MatchedPath>().map(|path| Route::new(path.as_str()))
}

/// The handler asks for [`Running`], and nothing protects the request: no layer covers it, or its key is optional and
/// not there. Rendered as 500 `misconfigured`; the handler has not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning;

impl core::fmt::Display for NotRunning {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the request has no running attempt: no idempotency layer covers it, or it has no key")
    }
}

impl core::error::Error for NotRunning {}

impl IntoResponse for NotRunning {
    fn into_response(self) -> Response {
        tracing::error!("{self}; the handler did not run. Take `Option<Running>` where that may be");
        problem_json(&Problem::misconfigured(), problem::TYPE_BASE).map(Into::into)
    }
}

impl<S: Sync> FromRequestParts<S> for Running {
    type Rejection = NotRunning;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.get::<Self>().cloned().ok_or(NotRunning)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Running {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}

impl IntoResponse for NoTransaction {
    fn into_response(self) -> Response {
        tracing::error!("{self}; the handler did not run");
        problem_json(&Problem::misconfigured(), problem::TYPE_BASE).map(Into::into)
    }
}

impl<T: Send + 'static, S: Sync> FromRequestParts<S> for Tx<T> {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Self::take(&parts.extensions)
    }
}

impl<T: Send + 'static, S: Sync> OptionalFromRequestParts<S> for Tx<T> {
    type Rejection = NoTransaction;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        match Self::take(&parts.extensions) {
            Ok(tx) => Ok(Some(tx)),
            Err(NoTransaction::Unprotected) => Ok(None),
            Err(other) => Err(other),
        }
    }
}
