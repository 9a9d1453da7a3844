//! The numbers that tell attempts and writes apart.

use core::fmt;
use std::sync::Arc;

/// Names one attempt: 128 random bits, unique per attempt, also within one process.
///
/// Whoever holds the token of a claim may settle it, so it is compared verbatim and `Debug` shows only its start.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 16]);

impl Token {
    /// Takes the bytes as a store has kept them.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Gives the bytes for a store to keep.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}…)", crate::hex(&self.0[..4]))
    }
}

/// Counts the claims of a key while a record remembers it: 1, 2, 3, …
///
/// It is the fencing token for what the handler writes elsewhere: a resource that keeps the highest epoch it has
/// seen can refuse a late attempt. It starts anew at 1 once the record is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(u64);

impl Epoch {
    /// The first claim of a key.
    pub const FIRST: Self = Self(1);

    /// The epoch of a run that no record protects; see [`StoreDown::RunUnprotected`](crate::StoreDown).
    pub const UNPROTECTED: Self = Self(0);

    /// Takes the number as a store has kept it.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Gives the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The epoch of the next claim.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.0)
    }
}

/// Names one version of a record; every successful write gives the record another one.
///
/// A store never gives one key the same revision twice, also not after the record was removed and inserted anew:
/// a takeover that was decided on the old record must not fit the new one. A sequence of the store, or 64 random
/// bits, does it; a counter inside the record does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Takes the number as the store has made it.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Gives the number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Where the driver takes the tokens of its attempts from.
///
/// # Contract
///
/// 128 bits from a generator fit for cryptography, never the same twice. Two attempts with one token are one attempt
/// to every store, and both would run.
pub trait TokenSource: Send + Sync {
    /// Draws one token.
    ///
    /// # Errors
    ///
    /// Where there is no randomness to be had, the request fails before anything is written.
    fn draw(&self) -> Result<Token, TokenError>;
}

/// There are no random bytes to be had.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no random bytes for the token of an attempt")]
pub struct TokenError(#[source] Arc<dyn std::error::Error + Send + Sync>);

impl TokenError {
    /// Keeps what the generator says.
    pub fn new(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }
}

/// The operating system's generator, read 64 tokens at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsTokens;

/// One system call for this many tokens: the call costs far more than the bytes.
const BUFFERED_TOKENS: usize = 64;

struct Buffer {
    bytes: [u8; 16 * BUFFERED_TOKENS],
    used: usize,
    process: u32,
}

thread_local! {
    static BUFFER: core::cell::RefCell<Buffer> =
        const { core::cell::RefCell::new(Buffer { bytes: [0; 16 * BUFFERED_TOKENS], used: BUFFERED_TOKENS, process: 0 }) };
}

impl TokenSource for OsTokens {
    fn draw(&self) -> Result<Token, TokenError> {
        BUFFER.with_borrow_mut(|buffer| {
            // A forked child inherits the buffer; were it to draw from it, parent and child would hold one token.
            let process = std::process::id();
            if buffer.used == BUFFERED_TOKENS || buffer.process != process {
                getrandom::fill(&mut buffer.bytes).map_err(TokenError::new)?;
                buffer.used = 0;
                buffer.process = process;
            }
            let mut token = [0; 16];
            token.copy_from_slice(&buffer.bytes[16 * buffer.used..][..16]);
            buffer.used += 1;
            Ok(Token(token))
        })
    }
}
