//! What cases assert about a record that was found.

use core::fmt::{Debug, Display};
use core::time::Duration;

use idem_core::{Content, Found, NewRecord, Record, Revision};

use crate::Halt;
use crate::scene::{GRAIN, Verdict, Watch};

pub(crate) fn ensure(holds: bool, expected: impl Display, came: impl Debug) -> Verdict {
    if holds { Ok(()) } else { Err(Halt::broken(expected, came)) }
}

pub(crate) fn record(found: &Found) -> Result<&Record, Halt> {
    match &found.content {
        Content::Readable(record) => Ok(record),
        Content::Unreadable(_) => Err(Halt::broken("a record that can be read", found)),
    }
}

/// The record is the one that was written, whole.
pub(crate) fn is_written(found: &Found, written: &NewRecord) -> Verdict {
    let (came, expected) = (record(found)?, written.record());
    ensure(came == expected, format_args!("the record as it was written, {}", brief(expected)), came)
}

pub(crate) fn is_version(found: &Found, revision: Revision) -> Verdict {
    ensure(found.revision == revision, format_args!("the version that the write has named, {revision:?}"), found)
}

/// The times of a claim that was written when `watch` was started.
pub(crate) fn has_times_of_claim(found: &Found, claim: &NewRecord, watch: &Watch<'_>) -> Verdict {
    has_passed("age", found.age, watch, found)?;
    counts_down("lease_left", found.lease_left, claim.lease(), watch, found)?;
    counts_down("retention_left", found.retention_left, claim.retention(), watch, found)?;
    adds_up("lease_left", found.lease_left, claim.lease(), found)?;
    adds_up("retention_left", found.retention_left, claim.retention(), found)
}

/// The times of a record that was settled early, over a claim that was written when `watch` was started.
pub(crate) fn has_times_of_settled(found: &Found, settled: &NewRecord, watch: &Watch<'_>) -> Verdict {
    has_passed("age", found.age, watch, found)?;
    ensure(found.lease_left.is_zero(), "a settled record has no lease: lease_left is zero", found)?;
    counts_down("retention_left", found.retention_left, settled.retention(), watch, found)?;
    adds_up("retention_left", found.retention_left, settled.retention(), found)
}

pub(crate) fn has_passed(what: &str, came: Duration, watch: &Watch<'_>, found: &Found) -> Verdict {
    let (least, most) = (watch.at_least(), watch.at_most());
    ensure(least <= came && came <= most, format_args!("{what} between {least:?} and {most:?}"), found)
}

/// Of `all`, as much is gone as has passed on the watch.
pub(crate) fn counts_down(what: &str, came: Duration, all: Duration, watch: &Watch<'_>, found: &Found) -> Verdict {
    let (least, most) = (all.saturating_sub(watch.at_most()), all.saturating_sub(watch.at_least()));
    ensure(least <= came && came <= most + GRAIN, format_args!("{what} between {least:?} and {most:?}"), found)
}

/// What is left and what has passed make the whole, to within a grain, however slow the machine is: both come from
/// one reading of one clock.
pub(crate) fn adds_up(what: &str, left: Duration, all: Duration, found: &Found) -> Verdict {
    let sum = found.age + left;
    ensure(
        left.is_zero() || sum.abs_diff(all) <= GRAIN,
        format_args!("age + {what} = {all:?}, because both count from the claim"),
        found,
    )
}

pub(crate) fn brief(record: &Record) -> String {
    let text = format!("{record:?}");
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
