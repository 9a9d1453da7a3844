//! What a failed case has to say about the contract.

use core::fmt;

/// One of the ten promises of [`KeyStore`](idem_core::KeyStore), by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Promise(u8);

impl Promise {
    /// All ten, in their order.
    pub const ALL: [Self; 10] =
        [Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7), Self(8), Self(9), Self(10)];

    pub(crate) const fn new(number: u8) -> Self {
        assert!(number >= 1 && number <= 10, "there are ten promises");
        Self(number)
    }

    /// The number, 1 to 10.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// What is promised, in one sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self.0 {
            1 => "insert is one atomic step that writes a durable record where none is alive, under this key only",
            2 => "whoever loses a race is told what is there now",
            3 => "replace acts only while its guard holds, in one atomic step, and never creates a record",
            4 => "only the store's own clock counts, and all times come from the same step as the record",
            5 => "bytes come back as they went in",
            6 => "tokens are compared verbatim, and an insert that is repeated finds its own token",
            7 => "a record that cannot be decoded is an answer of its own",
            8 => "every wait is bounded, and a missing server is an error of kind Unavailable",
            9 => "every method answers through every handle and every wrapper",
            _ => "records carry a format version",
        }
    }

    /// What happens to the application's users where the promise is broken.
    #[must_use]
    pub const fn harm(self) -> &'static str {
        match self.0 {
            1 => "two handlers run for one payment, or a key that is over blocks a new request",
            2 => "the loser runs without protection, or gives a wrong answer",
            3 => "a late attempt reopens or erases a completed record, and the payment runs again",
            4 => "a live lease ends early and a second handler starts, or a key is forgotten within its retention",
            5 => "a retry gets another answer than the first request",
            6 => "an attempt is locked out by its own claim, or writes over a claim that is not its own",
            7 => "after an upgrade or a damaged disk, everything runs again",
            8 => "requests pile up behind a store that does not answer",
            9 => "a wrapper guarantees less than the store that it wraps",
            _ => "during a rolling deploy, one version takes the other's records for garbage, or for nothing",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promise {}", self.0)
    }
}
