//! Promise 1: a record stands under its own principal, route and key, and under no other.

use idem_core::key::LONGEST_KEY;
use idem_core::scope::LONGEST_NAME;
use idem_core::{IdempotencyKey, KeyFormat, Principal, Route, ScopedKey};

use crate::Halt;
use crate::expect::is_written;
use crate::scene::{Scene, Verdict, claim, completed, owner};

cases! { 1:
    two_principals_do_not_share_a_key = "The same key of another caller is another key.";
    the_shared_principal_equals_no_name = "The shared principal is none of the names that one might store for it.";
    two_routes_do_not_share_a_key = "The same key of another operation is another key.";
    the_parts_of_a_scope_do_not_run_together = "Delimiters inside a part do not make two scopes one.";
    names_are_told_apart_to_the_last_byte = "Principals, routes and keys of the greatest length differ in their last byte.";
    names_are_not_folded = "Names that differ in case, in blanks at the end, or in Unicode normalisation are different names.";
    characters_of_query_languages_are_only_text = "Quotes, percent signs, braces, stars and brackets in names are text.";
}

/// Claims every scope; each must be vacant before and keep its own record afterwards.
async fn are_all_different(scene: &Scene, scopes: &[ScopedKey]) -> Verdict {
    let mut written = Vec::new();
    for (position, key) in scopes.iter().enumerate() {
        scene.find_vacant(key).await.map_err(|halt| under(scopes, position, halt))?;
        let claim = claim()?;
        scene.insert(key, &claim).await.map_err(|halt| under(scopes, position, halt))?;
        written.push(claim);
    }
    // Settling one must leave the others alone.
    let last = scopes.len() - 1;
    let settled = completed(&written[last]);
    scene.write(&scopes[last], owner(&written[last]), &settled).await?;
    written[last] = settled;
    for (position, (key, record)) in scopes.iter().zip(&written).enumerate() {
        is_written(&scene.find(key).await?, record).map_err(|halt| under(scopes, position, halt))?;
    }
    Ok(())
}

/// The keys of the suite are no secret: their text helps to see what was confused.
fn under(scopes: &[ScopedKey], position: usize, halt: Halt) -> Halt {
    let text = |key: &ScopedKey| {
        (key.principal().name().map(str::to_owned), key.route().clone(), key.key().as_str().to_owned())
    };
    match halt {
        Halt::Failed(message) => {
            let others: Vec<_> = scopes[..position].iter().map(text).collect();
            Halt::fail(format!("{message}\nunder:    {:?}\nafter:    {others:?}", text(&scopes[position])))
        }
        skipped => skipped,
    }
}

fn usual_key() -> Result<IdempotencyKey, Halt> {
    Ok(IdempotencyKey::parse("8e03978e-40d5-43dd")?)
}

async fn two_principals_do_not_share_a_key(scene: &Scene) -> Verdict {
    let mut scopes = Vec::new();
    for name in ["alice", "bob", "alice2", "1", "11"] {
        scopes.push(ScopedKey::new(scene.principal(name)?, scene.route("")?, usual_key()?));
    }
    are_all_different(scene, &scopes).await
}

async fn the_shared_principal_equals_no_name(scene: &Scene) -> Verdict {
    let mut scopes = vec![ScopedKey::new(Principal::shared(), scene.route("")?, usual_key()?)];
    for name in ["shared", "anonymous", "*", "-", "_", "0", "null", "NULL", "None", "default", " ", ":"] {
        scopes.push(ScopedKey::new(scene.principal(name)?, scene.route("")?, usual_key()?));
    }
    are_all_different(scene, &scopes).await
}

async fn two_routes_do_not_share_a_key(scene: &Scene) -> Verdict {
    let mut scopes = Vec::new();
    for rest in ["/payments", "/payments/", "/payment", "/refunds", ""] {
        scopes.push(ScopedKey::new(scene.principal("alice")?, scene.route(rest)?, usual_key()?));
    }
    are_all_different(scene, &scopes).await
}

