//! Fingerprints for callers that have no HTTP request: jobs, messages, commands.

use std::sync::LazyLock;

use super::Fingerprint;
use super::body::BodyKind;
use super::encode::put_bytes;
use super::profile::Profile;

static DEFAULT: LazyLock<Profile> = LazyLock::new(Profile::default);

impl Fingerprint {
    /// Fingerprints an operation with a JSON body, under the default profile.
    ///
    /// Spellings of one document have one fingerprint. A body that is no JSON counts byte by byte.
    ///
    /// # Example
    ///
    /// ```
    /// use idem_core::Fingerprint;
    ///
    /// let sent = Fingerprint::json("ship", br#"{"order": 7, "weight": 1.50}"#);
    ///
    /// assert_eq!(sent, Fingerprint::json("ship", br#"{"weight":15e-1,"order":7}"#));
    /// assert_ne!(sent, Fingerprint::json("cancel", br#"{"order": 7, "weight": 1.50}"#));
    /// ```
    #[must_use]
    pub fn json(operation: &str, body: &[u8]) -> Self {
        DEFAULT.fingerprint(&operation_head(operation), &BodyKind::Json, body)
    }

    /// Fingerprints an operation whose body counts byte by byte, under the default profile.
    #[must_use]
    pub fn bytes(operation: &str, body: &[u8]) -> Self {
        DEFAULT.fingerprint(&operation_head(operation), &BodyKind::Raw, body)
    }
}

/// Starts unlike the head of a request, so that no operation is a request.
fn operation_head(operation: &str) -> Vec<u8> {
    let mut head = Vec::with_capacity(16 + operation.len());
    head.push(b'O');
    put_bytes(&mut head, operation.as_bytes());
    head
}
