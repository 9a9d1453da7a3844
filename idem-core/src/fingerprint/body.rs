//! What the bytes of a body are.

use super::members::Members;
use super::{form, json, media, multipart};

/// How a body is read, by its media type and its content coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// The bytes as they are.
    Raw,
    Json,
    Form,
    Multipart {
        boundary: Vec<u8>,
    },
}

impl BodyKind {
    /// A coded body stays as it is: what it holds is known only to who decodes it.
    pub(super) fn of(content_type: Option<&[u8]>, content_encoding: Option<&[u8]>) -> Self {
        let (Some(content_type), None) = (content_type, content_encoding) else {
            return Self::Raw;
        };
        let essence = media::essence(content_type);
        match essence.as_slice() {
            b"application/json" => Self::Json,
            b"application/x-www-form-urlencoded" => Self::Form,
            other if other.starts_with(b"multipart/") => match media::boundary(content_type) {
                Some(boundary) => Self::Multipart { boundary },
                None => Self::Raw,
            },
            other if other.ends_with(b"+json") && other.contains(&b'/') => Self::Json,
            _ => Self::Raw,
        }
    }

    /// Keeps apart what is written alike under different readings.
    pub(super) const fn tag(&self) -> u8 {
        match self {
            Self::Raw => b'r',
            Self::Json => b'j',
            Self::Form => b'f',
            Self::Multipart { .. } => b'm',
        }
    }

    /// The one spelling that all spellings of this content share; `None` where the bytes themselves count, because of
    /// the kind or because they are not what the kind says.
    pub(super) fn canonical(&self, body: &[u8], members: &Members) -> Option<Vec<u8>> {
        match self {
            Self::Raw => None,
            Self::Json => json::canonical(body, members),
            Self::Form => form::canonical(body, members),
            Self::Multipart { boundary } => multipart::canonical(body, boundary, members),
        }
    }
}
