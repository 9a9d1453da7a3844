//! From the source of a document to the spelling that all its spellings share.
//!
//! | value | canonical spelling |
//! |---|---|
//! | `null`, `true`, `false` | `n`, `t`, `f` |
//! | number | `#`, the exact decimal, `;` |
//! | string | `"`, the bytes without escapes, 0xFF |
//! | array | `[`, the elements, `]`; an ignored element is `_` |
//! | array of which elements are selected | `(`, for each selected one `@`, its index and the element, `)` |
//! | object | `{`, for each member its name as a string and the value, `}`; sorted by the bytes of the name |
//!
//! Each value says by its first byte what it is and by itself where it ends, so two documents that differ never share
//! a spelling.

use super::super::encode::put_length;
use super::super::members::Members;
use super::arrange::{Arrangement, Mark, Segment};
use super::member::{Member, order};
use super::scope::{Pointers, Scope};
use super::{number, string};

/// Arrays and objects inside one another, the outermost included.
const MAX_DEPTH: usize = 128;

/// Gives the canonical spelling of what counts in a JSON document.
///
/// `None` if the body is not a JSON document of RFC 8259 in UTF-8, or is one that readers disagree about: with a name
/// twice in one object, with a lone surrogate, nested deeper than 128. Parts that do not count are held to the same.
///
/// Cost: O(n log n) time. Memory: half as much again as the body for what is in order already; a bounded multiple of it
/// at worst, which is a body of small objects, each out of order.
pub(in super::super) fn canonical(body: &[u8], members: &Members) -> Option<Vec<u8>> {
    // The end mark of strings relies on it, and so does the order of names.
    str::from_utf8(body).ok()?;
    let mut transcriber = Transcriber {
        source: body,
        at: 0,
        // Numbers of one digit, the worst case, grow by half.
        out: Vec::with_capacity(body.len() + body.len() / 2 + 16),
        open_members: Vec::with_capacity(16),
        arrangement: Arrangement::new(),
        pointers: Pointers::new(members),
    };
    transcriber.document()?;
    Some(transcriber.arrangement.apply(transcriber.out))
}

struct Transcriber<'a> {
    source: &'a [u8],
    at: usize,
    /// The canonical spelling with members in the order of the source.
    out: Vec<u8>,
    /// The members of all objects that are open, the innermost last.
    open_members: Vec<Member>,
    arrangement: Arrangement,
    pointers: Pointers<'a>,
}

/// Whether anything of a value counts.
type Kept = bool;

