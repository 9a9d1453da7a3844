use core::ops::Deref;

/// The running attempt, as its handler sees it: an extension of the request, and in axum an extractor.
///
/// It gives the fencing token, keys for downstream calls and the signal that the lease is lost, and takes what the
/// handler knows better than its answer says: *release*, *failed without effect*, *do not keep*. See
/// [`idem_core::Running`], which it derefs to.
///
/// Clones are cheap and are the same attempt.
///
/// # Where it is missing
///
/// A request that passes the layer unprotected, because its key is optional and not there or its method is not
/// covered, has none. As an axum extractor, `Running` then answers 500 `misconfigured` before the handler runs, which
/// also catches a route that nobody has layered; `Option<Running>` takes both kinds of request. A request that a
/// [relaxed](idem_core::Policy::relaxed) policy runs because the store is down does have one, of epoch
/// [`UNPROTECTED`](idem_core::Epoch::UNPROTECTED).
///
/// # Example
///
/// ```
/// use idem_tower::Running;
///
/// fn charge_key<B>(request: &http::Request<B>) -> Option<String> {
///     let running = request.extensions().get::<Running>()?;
///     Some(running.derive_key("charge-card").as_str().to_owned())
/// }
///
/// assert_eq!(charge_key(&http::Request::new(())), None);
/// ```
#[derive(Clone, Debug)]
pub struct Running(idem_core::Running);

impl Running {
    pub(crate) const fn new(running: idem_core::Running) -> Self {
        Self(running)
    }
}

impl Deref for Running {
    type Target = idem_core::Running;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
