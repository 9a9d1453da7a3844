use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;

/// Random numbers that can be had again (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from `IDEM_TEST_SEED` where it is set, otherwise anywhere, and prints where, for the next run.
    #[must_use]
    pub fn seeded() -> Self {
        let seed = match std::env::var("IDEM_TEST_SEED") {
            Ok(seed) => seed.parse().expect("IDEM_TEST_SEED is a number of 64 bits"),
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        eprintln!("IDEM_TEST_SEED={seed}");
        Self(seed)
    }

    /// Another source, for somebody else: what the two draw does not depend on who draws first.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number of the range.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
