//! SHA-256, with a key or without.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::profile::ProfileError;

/// Fewer bytes than this can be searched.
const MIN_SECRET_BYTES: usize = 16;

/// A key id is a name for people and logs, not a place for data.
const MAX_KEY_ID_BYTES: usize = 64;

/// A named key. It holds the state that HMAC derives from the secret, not the secret.
pub(super) struct HmacKey {
    id: String,
    state: Hmac<Sha256>,
}

impl HmacKey {
    pub(super) fn new(id: String, secret: &[u8]) -> Result<Self, ProfileError> {
        if id.is_empty() || id.len() > MAX_KEY_ID_BYTES || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ProfileError::KeyId { key_id: id });
        }
        if secret.len() < MIN_SECRET_BYTES {
            return Err(ProfileError::ShortSecret { length: secret.len() });
        }
        let state = Hmac::new_from_slice(secret).expect("HMAC takes a key of any length");
        Ok(Self { id, state })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// A digest on its way.
#[derive(Clone)]
pub(super) enum Hasher {
    Plain(Sha256),
    Keyed(Hmac<Sha256>),
}

impl Hasher {
    pub(super) fn new(key: Option<&HmacKey>) -> Self {
        match key {
            None => Self::Plain(Sha256::new()),
            Some(key) => Self::Keyed(key.state.clone()),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(hasher) => Digest::update(hasher, bytes),
            Self::Keyed(hasher) => Mac::update(hasher, bytes),
        }
    }

    pub(super) fn finish(self) -> [u8; 32] {
        match self {
            Self::Plain(hasher) => hasher.finalize().into(),
            Self::Keyed(hasher) => hasher.finalize().into_bytes().into(),
        }
    }
}
