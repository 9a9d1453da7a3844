//! Names of members, as a profile lists them.

/// A JSON Pointer (RFC 6901) in which `*` stands for any element of an array.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer {
    text: String,
    tokens: Vec<Token>,
}

/// One step of a pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    name: String,
    element: Element,
}

/// What a step means where the document has an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Element {
    None,
    At(usize),
    Any,
}

/// The rule that a pointer breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerRule {
    /// The empty pointer names the whole body.
    #[error("the empty pointer names the whole body; name a member, such as `/client_timestamp`")]
    Empty,
    /// A pointer starts with a slash.
    #[error("a pointer starts with `/`; write `/client_timestamp`, not `client_timestamp` or `$.client_timestamp`")]
    LeadingSlash,
    /// A tilde is followed by `0` or `1`.
    #[error("`~` is an escape; write `~0` for a tilde and `~1` for a slash inside a name")]
    TildeEscape,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Result<Self, PointerRule> {
        if text.is_empty() {
            return Err(PointerRule::Empty);
        }
        let steps = text.strip_prefix('/').ok_or(PointerRule::LeadingSlash)?;
        let tokens = steps.split('/').map(Token::parse).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// The pointer as it was written. Every pointer has one spelling only, so equal texts are equal pointers.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The number of steps.
    pub(super) fn depth(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the step at `depth` names this member of an object.
    pub(super) fn names_member(&self, depth: usize, name: &[u8]) -> bool {
        self.tokens[depth].name.as_bytes() == name
    }

    /// Whether the step at `depth` names this element of an array.
    pub(super) fn names_element(&self, depth: usize, index: usize) -> bool {
        match self.tokens[depth].element {
            Element::None => false,
            Element::At(at) => at == index,
            Element::Any => true,
        }
    }

    /// Whether the pointer is the one step `/name`: the only kind that says something about forms.
    pub(super) fn is_name(&self, name: &[u8]) -> bool {
        self.depth() == 1 && self.names_member(0, name)
    }
}

impl Token {
    fn parse(step: &str) -> Result<Self, PointerRule> {
        let mut name = String::with_capacity(step.len());
        let mut rest = step.chars();
        while let Some(next) = rest.next() {
            name.push(match next {
                '~' => match rest.next() {
                    Some('0') => '~',
                    Some('1') => '/',
                    _ => return Err(PointerRule::TildeEscape),
                },
                plain => plain,
            });
        }
        let element = Element::parse(&name);
        Ok(Self { name, element })
    }
}

impl Element {
    /// An index has no sign and no leading zero (RFC 6901, section 4); `-` names the element after the last, never one
    /// that is there.
    fn parse(name: &str) -> Self {
        match name.as_bytes() {
            b"*" => Self::Any,
            b"0" => Self::At(0),
            [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {
                name.parse().map_or(Self::None, Self::At)
            }
            _ => Self::None,
        }
    }
}
