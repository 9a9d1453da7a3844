//! What a request is, from its head alone.

use http::request::Parts;
use idem_core::policy::KeyPresence;
use idem_core::{Problem, ScopedKey};

use crate::observe::{self, Outcome};
use crate::running::Running;
use crate::settings::Settings;

/// What is to be done with a request.
pub(crate) enum Arrival {
    /// It is not covered, or its key is optional and not there.
    Untouched,
    /// Nothing of it runs.
    Refused(Problem),
    /// It runs at most once under this key.
    Protected(ScopedKey),
}

/// Reads the head.
pub(crate) fn arrival(settings: &Settings, parts: &Parts) -> Arrival {
    let is_covered =
        settings.methods.contains(&parts.method) && settings.covers.as_ref().is_none_or(|covers| covers(parts));
    if !is_covered {
        return Arrival::Untouched;
    }
    let values = parts.headers.get_all(&settings.key_header);
    let key = match settings.key_format.parse_header(values.into_iter().map(|value| value.as_bytes())) {
        Ok(Some(key)) => key,
        Ok(None) if settings.idem.current_policy().key() == KeyPresence::Optional => {
            count(settings, parts, Outcome::WithoutKey);
            return Arrival::Untouched;
        }
        Ok(None) => return refused(settings, parts, Problem::missing_key()),
        Err(error) => return refused(settings, parts, Problem::invalid_key(&error)),
    };
    let principal = match (settings.principal)(parts) {
        Ok(principal) => principal,
        Err(why) => {
            tracing::error!(
                method = %parts.method,
                "no principal for a request that has an idempotency key: {why}. The request did not run. Does the \
                 layer stand inside authentication?"
            );
            return refused(settings, parts, Problem::misconfigured());
        }
    };
    let route = match (settings.route)(parts) {
        Ok(route) => route,
        Err(why) => {
            tracing::error!(
                method = %parts.method,
                "no route name for a request that has an idempotency key: {why}. The request did not run. In axum, \
                 the matched path exists inside a router's `layer` and `route_layer`, not around the whole router"
            );
            return refused(settings, parts, Problem::misconfigured());
        }
    };
    // A request that a handler makes to a router of its own carries no such extension, or another key.
    if parts.extensions.get::<Running>().is_some_and(|outer| *outer.key().key() == key) {
        tracing::error!(
            route = route.as_str(),
            "the idempotency layer is applied twice to this request; the request did not run. Remove one of the two"
        );
        // The outer attempt is not released: this may be a request that its handler passes on after it has acted.
        return refused(settings, parts, Problem::misconfigured());
    }
    Arrival::Protected(ScopedKey::new(principal, route, key))
}

fn refused(settings: &Settings, parts: &Parts, problem: Problem) -> Arrival {
    count(settings, parts, Outcome::Problem(problem.slug));
    Arrival::Refused(problem)
}

fn count(settings: &Settings, parts: &Parts, outcome: Outcome) {
    observe::count((settings.route)(parts).ok().as_ref(), outcome);
}
