//! The key that the client chose, and the rules of its format.

use core::fmt;

use sha2::{Digest, Sha256};

/// Longest key that any [`KeyFormat`] allows, in bytes: what every store is built to hold.
pub const LONGEST_KEY: usize = 255;

/// The idempotency key of one operation, as the client chose it: case-sensitive visible ASCII.
///
/// The raw form `8e03978e-40d5` and the structured-field string `"8e03978e-40d5"` (RFC 9651, as
/// draft-ietf-httpapi-idempotency-key-header asks for) name the same key. Quote, comma, semicolon and backslash are
/// not part of any key, which is what makes the two spellings unambiguous.
///
/// `Debug` shows a hash: the text itself stays out of logs. [`as_str`](Self::as_str) gives it to a store.
///
/// ```
/// use idem_core::IdempotencyKey;
///
/// let raw = IdempotencyKey::parse("8e03978e-40d5-43dd-bc93-6894a57f9324")?;
/// let structured = IdempotencyKey::parse("\"8e03978e-40d5-43dd-bc93-6894a57f9324\"")?;
/// assert_eq!(raw, structured);
/// # Ok::<(), idem_core::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    /// Reads one key in the default format, in either spelling.
    ///
    /// # Errors
    ///
    /// A [`KeyError`] names the rule that the text breaks.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, KeyError> {
        KeyFormat::default().parse(text)
    }

    /// The text of the key, without the quotes of the structured form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps text that is a key by construction: a derived UUID.
    pub(crate) fn derived(text: String) -> Self {
        Self(text.into_boxed_str())
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = Sha256::digest(self.0.as_bytes());
        write!(f, "IdempotencyKey(#{})", crate::hex(&digest[..4]))
    }
}

/// Which keys are accepted: a length and, where wanted, further rules.
///
/// The alphabet is not settable; see [`IdempotencyKey`]. The default is 8 to 128 characters and no further rule.
#[derive(Clone, Debug)]
pub struct KeyFormat {
    shortest: usize,
    longest: usize,
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    name: &'static str,
    holds: fn(&str) -> bool,
}

impl Default for KeyFormat {
    fn default() -> Self {
        Self { shortest: 8, longest: 128, rules: Vec::new() }
    }
}

impl KeyFormat {
    /// Accepts keys of `shortest` to `longest` characters.
    ///
    /// # Errors
    ///
    /// [`KeyFormatError`] where the range is empty, starts at zero, or passes [`LONGEST_KEY`].
    pub fn new(shortest: usize, longest: usize) -> Result<Self, KeyFormatError> {
        if shortest == 0 || shortest > longest || longest > LONGEST_KEY {
            return Err(KeyFormatError { shortest, longest });
        }
        Ok(Self { shortest, longest, rules: Vec::new() })
    }

    /// Accepts UUIDs of any version and nothing else: 36 characters, hyphens where RFC 9562 puts them.
    ///
    /// Upper and lower case stay different keys.
    #[must_use]
    pub fn uuid() -> Self {
        Self { shortest: 36, longest: 36, rules: vec![Rule { name: "a UUID", holds: is_uuid }] }
    }

    /// Adds one rule; `name` completes the sentence "the key must be …" in the client's answer.
    #[must_use]
    pub fn and(mut self, name: &'static str, holds: fn(&str) -> bool) -> Self {
        self.rules.push(Rule { name, holds });
        self
    }

    /// Reads one key, in either spelling. Blanks around it, as HTTP allows around any field value, are not part of it.
    ///
    /// # Errors
    ///
    /// A [`KeyError`] names the rule that the text breaks.
    pub fn parse(&self, text: impl AsRef<[u8]>) -> Result<IdempotencyKey, KeyError> {
        let field = trim_blanks(text.as_ref());
        let key = match field.strip_prefix(b"\"") {
            Some(rest) => inside_quotes(rest)?,
            None => field,
        };
        self.checked(key)
    }

