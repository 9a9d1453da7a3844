//! Under which key a record is stored.

use std::hash::{DefaultHasher, Hash, Hasher};

use idem_core::{IdempotencyKey, Principal, Route, ScopedKey};

use super::Fault;

pub(super) fn stored_under(fault: Fault, key: &ScopedKey) -> ScopedKey {
    let (principal, route, text) = (key.principal().name(), key.route().as_str(), key.key().as_str());
    let parts = |change: &dyn Fn(&str) -> String| alias(&(principal.map(change), change(route), change(text)));
    match fault {
        Fault::ForgetsPrincipal => alias(&(route, text)),
        Fault::ForgetsRoute => alias(&(principal, text)),
        Fault::ForgetsKey => alias(&(principal, route)),
        Fault::JoinsParts => alias(&format!("{}:{route}:{text}", principal.unwrap_or("\0"))),
        Fault::ConcatenatesParts => alias(&format!("{}{route}{text}", principal.unwrap_or("\0"))),
        Fault::NamesTheSharedPrincipal => alias(&(principal.unwrap_or("shared"), route, text)),
        Fault::FoldsNames => parts(&|name| name.to_lowercase()),
        Fault::TrimsNames => parts(&|name| name.trim().to_owned()),
        Fault::CutsNames => parts(&|name| name.chars().take(64).collect()),
        Fault::NormalisesNames => parts(&|name| name.replace("e\u{301}", "\u{e9}")),
        Fault::StripsPunctuation => parts(&|name| name.chars().filter(|c| c.is_alphanumeric()).collect()),
        _ => key.clone(),
    }
}

/// A key that stands for whatever was hashed.
fn alias(what: &impl Hash) -> ScopedKey {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    let text = format!("{:016x}", hasher.finish());
    let route = Route::new(&text).expect("hexadecimal digits are a route");
    let key = IdempotencyKey::parse(&text).expect("sixteen hexadecimal digits are a key");
    ScopedKey::new(Principal::shared(), route, key)
}
