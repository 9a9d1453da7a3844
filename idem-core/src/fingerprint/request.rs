//! A request that knows its fingerprint.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::body::BodyKind;
use super::encode::{put_bytes, put_optional};
use super::media;
use super::profile::Profile;
use super::{Comparison, Fingerprint, ProfileId, RequestIdentity};

/// What a fingerprint is made of, as it came over the wire.
///
/// The method is taken as it is. Path and query are taken as they are too, neither decoded nor sorted; a query that is
/// absent (`/payments`) and one that is empty (`/payments?`) differ. Where a header came several times, join the values
/// with a comma first.
#[derive(Clone, Debug)]
pub struct RequestParts<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    content_type: Option<&'a [u8]>,
    content_encoding: Option<&'a [u8]>,
    body: Bytes,
}

impl<'a> RequestParts<'a> {
    /// Starts with what every request has. Without a content type, the bytes of the body count as they are.
    pub fn new(method: &'a str, path: &'a str, body: impl Into<Bytes>) -> Self {
        Self { method, path, query: None, content_type: None, content_encoding: None, body: body.into() }
    }

    /// Adds the query string, without its question mark.
    #[must_use]
    pub fn query(mut self, query: impl Into<Option<&'a str>>) -> Self {
        self.query = query.into();
        self
    }

    /// Adds the value of `Content-Type`. Its parameters do not count.
    #[must_use]
    pub fn content_type(mut self, value: impl Into<Option<&'a [u8]>>) -> Self {
        self.content_type = value.into();
        self
    }

    /// Adds the value of `Content-Encoding`. A body that is coded is not decoded: its coded bytes count.
    #[must_use]
    pub fn content_encoding(mut self, value: impl Into<Option<&'a [u8]>>) -> Self {
        self.content_encoding = value.into();
        self
    }
}

/// Makes fingerprints under one profile, and still compares under earlier ones.
///
/// Cheap to clone.
///
/// A record carries the profile that it was written under. After the profile has changed, keep the one before as
/// [`previous`](Self::previous) for one retention, and retries of requests from before the change still compare; without
/// it they are [`Comparison::UnknownProfile`].
///
/// # Example
///
/// ```
/// use idem_core::{Comparison, Fingerprinter, Profile, RequestIdentity, RequestParts};
///
/// let request = |body: &'static str| {
///     RequestParts::new("POST", "/payments", body).content_type(b"application/json".as_slice())
/// };
///
/// let before = Fingerprinter::new(Profile::default());
/// let recorded = before.fingerprint(request(r#"{"amount": 12.50, "sent_at": 1}"#)).fingerprint();
///
/// let now = Fingerprinter::new(Profile::builder().ignore(["/sent_at"]).build()?).previous([Profile::default()]);
/// let retry = now.fingerprint(request(r#"{"sent_at":1,"amount":12.5}"#));
///
/// assert_eq!(retry.compare(&recorded), Comparison::Same);
/// # Ok::<(), idem_core::ProfileError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fingerprinter {
    current: Profile,
    previous: Arc<[Profile]>,
}

impl Fingerprinter {
    /// Makes fingerprints under this profile.
    #[must_use]
    pub fn new(current: Profile) -> Self {
        Self { current, previous: Arc::default() }
    }

    /// Also compares under these profiles, which new records no longer get.
    ///
    /// Called again, it adds to what was named before.
    #[must_use]
    pub fn previous(mut self, profiles: impl IntoIterator<Item = Profile>) -> Self {
        self.previous = self.previous.iter().cloned().chain(profiles).collect();
        self
    }

    /// The profile that new records get.
    #[must_use]
    pub fn current(&self) -> &Profile {
        &self.current
    }

    /// Computes the fingerprint of a request, now and for good.
    ///
    /// Under the previous profiles nothing is computed before a record names one.
    #[must_use]
    pub fn fingerprint(&self, request: RequestParts<'_>) -> RequestFingerprint {
        let coding = media::coding(request.content_encoding);
        let source = Source {
            head: request_head(&request, coding.as_deref()),
            kind: BodyKind::of(request.content_type, coding.as_deref()),
            body: request.body,
        };
        let fingerprint = source.under(&self.current);
        let earlier = (!self.previous.is_empty()).then(|| Earlier { profiles: Arc::clone(&self.previous), source });
        RequestFingerprint { fingerprint, earlier }
    }
}

/// The fingerprint of one request, able to compare under previous profiles.
///
/// It owns what it needs and can move into a task of its own. It holds on to the body only where there are previous
/// profiles. Nothing that a handler does to the request afterwards changes it.
#[derive(Clone)]
pub struct RequestFingerprint {
    fingerprint: Fingerprint,
    earlier: Option<Earlier>,
}

#[derive(Clone)]
struct Earlier {
    profiles: Arc<[Profile]>,
    source: Source,
}

impl RequestFingerprint {
    /// The fingerprint under the profile of this id, if it is configured.
    fn under(&self, profile: ProfileId) -> Option<Fingerprint> {
        if self.fingerprint.profile() == profile {
            return Some(self.fingerprint);
        }
        let earlier = self.earlier.as_ref()?;
        let profile = earlier.profiles.iter().find(|configured| configured.id() == profile)?;
        Some(earlier.source.under(profile))
    }
}

impl RequestIdentity for RequestFingerprint {
    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn compare(&self, recorded: &Fingerprint) -> Comparison {
        match self.under(recorded.profile()) {
            Some(own) => own.compare(recorded),
            None => Comparison::UnknownProfile,
        }
    }
}

impl fmt::Debug for RequestFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profiles = self.earlier.iter().flat_map(|earlier| earlier.profiles.iter());
        f.debug_struct("RequestFingerprint")
            .field("fingerprint", &self.fingerprint)
            .field("previous", &profiles.map(Profile::id).collect::<Vec<_>>())
            .finish()
    }
}

/// What a profile turns into a fingerprint.
#[derive(Clone)]
struct Source {
    /// Everything around the body. No profile changes it, so it is encoded once.
    head: Vec<u8>,
    kind: BodyKind,
    body: Bytes,
}

impl Source {
    fn under(&self, profile: &Profile) -> Fingerprint {
        profile.fingerprint(&self.head, &self.kind, &self.body)
    }
}

fn request_head(request: &RequestParts<'_>, coding: Option<&[u8]>) -> Vec<u8> {
    let query = request.query.map(str::as_bytes);
    let media_type = request.content_type.map(media::essence);
    let lengths = [request.path.len(), query.map_or(0, <[u8]>::len), media_type.as_ref().map_or(0, Vec::len)];
    let mut head = Vec::with_capacity(64 + lengths.iter().sum::<usize>());
    head.push(b'R');
    put_bytes(&mut head, request.method.as_bytes());
    put_bytes(&mut head, request.path.as_bytes());
    put_optional(&mut head, query);
    put_optional(&mut head, media_type.as_deref());
    put_optional(&mut head, coding);
    head
}