async fn the_parts_of_a_scope_do_not_run_together(scene: &Scene) -> Verdict {
    let mut scopes = Vec::new();
    let route = scene.route("")?;
    let route = route.as_str();
    for delimiter in ["", ":", "/", "|", "#", "-", "_", ".", "\u{a0}"] {
        // Joined by the delimiter, or by nothing, both of each pair read the same.
        scopes.push(ScopedKey::new(Principal::new(format!("a{delimiter}b"))?, Route::new(route)?, usual_key()?));
        scopes.push(ScopedKey::new(
            Principal::new("a")?,
            Route::new(format!("b{delimiter}{route}"))?,
            IdempotencyKey::parse("8e03978e-40d5-43dd")?,
        ));
        if delimiter.is_ascii() {
            scopes.push(ScopedKey::new(
                Principal::new("c")?,
                Route::new(format!("{route}{delimiter}d"))?,
                IdempotencyKey::parse("e-12345678")?,
            ));
            scopes.push(ScopedKey::new(
                Principal::new("c")?,
                Route::new(route)?,
                IdempotencyKey::parse(format!("d{delimiter}e-12345678"))?,
            ));
        }
    }
    // Without a delimiter the first pair differs in where the parts end.
    scopes.push(ScopedKey::new(Principal::new("ab")?, Route::new(format!("c{route}"))?, usual_key()?));
    scopes.push(ScopedKey::new(Principal::new("a")?, Route::new(format!("bc{route}"))?, usual_key()?));
    are_all_different(scene, &scopes).await
}

async fn names_are_told_apart_to_the_last_byte(scene: &Scene) -> Verdict {
    let format = KeyFormat::new(1, LONGEST_KEY)?;
    let long = |start: &str, length: usize, end: &str| {
        let filling = length - start.len() - end.len();
        format!("{start}{}{end}", "x".repeat(filling))
    };
    let name = |start: &str, end: &str| long(start, LONGEST_NAME, end);
    let route = scene.route("/")?;
    let start = route.as_str();
    let mut scopes = Vec::new();
    for end in ["1", "2"] {
        let key = format.parse(long("k", LONGEST_KEY, end))?;
        scopes.push(ScopedKey::new(Principal::new(name("p", "0"))?, Route::new(name(start, "0"))?, key));
        let key = format.parse(long("k", LONGEST_KEY, "0"))?;
        scopes.push(ScopedKey::new(Principal::new(name("p", end))?, Route::new(name(start, "0"))?, key.clone()));
        scopes.push(ScopedKey::new(Principal::new(name("p", "0"))?, Route::new(name(start, end))?, key));
    }
    scopes.push(ScopedKey::new(Principal::new("p")?, route, format.parse("k")?));
    are_all_different(scene, &scopes).await
}

async fn names_are_not_folded(scene: &Scene) -> Verdict {
    let mut scopes = Vec::new();
    for name in ["alice", "Alice", "alice ", " alice", "andr\u{e9}", "andre\u{301}", "stra\u{df}e", "strasse"] {
        scopes.push(ScopedKey::new(scene.principal(name)?, scene.route("")?, usual_key()?));
        if name != "alice" {
            scopes.push(ScopedKey::new(scene.principal("alice")?, scene.route(name)?, usual_key()?));
        }
    }
    for key in ["8E03978E-40D5-43DD", "8E03978E-40d5-43dd"] {
        scopes.push(ScopedKey::new(scene.principal("alice")?, scene.route("")?, IdempotencyKey::parse(key)?));
    }
    are_all_different(scene, &scopes).await
}

async fn characters_of_query_languages_are_only_text(scene: &Scene) -> Verdict {
    let mut scopes = Vec::new();
    for text in
        ["%", "_", "'", "''", "\"", "\\", "{a}", "{b}", "{}", "*", "?", "[a-z]", "$1", "a;--", "%s", "\u{1f4b3}"]
    {
        scopes.push(ScopedKey::new(scene.principal(text)?, scene.route("")?, usual_key()?));
        scopes.push(ScopedKey::new(scene.principal("alice")?, scene.route(text)?, usual_key()?));
    }
    for key in ["%%%%%%%%", "________", "'or'1'='1", "{a}{b}{c}", "****????", "$1$2$3$4"] {
        scopes.push(ScopedKey::new(scene.principal("alice")?, scene.route("")?, IdempotencyKey::parse(key)?));
    }
    are_all_different(scene, &scopes).await
}
