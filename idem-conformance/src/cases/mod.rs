//! The case list.

/// Lists the cases of one file, each a function of the same name below the list.
macro_rules! cases {
    ($promise:literal: $($name:ident $(($slow:ident))? = $about:literal;)+) => {
        pub(super) static CASES: &[$crate::Case] = &[$(
            $crate::Case::new($promise, stringify!($name), $about, cases!(@ $($slow)?), |scene| Box::pin($name(scene))),
        )+];
    };
    (@ slow) => { true };
    (@) => { false };
}

mod bounds;
mod bytes;
mod exclusion;
mod expiry;
mod format_version;
mod forwarding;
mod guards;
mod insert;
mod marks;
mod races;
mod renewal;
mod scope;
mod sweep;
mod takeover;
mod times;
mod tokens;
mod unreadable;

use std::sync::LazyLock;

use crate::Case;

static ALL: LazyLock<Vec<&'static Case>> = LazyLock::new(|| {
    let files = [
        insert::CASES,
        scope::CASES,
        expiry::CASES,
        sweep::CASES,
        races::CASES,
        guards::CASES,
        takeover::CASES,
        exclusion::CASES,
        times::CASES,
        renewal::CASES,
        bytes::CASES,
        marks::CASES,
        tokens::CASES,
        unreadable::CASES,
        bounds::CASES,
        forwarding::CASES,
        format_version::CASES,
    ];
    files.into_iter().flatten().collect()
});

/// Every case, in the order of the promises.
#[must_use]
pub fn cases() -> &'static [&'static Case] {
    &ALL
}
