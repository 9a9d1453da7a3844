//! What the application may be asked on the way.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use idem_core::ScopedKey;

/// What a hook is told of the request.
///
/// Its [`Debug`](fmt::Debug) shows no header, no query and no extension, and the key only as a hash.
#[derive(Clone)]
#[non_exhaustive]
pub struct Asked {
    /// The head of the request, extensions included: whoever was authenticated is in there.
    pub parts: Parts,
    /// Whose key it is, and for which operation.
    pub key: ScopedKey,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("method", &self.parts.method)
            .field("path", &self.parts.uri.path())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// The answer of a hook that does not let a request go on. It goes out as it is and is never stored.
///
/// Made of a [`StatusCode`], or of a whole response.
#[derive(Clone, Debug)]
pub struct Denial(pub(crate) http::Response<Bytes>);

impl From<StatusCode> for Denial {
    fn from(status: StatusCode) -> Self {
        let mut response = http::Response::new(Bytes::new());
        *response.status_mut() = status;
        Self(response)
    }
}

impl From<http::Response<Bytes>> for Denial {
    fn from(response: http::Response<Bytes>) -> Self {
        Self(response)
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<(), Denial>> + Send>>;

/// A hook, its types erased.
pub(crate) type Hook = Arc<dyn Fn(Asked) -> Answer + Send + Sync>;

pub(crate) fn hook<F, A, D>(ask: F) -> Hook
where
    F: Fn(Asked) -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), D>> + Send + 'static,
    D: Into<Denial> + 'static,
{
    Arc::new(move |asked| {
        let answer = ask(asked);
        Box::pin(async move { answer.await.map_err(Into::into) })
    })
}
