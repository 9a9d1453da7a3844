//! Who calls. Pretended, too: the bearer token *is* the caller's name.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use idem_core::Principal;

use crate::problem::Problem;

/// The authenticated caller.
#[derive(Clone)]
pub(crate) struct Caller(Principal);

impl Caller {
    pub(crate) fn name(&self) -> &str {
        self.0.name().unwrap_or_default()
    }
}

/// Lets nobody through who is not known. Stands outside the idempotency layer: a stored answer goes to its owner only.
pub(crate) async fn authenticate(mut request: Request, next: Next) -> Response {
    match caller(request.headers()) {
        Some(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        None => {
            let problem = Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "Say who you are: `Authorization: Bearer NAME`, with a name of 1 to 255 bytes.",
            );
            let mut response = problem.into_response();
            let challenge = HeaderValue::from_static("Bearer realm=\"payments\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
    }
}

fn caller(headers: &HeaderMap) -> Option<Caller> {
    let mut values = headers.get_all(header::AUTHORIZATION).into_iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    Principal::new(token.trim()).ok().map(Caller)
}

/// The principal function of the idempotency layer.
pub(crate) fn principal(parts: &Parts) -> Option<Principal> {
    parts.extensions.get::<Caller>().map(|caller| caller.0.clone())
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::internal)
    }
}
