//! How a digest is made.

use core::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::body::BodyKind;
use super::encode::{put_bytes, put_length, put_optional};
use super::keyed::{Hasher, HmacKey};
use super::members::Members;
use super::pointer::{Pointer, PointerRule};
use super::{Fingerprint, ProfileId};

/// The version of everything that happens between a request and its digest.
///
/// It grows when any golden vector would change; digests that were made before then belong to another profile.
const ALGORITHM: usize = 1;

/// Starts every digest, so that no digest of another protocol or version is one of ours.
const REQUEST_DOMAIN: &[u8] = b"idem fingerprint 1\n";

/// Starts the configuration that a profile id is the hash of.
const PROFILE_DOMAIN: &[u8] = b"idem profile\n";

/// How fingerprints are made: which members of a body count, and whether the hash is keyed.
///
/// The default profile looks at every member and hashes without a key. [`Profile::id`] names the configuration; a record
/// carries it, so that a digest is never compared with one that was made another way.
///
/// # What a pointer names
///
/// Members are named by JSON Pointers (RFC 6901): `/meta/trace_id`. Two additions: a step `*` stands for any element of
/// an array (`/items/*/sent_at`), where in an object it is the member whose name is `*`; and the empty pointer, which
/// would name the whole body, is an error.
///
/// - **JSON, ignored**: an ignored member of an object is left out with its name, so that absent and present are the
///   same. An ignored element of an array keeps its place: what it holds does not count, that it is there does. `[1, 2]`
///   and `[1]` differ even when `/*` is ignored.
/// - **JSON, selected**: what is selected counts together with its path, and nothing else does. The same value under
///   another selected path is another request. A body in which nothing selected is present has a fingerprint too; it is
///   the same for all such bodies.
/// - **Forms**: `/name` names the decoded pairs of that name. Pointers with more steps name nothing.
/// - **Multipart**: `/name` names the parts of that name (the `name` parameter of `Content-Disposition`).
/// - **Anything else**, and whatever cannot be read as what its media type says: pointers have no effect, all bytes
///   count.
///
/// # Example
///
/// ```
/// use idem_core::Profile;
///
/// let profile = Profile::builder().ignore(["/client_timestamp", "/items/*/sent_at"]).build()?;
/// let reordered = Profile::builder().ignore(["/items/*/sent_at", "/client_timestamp"]).build()?;
///
/// assert_eq!(profile.id(), reordered.id());
/// assert_ne!(profile.id(), Profile::default().id());
/// # Ok::<(), idem_core::ProfileError>(())
/// ```
#[derive(Clone)]
pub struct Profile {
    settings: Arc<Settings>,
}

struct Settings {
    id: ProfileId,
    members: Members,
    key: Option<HmacKey>,
    /// Has taken in what every digest under this profile starts with.
    started: Hasher,
}

/// Why a profile cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A member pointer is malformed.
    #[error("member pointer {pointer:?} is malformed: {rule}")]
    Pointer {
        /// The pointer as it was given.
        pointer: String,
        /// The rule that it breaks.
        rule: PointerRule,
    },
    /// Members are both ignored and selected.
    #[error("members are both ignored and selected: keep either `ignore` or `only`")]
    IgnoreAndOnly,
    /// A selection without members would make all bodies equal.
    #[error(
        "`only` selects no member, so every body would be the same request: name at least one, or leave `only` out"
    )]
    NothingSelected,
    /// The name of the HMAC key is not 1 to 64 characters of visible ASCII.
    #[error("HMAC key id {key_id:?} is not 1 to 64 characters of visible ASCII: name the key, for example \"2026-10\"")]
    KeyId {
        /// The key id as it was given.
        key_id: String,
    },
    /// The HMAC secret is too short to withstand guessing.
    #[error("the HMAC secret has {length} bytes, fewer than 16: use 32 random bytes")]
    ShortSecret {
        /// The length of the secret, in bytes.
        length: usize,
    },
}

impl Profile {
    /// Starts from the default profile.
    #[must_use]
    pub fn builder() -> ProfileBuilder {
        ProfileBuilder::default()
    }

    /// The name of this configuration: the first 64 bits of a SHA-256 over algorithm version, members and HMAC key id.
    ///
    /// The order of pointers and repetitions do not matter. The HMAC secret is not part of it, so **a new secret needs
    /// a new key id**.
    #[must_use]
    pub fn id(&self) -> ProfileId {
        self.settings.id
    }

    fn new(members: Members, key: Option<HmacKey>) -> Self {
        let id = profile_id(&members, key.as_ref());
        let mut started = Hasher::new(key.as_ref());
        started.update(REQUEST_DOMAIN);
        started.update(&id.to_bits().to_be_bytes());
        Self { settings: Arc::new(Settings { id, members, key, started }) }
    }

