//! A member of an object, found and ordered by its name.

use core::cmp::Ordering;
use core::ops::Range;

/// Where a member stands in the transcript: the tag of its name, the end mark of its name, the end of its value. A
/// member that does not count ends where it starts; its name stays for finding duplicates.
pub(super) struct Member {
    /// The first bytes of the name as one number: most names differ there, and comparing it costs no look at the bytes.
    prefix: u64,
    pub(super) start: usize,
    name_end: usize,
    pub(super) end: usize,
    /// Which of the shuffled objects of the document are inside the value.
    pub(super) objects: Range<usize>,
}

impl Member {
    /// A member whose name, tag included, stands here, and whose value is not read yet.
    #[inline]
    pub(super) fn new(transcript: &[u8], name: Range<usize>, objects: usize) -> Self {
        let prefix = prefix(transcript, name.start + 1..name.end);
        Self { prefix, start: name.start, name_end: name.end, end: name.start, objects: objects..objects }
    }

    #[inline]
    pub(super) fn is_before(&self, other: &Self, transcript: &[u8]) -> bool {
        self.cmp_names(other, transcript) == Ordering::Less
    }

    fn name<'t>(&self, transcript: &'t [u8]) -> &'t [u8] {
        &transcript[self.start + 1..self.name_end]
    }

    #[inline]
    fn cmp_names(&self, other: &Self, transcript: &[u8]) -> Ordering {
        if self.prefix == other.prefix {
            return self.cmp_whole_names(other, transcript);
        }
        self.prefix.cmp(&other.prefix)
    }

    #[inline(never)]
    fn cmp_whole_names(&self, other: &Self, transcript: &[u8]) -> Ordering {
        self.name(transcript).cmp(other.name(transcript))
    }
}

/// The first eight bytes of a name, zeros for what is missing. Numbers that differ are in the order of their names.
fn prefix(transcript: &[u8], name: Range<usize>) -> u64 {
    if let Some(first) = transcript[name.clone()].first_chunk() {
        return u64::from_be_bytes(*first);
    }
    // The last bytes of the transcript end with the name: what stands before it is shifted out.
    let missing = 8 * (8 - name.len());
    let last = transcript[..name.end].last_chunk().map_or_else(
        || transcript[name].iter().fold(0, |prefix, byte| prefix << 8 | u64::from(*byte)),
        |last| u64::from_be_bytes(*last),
    );
    if missing == 64 { 0 } else { last << missing }
}

/// Sorts members by their names; `None` if two have one name.
///
/// Gives the places of the members in order, or `Some(None)` after putting the members themselves in order.
pub(super) fn order(members: &mut [Member], transcript: &[u8]) -> Option<Option<[u8; FEW_MEMBERS]>> {
    if members.len() <= FEW_MEMBERS {
        return order_few(members, transcript).map(Some);
    }
    members.sort_unstable_by(|a, b| a.cmp_names(b, transcript));
    members.windows(2).all(|pair| pair[0].is_before(&pair[1], transcript)).then_some(None)
}

/// Up to this many members are sorted by their places, without moving them.
const FEW_MEMBERS: usize = 16;

/// Gives the places of a few members in the order of their names; `None` if two have one name.
fn order_few(members: &[Member], transcript: &[u8]) -> Option<[u8; FEW_MEMBERS]> {
    let mut order = [0; FEW_MEMBERS];
    for (place, member) in (0..).zip(members) {
        let mut at = usize::from(place);
        while at > 0 {
            match members[usize::from(order[at - 1])].cmp_names(member, transcript) {
                Ordering::Less => break,
                Ordering::Equal => return None,
                Ordering::Greater => order[at] = order[at - 1],
            }
            at -= 1;
        }
        order[at] = place;
    }
    Some(order)
}
