//! Why a case stops before its end.

use core::fmt;

/// Why a case, or a harness on its behalf, stops: it is skipped, or it has failed.
///
/// Any error converts into a failure, so `?` does in a [`Harness`](crate::Harness). A skip is never implicit: it
/// takes [`Halt::skip`] and a reason, and the reason is printed under the case's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The case says nothing about this store, and why.
    Skipped(String),
    /// The case has failed, and how.
    Failed(String),
}

impl Halt {
    /// Skips the case. `reason` completes the sentence "skipped, because …".
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::Skipped(reason.into())
    }

    /// Fails the case.
    pub fn fail(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// Fails the case: something else was expected.
    pub(crate) fn broken(expected: impl fmt::Display, came: impl fmt::Debug) -> Self {
        Self::Failed(format!("expected: {expected}\ncame:     {}", clipped(&format!("{came:?}"))))
    }
}

impl<E: std::error::Error> From<E> for Halt {
    fn from(error: E) -> Self {
        let mut message = format!("expected: an answer\ncame:     an error: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Self::Failed(message)
    }
}

/// A body of 1 MiB is no reading matter.
fn clipped(text: &str) -> String {
    const LONGEST: usize = 600;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
