//! Whose key it is, and for which operation.

use core::fmt;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::IdempotencyKey;

/// Longest principal and longest route, in bytes of UTF-8.
pub const LONGEST_NAME: usize = 255;

/// Who calls: a user, a tenant, an API key.
///
/// Two principals never see each other's keys. Where callers really are to share keys, that is
/// [`Principal::shared`], a kind of its own which no name can equal.
///
/// `Debug` shows a hash: names of people stay out of logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Caller);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Caller {
    Shared,
    Named(Arc<str>),
}

impl Principal {
    /// Names one caller.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] where the name is empty, longer than [`LONGEST_NAME`] bytes, or has control characters. A name
    /// that may be longer is hashed by the application first.
    pub fn new(name: impl AsRef<str>) -> Result<Self, ScopeError> {
        Ok(Self(Caller::Named(checked("principal", name.as_ref())?)))
    }

    /// One principal for every caller: whoever knows a key of another gets the other's answer.
    #[must_use]
    pub const fn shared() -> Self {
        Self(Caller::Shared)
    }

    /// The caller's name; `None` for the shared principal.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Caller::Shared => None,
            Caller::Named(name) => Some(name),
        }
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            None => f.write_str("Principal(shared)"),
            Some(name) => write!(f, "Principal(#{})", crate::hex(&Sha256::digest(name)[..4])),
        }
    }
}

/// A stable name of the operation, such as `/payments` or `orders.ship`.
///
/// Every key in flight hangs on it: a route that is renamed forgets its keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route(Arc<str>);

impl Route {
    /// Names one operation.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] where the name is empty, longer than [`LONGEST_NAME`] bytes, or has control characters.
    pub fn new(name: impl AsRef<str>) -> Result<Self, ScopeError> {
        Ok(Self(checked("route", name.as_ref())?))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn checked(what: &'static str, name: &str) -> Result<Arc<str>, ScopeError> {
    if name.is_empty() {
        return Err(ScopeError::Empty { what });
    }
    if name.len() > LONGEST_NAME {
        return Err(ScopeError::TooLong { what, length: name.len() });
    }
    match name.char_indices().find(|(_, character)| character.is_control()) {
        Some((position, _)) => Err(ScopeError::ControlCharacter { what, position }),
        None => Ok(name.into()),
    }
}

/// Why a principal or a route was not accepted. No variant repeats the text itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// Nothing there: every caller without a name would be one caller.
    #[error("the {what} is empty")]
    Empty {
        /// `principal` or `route`.
        what: &'static str,
    },
    /// More bytes than stores hold.
    #[error("the {what} has {length} bytes; at most {LONGEST_NAME} are allowed, hash longer ones")]
    TooLong {
        /// `principal` or `route`.
        what: &'static str,
        /// Bytes that came.
        length: usize,
    },
    /// A control character, NUL and newline among them.
    #[error("the {what} has a control character at byte {position}")]
    ControlCharacter {
        /// `principal` or `route`.
        what: &'static str,
        /// Counted in bytes from 0.
        position: usize,
    },
}

/// Principal, route and key together: what a record is stored under.
///
/// The parts are length-prefixed and the kind of principal is tagged, so that no two scopes share an encoding,
/// whatever the parts contain. Clones share one allocation.
///
/// ```
/// use idem_core::{IdempotencyKey, Principal, Route, ScopedKey};
///
/// let key = IdempotencyKey::parse("8e03978e-40d5-43dd")?;
/// let alice = ScopedKey::new(Principal::new("alice")?, Route::new("/payments")?, key.clone());
/// let bob = ScopedKey::new(Principal::new("bob")?, Route::new("/payments")?, key);
/// assert_ne!(alice.digest(), bob.digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ScopedKey(Arc<Scope>);

struct Scope {
    principal: Principal,
    route: Route,
    key: IdempotencyKey,
    digest: OnceLock<[u8; 32]>,
}

impl ScopedKey {
    /// Scopes a key.
    #[must_use]
    pub fn new(principal: Principal, route: Route, key: IdempotencyKey) -> Self {
        Self(Arc::new(Scope { principal, route, key, digest: OnceLock::new() }))
    }

    /// Who calls.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// For which operation.
    #[must_use]
    pub fn route(&self) -> &Route {
        &self.0.route
    }

    /// What the client sent.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.0.key
    }

    /// SHA-256 over the unambiguous encoding, for stores that need one string, and for logs.
    ///
    /// # Cost
    ///
    /// Computed at the first call, then remembered.
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        self.0.digest.get_or_init(|| {
            let mut hash = Sha256::new();
            hash.update(b"idem.scope.v1\0");
            match self.0.principal.name() {
                None => hash.update([0]),
                Some(name) => {
                    hash.update([1]);
                    update_prefixed(&mut hash, name);
                }
            }
            update_prefixed(&mut hash, self.0.route.as_str());
            update_prefixed(&mut hash, self.0.key.as_str());
            hash.finalize().into()
        })
    }

    /// A key for a call that the handler makes downstream: the same on every attempt, so that a rerun of the handler
    /// is a retry there.
    ///
    /// It depends on the scope and on `label` alone, has the shape of a UUID (version 8, RFC 9562), which every API
    /// that takes keys accepts, and gives nothing of the client's key away. Two calls in one handler need two labels.
    ///
    /// A key that comes back after its retention derives the same keys again; a downstream that remembers longer then
    /// replays, which errs on the side of not charging twice.
    #[must_use]
    pub fn derive_key(&self, label: &str) -> IdempotencyKey {
        let mut hash = Sha256::new();
        hash.update(b"idem.derive.v1\0");
        hash.update(self.digest());
        update_prefixed(&mut hash, label);
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&hash.finalize()[..16]);
        uuid[6] = (uuid[6] & 0x0f) | 0x80;
        uuid[8] = (uuid[8] & 0x3f) | 0x80;
        let hex = crate::hex(&uuid);
        IdempotencyKey::derived(format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        ))
    }
}

fn update_prefixed(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

impl PartialEq for ScopedKey {
    fn eq(&self, other: &Self) -> bool {
        let (mine, theirs) = (&*self.0, &*other.0);
        mine.key == theirs.key && mine.route == theirs.route && mine.principal == theirs.principal
    }
}

impl Eq for ScopedKey {}

impl core::hash::Hash for ScopedKey {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.principal.hash(state);
        self.0.route.hash(state);
        self.0.key.hash(state);
    }
}

impl fmt::Debug for ScopedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopedKey({} #{})", self.0.route.as_str(), crate::hex(&self.digest()[..8]))
    }
}
