use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

/// What came back, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The only line of a header; `None` where there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.get_all(name).into_iter();
        let only = lines.next()?;
        assert_eq!(lines.next(), None, "{name} stands twice: {self:?}");
        Some(only.to_str().unwrap())
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The id of the charge that it tells of.
    #[must_use]
    pub fn id(&self) -> String {
        self.json()["id"].as_str().unwrap_or_else(|| panic!("no id: {self:?}")).to_owned()
    }

    /// Whether it is the stored answer of an earlier request.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        match self.header("idempotent-replayed") {
            None => false,
            Some("true") => true,
            Some(other) => panic!("Idempotent-Replayed: {other}"),
        }
    }

    /// Holds it to be a charge that was made for this request; gives the id of the charge.
    #[track_caller]
    pub fn assert_charged(&self, collection: &str, amount: &str, currency: &str) -> String {
        assert_eq!(self.status, 201, "{self:?}");
        assert!(!self.is_replayed(), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let receipt = self.json();
        let id = self.id();
        assert_eq!(self.header("location"), Some(&*format!("{collection}/{id}")), "{self:?}");
        assert_eq!((&receipt["amount"], &receipt["currency"]), (&amount.into(), &currency.into()), "{self:?}");
        id
    }

    /// Holds it to be the stored answer that `first` was: the same status, headers and bytes, and it says so.
    #[track_caller]
    pub fn assert_replay_of(&self, first: &Self) {
        assert!(self.is_replayed(), "{self:?}");
        assert_eq!(self.status, first.status, "{self:?}");
        assert_eq!(self.body, first.body, "{self:?}");
        assert_eq!(self.stored_headers(), first.stored_headers());
    }

    fn stored_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove("idempotent-replayed");
        headers.remove(header::DATE);
        headers
    }

    /// Holds it to be this problem, made for this request; gives its members.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert!(!self.is_replayed(), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        let kind = problem["type"].as_str().unwrap();
        assert_eq!(kind.rsplit('#').next(), Some(slug), "{self:?}");
        assert_eq!(problem["status"], status, "{self:?}");
        for member in ["title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        problem
    }

    /// Holds it to be the refusal of a request whose key is held by a running attempt; gives how long to wait.
    #[track_caller]
    pub fn assert_in_progress(&self) -> core::time::Duration {
        let problem = self.assert_problem(409, "in-progress");
        let milliseconds = problem["retry_after_ms"].as_u64().unwrap();
        let seconds: u64 = self.header("retry-after").unwrap().parse().unwrap();
        // The milliseconds are rounded down, the seconds up.
        let rounded = milliseconds.div_ceil(1000).max(1)..=(milliseconds + 1).div_ceil(1000).max(1);
        assert!(rounded.contains(&seconds), "{self:?}");
        core::time::Duration::from_millis(milliseconds)
    }
}
