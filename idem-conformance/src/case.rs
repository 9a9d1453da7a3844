//! One named test of one promise.

use core::fmt;
use core::pin::Pin;

use crate::Promise;
use crate::scene::{Scene, Verdict};

/// One situation, and what a store promises in it.
pub struct Case {
    promise: Promise,
    name: &'static str,
    about: &'static str,
    slow: bool,
    body: Body,
}

pub(crate) type Body = for<'a> fn(&'a Scene) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

impl Case {
    pub(crate) const fn new(promise: u8, name: &'static str, about: &'static str, slow: bool, body: Body) -> Self {
        Self { promise: Promise::new(promise), name, about, slow, body }
    }

    /// Situation and promise, such as `a_lost_race_sees_the_winner`. No two cases share a name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The promise that it tests.
    #[must_use]
    pub const fn promise(&self) -> Promise {
        self.promise
    }

    /// The situation and what is expected, in one sentence.
    #[must_use]
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// Whether it waits for time to pass.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        self.slow
    }

    /// The name of its test: promise and name, and `slow` where it waits. A filter picks by any part of it.
    #[must_use]
    pub fn path(&self) -> String {
        let slow = if self.slow { "slow::" } else { "" };
        format!("promise_{:02}::{slow}{}", self.promise.number(), self.name)
    }

    pub(crate) async fn play(&self, scene: &Scene) -> Verdict {
        (self.body)(scene).await
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}