impl Transcriber<'_> {
    fn document(&mut self) -> Option<()> {
        self.skip_whitespace();
        let root = self.pointers.root();
        let kept = self.value(0, root)?;
        if !kept {
            self.out.clear();
            self.arrangement.clear();
        }
        self.skip_whitespace();
        (self.at == self.source.len()).then_some(())
    }

    /// Inlined into its callers, so that a scalar costs no call: objects and arrays are calls of their own.
    #[inline(always)]
    fn value(&mut self, depth: usize, scope: Scope) -> Option<Kept> {
        match self.source.get(self.at)? {
            b'"' => self.string()?,
            b'{' if depth < MAX_DEPTH => return self.object(depth, scope),
            b'[' if depth < MAX_DEPTH => return self.array(depth, scope),
            b'-' | b'0'..=b'9' => {
                self.out.push(b'#');
                self.at += number::transcribe(&self.source[self.at..], &mut self.out)?;
            }
            b'n' => self.literal(b"null")?,
            b't' => self.literal(b"true")?,
            b'f' => self.literal(b"false")?,
            _ => return None,
        }
        Some(self.keeps_itself(scope))
    }

    /// Whether a value counts of which no part was asked for by itself.
    fn keeps_itself(&self, scope: Scope) -> Kept {
        !matches!(scope, Scope::Partly { .. }) || self.pointers.keeps_the_way()
    }

    #[inline(never)]
    fn object(&mut self, depth: usize, scope: Scope) -> Option<Kept> {
        let brace = self.out.len();
        let first = self.open_members.len();
        let objects = self.arrangement.objects();
        let mut kept = self.keeps_itself(scope);
        let mut in_place = true;
        self.out.push(b'{');
        self.at += 1;
        self.skip_whitespace();
        if !self.next_is(b'}') {
            loop {
                let start = self.out.len();
                if self.source.get(self.at) != Some(&b'"') {
                    return None;
                }
                self.string()?;
                let name_end = self.out.len() - 1;
                let objects = self.arrangement.objects();
                let mut member = Member::new(&self.out, start..name_end, objects);
                in_place &= self.follows_last_member(first, &member);
                self.skip_whitespace();
                if !self.next_is(b':') {
                    return None;
                }
                self.skip_whitespace();

                let value_kept = match scope {
                    Scope::Whole | Scope::LeftOut => self.value(depth + 1, scope)?,
                    Scope::Partly { from, to } => {
                        let name = &self.out[start + 1..name_end];
                        let scope = self.pointers.member(depth, (from, to), name);
                        let value_kept = self.part(depth + 1, scope)?;
                        kept |= value_kept;
                        in_place &= value_kept;
                        value_kept
                    }
                };
                if value_kept {
                    member.end = self.out.len();
                    member.objects.end = self.arrangement.objects();
                }
                self.open_members.push(member);

                self.skip_whitespace();
                if self.next_is(b'}') {
                    break;
                }
                if !self.next_is(b',') {
                    return None;
                }
                self.skip_whitespace();
            }
        }
        if !in_place {
            self.sort_members(brace, first, objects)?;
        }
        self.open_members.truncate(first);
        self.out.push(b'}');
        Some(kept)
    }

    #[inline(never)]
    fn array(&mut self, depth: usize, scope: Scope) -> Option<Kept> {
        let mut kept = self.keeps_itself(scope);
        // Of an array that only some elements are selected of, the others leave no trace, so those need their index.
        let indexed = !kept;
        self.out.push(if indexed { b'(' } else { b'[' });
        self.at += 1;
        self.skip_whitespace();
        if !self.next_is(b']') {
            for index in 0.. {
                match scope {
                    Scope::Whole | Scope::LeftOut => {
                        self.value(depth + 1, scope)?;
                    }
                    Scope::Partly { from, to } => {
                        let start = self.out.len();
                        if indexed {
                            self.out.push(b'@');
                            put_length(&mut self.out, index);
                        }
                        let scope = self.pointers.element(depth, (from, to), index);
                        let element_kept = self.part(depth + 1, scope)?;
                        kept |= element_kept;
                        if !element_kept {
                            self.out.truncate(start);
                            if !indexed {
                                self.out.push(b'_');
                            }
                        }
                    }
                }
                self.skip_whitespace();
                if self.next_is(b']') {
                    break;
                }
                if !self.next_is(b',') {
                    return None;
                }
                self.skip_whitespace();
            }
        }
        self.out.push(if indexed { b')' } else { b']' });
        Some(kept)
    }

    /// Reads a value under a scope of its own, and takes back what was written if nothing of it counts.
    #[inline(never)]
    fn part(&mut self, depth: usize, scope: Scope) -> Option<Kept> {
        let mark = self.mark();
        let kept = self.value(depth, scope)? && scope != Scope::LeftOut;
        if !kept {
            self.rewind(mark);
        }
        self.pointers.leave(scope);
        Some(kept)
    }

    fn string(&mut self) -> Option<()> {
        self.out.push(b'"');
        self.at += 1;
        self.at += string::transcribe(&self.source[self.at..], &mut self.out)?;
        Some(())
    }

    fn literal(&mut self, word: &[u8]) -> Option<()> {
        if !self.source[self.at..].starts_with(word) {
            return None;
        }
        self.at += word.len();
        self.out.push(word[0]);
        Some(())
    }

    /// Whether a member's name comes after the one before it. Equal names are left for the sort to find.
    fn follows_last_member(&self, first: usize, member: &Member) -> bool {
        self.open_members[first..].last().is_none_or(|last| last.is_before(member, &self.out))
    }

    /// Sorts the members of the innermost object; `None` if two have one name.
    #[inline(never)]
    fn sort_members(&mut self, brace: usize, first: usize, objects: usize) -> Option<()> {
        let inside = self.arrangement.objects() - objects;
        let segment = |member: &Member| Segment {
            span: member.start..member.end,
            objects: member.objects.start - objects..member.objects.end - objects,
        };
        let span = brace..self.out.len();
        let members = &mut self.open_members[first..];
        if let Some(places) = order(members, &self.out)? {
            let in_order = places[..members.len()].iter().map(|place| segment(&members[usize::from(*place)]));
            self.arrangement.shuffle(span, inside, in_order);
        } else {
            self.arrangement.shuffle(span, inside, members.iter().map(segment));
        }
        Some(())
    }

    fn skip_whitespace(&mut self) {
        let mut at = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.source.get(at) {
            at += 1;
        }
        self.at = at;
    }

    /// Steps over the byte if it is next.
    fn next_is(&mut self, byte: u8) -> bool {
        let is_next = self.source.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn mark(&self) -> (usize, Mark) {
        (self.out.len(), self.arrangement.mark())
    }

    fn rewind(&mut self, (length, mark): (usize, Mark)) {
        self.out.truncate(length);
        self.arrangement.rewind(mark);
    }
}
