//! What counts as the same request, asked through the public interface.

mod documents;
mod form;
mod json;
mod json_hostile;
mod json_numbers;
mod json_properties;
mod multipart;
mod profile;
mod profile_change;
mod request;
mod select;
mod vectors;

use idem_core::{Fingerprint, Fingerprinter, Profile, ProfileBuilder, RequestIdentity, RequestParts};

/// The fingerprint of a JSON document under the default profile.
fn json(document: impl AsRef<[u8]>) -> Fingerprint {
    Fingerprint::json("test", document.as_ref())
}

/// Whether a document is read as JSON: only then does white space before it leave no trace.
fn is_canonical(document: &[u8]) -> bool {
    json(document) == json([b" \n", document].concat())
}

/// The fingerprint of a POST with this body under this profile.
fn posted(profile: &Profile, content_type: &str, body: impl Into<Vec<u8>>) -> Fingerprint {
    let request = RequestParts::new("POST", "/payments", body.into()).content_type(content_type.as_bytes());
    Fingerprinter::new(profile.clone()).fingerprint(request).fingerprint()
}

/// A profile of which the test knows that it is well-formed.
fn built(builder: ProfileBuilder) -> Profile {
    builder.build().expect("the test names well-formed pointers")
}

fn ignoring<const N: usize>(pointers: [&str; N]) -> Profile {
    built(Profile::builder().ignore(pointers))
}

fn selecting<const N: usize>(pointers: [&str; N]) -> Profile {
    built(Profile::builder().only(pointers))
}
