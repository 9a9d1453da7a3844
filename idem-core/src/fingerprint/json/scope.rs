//! Which values count, decided on the way down.

use super::super::members::Members;

/// What the pointers say about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of it counts.
    Whole,
    /// None of it counts.
    LeftOut,
    /// Some pointers lead into it: those at these places of the list of open pointers.
    Partly { from: usize, to: usize },
}

/// The pointers that are still open at each level of the document.
///
/// All pointers that are open for a value have matched the whole way to it, so the depth of the value is the step that
/// each of them looks at next.
pub(super) struct Pointers<'a> {
    members: &'a Members,
    open: Vec<usize>,
}

impl<'a> Pointers<'a> {
    pub(super) fn new(members: &'a Members) -> Self {
        Self { members, open: (0..members.pointers().len()).collect() }
    }

    /// What they say about the whole document.
    pub(super) fn root(&self) -> Scope {
        match self.members {
            Members::All => Scope::Whole,
            Members::AllBut(_) | Members::Only(_) => Scope::Partly { from: 0, to: self.open.len() },
        }
    }

    /// Whether a value that pointers lead into, but that is none of their targets, counts as it stands.
    pub(super) fn keeps_the_way(&self) -> bool {
        !self.members.is_only()
    }

    /// What the pointers that are open for an object at `depth` say about a member.
    pub(super) fn member(&mut self, depth: usize, object: (usize, usize), name: &[u8]) -> Scope {
        let members = self.members;
        self.step(depth, object, |pointer| members.pointers()[pointer].names_member(depth, name))
    }

    /// What the pointers that are open for an array at `depth` say about an element.
    pub(super) fn element(&mut self, depth: usize, array: (usize, usize), index: usize) -> Scope {
        let members = self.members;
        self.step(depth, array, |pointer| members.pointers()[pointer].names_element(depth, index))
    }

    /// Forgets what was open inside a value that has been read.
    pub(super) fn leave(&mut self, scope: Scope) {
        if let Scope::Partly { from, .. } = scope {
            self.open.truncate(from);
        }
    }

    fn step(&mut self, depth: usize, (from, to): (usize, usize), names: impl Fn(usize) -> bool) -> Scope {
        let start = self.open.len();
        for place in from..to {
            let pointer = self.open[place];
            if !names(pointer) {
                continue;
            }
            if self.members.pointers()[pointer].depth() == depth + 1 {
                self.open.truncate(start);
                return if self.members.is_only() { Scope::Whole } else { Scope::LeftOut };
            }
            self.open.push(pointer);
        }
        match (self.open.len() == start, self.members.is_only()) {
            (false, _) => Scope::Partly { from: start, to: self.open.len() },
            (true, false) => Scope::Whole,
            (true, true) => Scope::LeftOut,
        }
    }
}
