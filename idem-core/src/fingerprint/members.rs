//! Which members of a body count.

use super::pointer::Pointer;

/// The members that a profile looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// Every member.
    All,
    /// Every member but these.
    AllBut(Vec<Pointer>),
    /// These members and nothing else.
    Only(Vec<Pointer>),
}

impl Members {
    /// Whether a form field or a multipart part of this name counts.
    pub(super) fn keeps_name(&self, name: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::AllBut(ignored) => !ignored.iter().any(|pointer| pointer.is_name(name)),
            Self::Only(selected) => selected.iter().any(|pointer| pointer.is_name(name)),
        }
    }

    /// Whether a part without a name counts: no pointer can name it.
    pub(super) fn keeps_nameless(&self) -> bool {
        !matches!(self, Self::Only(_))
    }

    pub(super) fn pointers(&self) -> &[Pointer] {
        match self {
            Self::All => &[],
            Self::AllBut(pointers) | Self::Only(pointers) => pointers,
        }
    }

    pub(super) fn is_only(&self) -> bool {
        matches!(self, Self::Only(_))
    }
}
