//! Who calls, and which operation it is: both are functions of the request's head.

use core::fmt;

use http::request::Parts;
use idem_core::{Principal, Route, ScopeError};

/// What a principal function or a route function may give back: the name, or its absence.
///
/// Implemented for `Option<T>`, `Result<T, ScopeError>` and `Option<Result<T, ScopeError>>`, so that
/// `Principal::new(…)` and `user.map(|user| Principal::new(…))` fit as they are. Nothing else implements it.
pub trait Scoped<T>: sealed::Sealed {
    /// The name, or why there is none.
    ///
    /// # Errors
    ///
    /// [`NoScope`] where there is no name, or one that is not accepted.
    fn into_scope(self) -> Result<T, NoScope>;
}

/// Why a request cannot be scoped. The request is answered with 500 `misconfigured`, and this goes to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoScope {
    /// The function gave nothing.
    Absent,
    /// The function gave a name that is not accepted.
    Invalid(ScopeError),
}

impl fmt::Display for NoScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the function gave none"),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}

impl<T> Scoped<T> for Option<T> {
    fn into_scope(self) -> Result<T, NoScope> {
        self.ok_or(NoScope::Absent)
    }
}

impl<T> Scoped<T> for Result<T, ScopeError> {
    fn into_scope(self) -> Result<T, NoScope> {
        self.map_err(NoScope::Invalid)
    }
}

impl<T> Scoped<T> for Option<Result<T, ScopeError>> {
    fn into_scope(self) -> Result<T, NoScope> {
        self.ok_or(NoScope::Absent)?.map_err(NoScope::Invalid)
    }
}

mod sealed {
    pub trait Sealed {}

    impl<T> Sealed for Option<T> {}

    impl<T> Sealed for Result<T, idem_core::ScopeError> {}
}

/// A route function for a layer around a single operation: the same name for every request.
///
/// ```
/// use idem_core::Route;
///
/// let route = idem_tower::fixed_route(Route::new("orders.ship")?);
/// let (parts, ()) = http::Request::new(()).into_parts();
/// assert_eq!(route(&parts), Some(Route::new("orders.ship")?));
/// # Ok::<(), idem_core::ScopeError>(())
/// ```
pub fn fixed_route(route: Route) -> impl Fn(&Parts) -> Option<Route> + Clone + Send + Sync + 'static {
    move |_| Some(route.clone())
}

/// A principal function for APIs in which all callers share their keys: whoever knows a key of another caller gets the
/// answer that was meant for the other.
///
/// Fit for a service behind a single trusted client; wrong wherever callers must not see each other's answers.
#[must_use]
pub fn every_caller_shares_all_keys(_: &Parts) -> Option<Principal> {
    Some(Principal::shared())
}
