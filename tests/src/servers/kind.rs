/// Where servers come from that tests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Given by a URL.
    Given,
    /// Started from installed programs.
    Programs,
    /// Started in containers.
    Containers,
}

/// The variable that demands one kind, where tests otherwise take the first that there is.
pub(super) const KIND: &str = "IDEM_TEST_SERVERS";

impl Kind {
    /// The only kind that this test run may take, where one is demanded.
    pub(super) fn demanded() -> Result<Option<Self>, String> {
        match std::env::var(KIND).as_deref() {
            Err(_) => Ok(None),
            Ok("given") => Ok(Some(Self::Given)),
            Ok("programs") => Ok(Some(Self::Programs)),
            Ok("containers") => Ok(Some(Self::Containers)),
            Ok(other) => Err(format!("{KIND} is given, programs or containers, and not {other:?}")),
        }
    }
}