    /// Hashes a request whose surroundings are encoded already.
    pub(super) fn fingerprint(&self, head: &[u8], kind: &BodyKind, body: &[u8]) -> Fingerprint {
        let canonical = kind.canonical(body, &self.settings.members);
        let (tag, content) = match &canonical {
            Some(canonical) => (kind.tag(), canonical.as_slice()),
            None => (BodyKind::Raw.tag(), body),
        };

        let mut frame = Vec::with_capacity(32 + head.len());
        put_bytes(&mut frame, head);
        frame.push(tag);
        put_length(&mut frame, content.len());

        let mut hasher = self.settings.started.clone();
        hasher.update(&frame);
        hasher.update(content);
        Fingerprint::from_parts(self.settings.id, hasher.finish())
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::new(Members::All, None)
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = |pointers: &[Pointer]| pointers.iter().map(|pointer| pointer.text().to_owned()).collect::<Vec<_>>();
        let mut out = f.debug_struct("Profile");
        out.field("id", &self.settings.id);
        match &self.settings.members {
            Members::All => {}
            Members::AllBut(ignored) => {
                out.field("ignore", &texts(ignored));
            }
            Members::Only(selected) => {
                out.field("only", &texts(selected));
            }
        }
        if let Some(key) = &self.settings.key {
            out.field("hmac", &key.id());
        }
        out.finish()
    }
}

fn profile_id(members: &Members, key: Option<&HmacKey>) -> ProfileId {
    let mut configuration = PROFILE_DOMAIN.to_vec();
    put_length(&mut configuration, ALGORITHM);
    configuration.push(match members {
        Members::All => b'*',
        Members::AllBut(_) => b'-',
        Members::Only(_) => b'+',
    });
    put_length(&mut configuration, members.pointers().len());
    for pointer in members.pointers() {
        put_bytes(&mut configuration, pointer.text().as_bytes());
    }
    put_optional(&mut configuration, key.map(|key| key.id().as_bytes()));

    let digest = Sha256::digest(&configuration);
    let (first, _) = digest.split_first_chunk().expect("a SHA-256 digest has 32 bytes");
    ProfileId::from_bits(u64::from_be_bytes(*first))
}

/// Collects the configuration of a [`Profile`] and checks it as a whole.
#[derive(Clone, Default)]
pub struct ProfileBuilder {
    ignored: Option<Vec<String>>,
    selected: Option<Vec<String>>,
    key: Option<(String, Vec<u8>)>,
}

impl ProfileBuilder {
    /// Leaves these members out: client clocks, trace ids, whatever changes between two attempts at one thing.
    ///
    /// Called again, it adds to what was named before.
    #[must_use]
    pub fn ignore<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.ignored.get_or_insert_default().extend(pointers.into_iter().map(Into::into));
        self
    }

    /// Looks at these members and at no others.
    ///
    /// Called again, it adds to what was named before. Everything that is not named can change unnoticed: prefer
    /// [`ignore`](Self::ignore) where the body may grow members that matter.
    #[must_use]
    pub fn only<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.selected.get_or_insert_default().extend(pointers.into_iter().map(Into::into));
        self
    }

    /// Hashes with HMAC-SHA-256, for bodies with so few possible values that a plain hash could be guessed back.
    ///
    /// The key id is part of the profile id and may be seen; the secret appears nowhere. A new secret needs a new key
    /// id.
    #[must_use]
    pub fn hmac(mut self, key_id: impl Into<String>, secret: impl AsRef<[u8]>) -> Self {
        self.key = Some((key_id.into(), secret.as_ref().to_vec()));
        self
    }

    /// Checks the configuration and makes the profile.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] says what is wrong and what to do about it.
    pub fn build(self) -> Result<Profile, ProfileError> {
        let members = match (self.ignored, self.selected) {
            (Some(_), Some(_)) => return Err(ProfileError::IgnoreAndOnly),
            (None, None) => Members::All,
            (Some(ignored), None) if ignored.is_empty() => Members::All,
            (Some(ignored), None) => Members::AllBut(parse_pointers(ignored)?),
            (None, Some(selected)) if selected.is_empty() => return Err(ProfileError::NothingSelected),
            (None, Some(selected)) => Members::Only(parse_pointers(selected)?),
        };
        let key = self.key.map(|(id, secret)| HmacKey::new(id, &secret)).transpose()?;
        Ok(Profile::new(members, key))
    }
}

impl fmt::Debug for ProfileBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileBuilder")
            .field("ignore", &self.ignored)
            .field("only", &self.selected)
            .field("hmac", &self.key.as_ref().map(|(id, _)| id))
            .finish()
    }
}

/// Sorted and without repetitions, so that the same set of members is the same profile.
fn parse_pointers(texts: Vec<String>) -> Result<Vec<Pointer>, ProfileError> {
    let mut pointers = texts
        .into_iter()
        .map(|pointer| Pointer::parse(&pointer).map_err(|rule| ProfileError::Pointer { pointer, rule }))
        .collect::<Result<Vec<_>, _>>()?;
    pointers.sort();
    pointers.dedup();
    Ok(pointers)
}
