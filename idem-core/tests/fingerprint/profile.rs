//! Profiles: what is an error, and what makes two the same.

use idem_core::{PointerRule, Profile, ProfileBuilder, ProfileError, ProfileId};

use super::{built, ignoring, posted, selecting};

fn error(builder: ProfileBuilder) -> ProfileError {
    builder.build().expect_err("the test names a mistake")
}

fn hmac(key_id: &str, secret: &str) -> Profile {
    built(Profile::builder().hmac(key_id, secret))
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_malformed_pointer_is_an_error_that_says_which_rule() {
    for (pointer, rule) in [
        ("", PointerRule::Empty),
        ("amount", PointerRule::LeadingSlash),
        ("$.amount", PointerRule::LeadingSlash),
        (" /amount", PointerRule::LeadingSlash),
        ("#/amount", PointerRule::LeadingSlash),
        ("/a~", PointerRule::TildeEscape),
        ("/a~2b", PointerRule::TildeEscape),
        ("/~/b", PointerRule::TildeEscape),
        ("/~~0", PointerRule::TildeEscape),
    ] {
        let expected = ProfileError::Pointer { pointer: pointer.to_owned(), rule };
        assert_eq!(error(Profile::builder().ignore(["/fine", pointer])), expected);
        assert_eq!(error(Profile::builder().only(["/fine", pointer])), expected);
    }
}

#[test]
fn an_error_says_what_to_do() {
    assert_eq!(
        error(Profile::builder().ignore(["amount"])).to_string(),
        "member pointer \"amount\" is malformed: a pointer starts with `/`; write `/client_timestamp`, not \
         `client_timestamp` or `$.client_timestamp`"
    );
    assert_eq!(
        error(Profile::builder().hmac("k", "short")).to_string(),
        "the HMAC secret has 5 bytes, fewer than 16: use 32 random bytes"
    );
}

#[test]
fn members_are_ignored_or_selected_never_both() {
    assert_eq!(error(Profile::builder().ignore(["/a"]).only(["/b"])), ProfileError::IgnoreAndOnly);
    assert_eq!(error(Profile::builder().only(["/b"]).ignore([""; 0])), ProfileError::IgnoreAndOnly);
}

#[test]
fn a_selection_of_nothing_is_an_error_and_ignoring_nothing_is_the_default() {
    assert_eq!(error(Profile::builder().only([""; 0])), ProfileError::NothingSelected);
    assert_eq!(built(Profile::builder().ignore([""; 0])).id(), Profile::default().id());
    assert_eq!(built(Profile::builder()).id(), Profile::default().id());
}

#[test]
fn an_hmac_key_needs_a_name_and_a_secret() {
    for key_id in ["", "two words", "é", "line\n", &"k".repeat(65)] {
        let expected = ProfileError::KeyId { key_id: key_id.to_owned() };
        assert_eq!(error(Profile::builder().hmac(key_id, SECRET)), expected);
    }
    assert_eq!(error(Profile::builder().hmac("k", &SECRET[..15])), ProfileError::ShortSecret { length: 15 });
    built(Profile::builder().hmac("k".repeat(64), &SECRET[..16]));
}

#[test]
fn order_and_repetition_of_pointers_make_no_other_profile() {
    let one = ignoring(["/a", "/b/*", "/c"]);
    assert_eq!(one.id(), ignoring(["/c", "/a", "/b/*", "/a"]).id());
    assert_eq!(one.id(), built(Profile::builder().ignore(["/c", "/b/*"]).ignore(["/a"])).id());
}

#[test]
fn every_other_configuration_is_another_profile() {
    let all = [
        Profile::default(),
        ignoring(["/a"]),
        ignoring(["/a", "/b"]),
        ignoring(["/a/b"]),
        ignoring(["/a/*"]),
        selecting(["/a"]),
        selecting(["/a", "/b"]),
        hmac("1", SECRET),
        hmac("2", SECRET),
        built(Profile::builder().ignore(["/a"]).hmac("1", SECRET)),
    ];
    for (place, a) in all.iter().enumerate() {
        for b in &all[place + 1..] {
            assert_ne!(a.id(), b.id(), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn a_digest_under_one_profile_is_none_under_another() {
    let digest = |profile: &Profile| *posted(profile, "application/json", "{}").digest();
    assert_ne!(digest(&Profile::default()), digest(&ignoring(["/a"])));
}

#[test]
fn hmac_digests_depend_on_the_secret_and_profile_ids_do_not() {
    let (a, b) = (hmac("2026-10", SECRET), hmac("2026-10", &SECRET[1..]));
    assert_eq!(a.id(), b.id());
    let digest = |profile: &Profile| *posted(profile, "application/json", "{}").digest();
    assert_eq!(digest(&a), digest(&hmac("2026-10", SECRET)));
    assert_ne!(digest(&a), digest(&b));
    assert_ne!(digest(&a), digest(&Profile::default()));
}

#[test]
fn the_secret_shows_nowhere() {
    let builder = Profile::builder().ignore(["/b", "/a"]).hmac("2026-10", SECRET);
    assert_eq!(
        format!("{builder:?}"),
        r#"ProfileBuilder { ignore: Some(["/b", "/a"]), only: None, hmac: Some("2026-10") }"#
    );
    let profile = built(builder);
    let id: ProfileId = profile.id();
    assert_eq!(format!("{profile:?}"), format!(r#"Profile {{ id: {id:?}, ignore: ["/a", "/b"], hmac: "2026-10" }}"#));
}