    /// Reads the key from every value that the request's key header has.
    ///
    /// # Outcomes
    ///
    /// `None` where there is no such header.
    ///
    /// # Errors
    ///
    /// [`KeyError::Repeated`] where the header stands twice; otherwise as [`parse`](Self::parse).
    pub fn parse_header<'a>(
        &self,
        values: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<IdempotencyKey>, KeyError> {
        let mut values = values.into_iter();
        let Some(only) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(KeyError::Repeated);
        }
        self.parse(only).map(Some)
    }

    fn checked(&self, key: &[u8]) -> Result<IdempotencyKey, KeyError> {
        for (position, &byte) in key.iter().enumerate() {
            match byte {
                b';' => return Err(KeyError::Parameters),
                b',' => return Err(KeyError::Repeated),
                b'"' | b'\\' | 0..=b' ' | 0x7f => {
                    return Err(KeyError::ForbiddenCharacter { position, character: char::from(byte) });
                }
                0x80.. => return Err(KeyError::NotAscii { position }),
                _ => {}
            }
        }
        let length = key.len();
        if length == 0 {
            return Err(KeyError::Empty);
        }
        if length < self.shortest {
            return Err(KeyError::TooShort { length, shortest: self.shortest });
        }
        if length > self.longest {
            return Err(KeyError::TooLong { length, longest: self.longest });
        }
        let text = core::str::from_utf8(key).map_err(|error| KeyError::NotAscii { position: error.valid_up_to() })?;
        if let Some(rule) = self.rules.iter().find(|rule| !(rule.holds)(text)) {
            return Err(KeyError::Rule { rule: rule.name });
        }
        Ok(IdempotencyKey(text.into()))
    }
}

/// What stands between the quotes; nothing but the end may follow the closing one.
fn inside_quotes(rest: &[u8]) -> Result<&[u8], KeyError> {
    // A backslash would start an escape, and what can be escaped (quote and backslash) is in no key.
    let Some(close) = rest.iter().position(|&byte| byte == b'"' || byte == b'\\') else {
        return Err(KeyError::Unterminated);
    };
    if rest[close] == b'\\' {
        return Err(KeyError::ForbiddenCharacter { position: close, character: '\\' });
    }
    match trim_blanks(&rest[close + 1..]).first() {
        None => Ok(&rest[..close]),
        Some(b';') => Err(KeyError::Parameters),
        Some(b',') => Err(KeyError::Repeated),
        Some(_) => Err(KeyError::TrailingCharacters),
    }
}

fn trim_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(position, byte)| match position {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Which rule of the key format a request broke. No variant repeats the key itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The header is there, the key is not.
    #[error("the key is empty")]
    Empty,
    /// Fewer characters than the format asks for.
    #[error("the key has {length} characters; it needs at least {shortest}")]
    TooShort {
        /// Characters that came.
        length: usize,
        /// Characters that the format asks for.
        shortest: usize,
    },
    /// More characters than the format allows.
    #[error("the key has {length} characters; at most {longest} are allowed")]
    TooLong {
        /// Characters that came.
        length: usize,
        /// Characters that the format allows.
        longest: usize,
    },
    /// The header stands twice, or holds a comma-separated list.
    #[error("the key is given more than once; send one key, without a comma")]
    Repeated,
    /// Structured-field parameters follow the key.
    #[error("the key has parameters; send the key alone, without a semicolon")]
    Parameters,
    /// A byte outside ASCII.
    #[error("the key has a byte outside ASCII at position {position}")]
    NotAscii {
        /// Counted from 0.
        position: usize,
    },
    /// A blank, a control character, a quote or a backslash inside the key.
    #[error("the key has the forbidden character {character:?} at position {position}")]
    ForbiddenCharacter {
        /// Counted from 0.
        position: usize,
        /// What stands there.
        character: char,
    },
    /// An opening quote without its partner.
    #[error("the key starts with a quote that is never closed")]
    Unterminated,
    /// Something stands behind the closing quote.
    #[error("something follows the closing quote of the key")]
    TrailingCharacters,
    /// A rule of the application's own format.
    #[error("the key must be {rule}")]
    Rule {
        /// The name given to [`KeyFormat::and`].
        rule: &'static str,
    },
}

/// A range of lengths that no key can satisfy, or that stores cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key format of {shortest} to {longest} characters: it needs 1 ≤ shortest ≤ longest ≤ {LONGEST_KEY}")]
pub struct KeyFormatError {
    shortest: usize,
    longest: usize,
}
