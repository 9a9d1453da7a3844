//! A deploy that changes the profile refuses no honest retry.

use idem_core::{
    Comparison, Fingerprint, Fingerprinter, Profile, ProfileId, RequestFingerprint, RequestIdentity, RequestParts,
};

use super::{built, ignoring, selecting};

fn pay(fingerprinter: &Fingerprinter, body: &str) -> RequestFingerprint {
    let request = RequestParts::new("POST", "/payments", body.to_owned());
    fingerprinter.fingerprint(request.query("live=1").content_type(b"application/json".as_slice()))
}

const SENT: &str = r#"{"amount": 12.50, "sent_at": 1}"#;
const RESPELLED: &str = r#"{"sent_at":1,"amount":125e-1}"#;
const RESENT: &str = r#"{"amount": 12.50, "sent_at": 2}"#;
const OTHER: &str = r#"{"amount": 12.51, "sent_at": 1}"#;

#[test]
fn a_new_ignored_member_turns_no_honest_retry_away() {
    let before = Fingerprinter::default();
    let recorded = pay(&before, SENT).fingerprint();

    let after = Fingerprinter::new(ignoring(["/sent_at"])).previous([Profile::default()]);
    assert_eq!(pay(&after, SENT).compare(&recorded), Comparison::Same);
    assert_eq!(pay(&after, RESPELLED).compare(&recorded), Comparison::Same);
    assert_eq!(pay(&after, OTHER).compare(&recorded), Comparison::Differs);
    // The old record keeps to the old rule, and a new one gets the new rule.
    assert_eq!(pay(&after, RESENT).compare(&recorded), Comparison::Differs);
    let new = pay(&after, SENT).fingerprint();
    assert_eq!(new.profile(), ignoring(["/sent_at"]).id());
    assert_eq!(pay(&after, RESENT).compare(&new), Comparison::Same);
    assert_eq!(pay(&after, OTHER).compare(&new), Comparison::Differs);
}

#[test]
fn a_record_under_a_profile_that_is_not_configured_cannot_be_compared() {
    let recorded = pay(&Fingerprinter::default(), SENT).fingerprint();
    let after = Fingerprinter::new(ignoring(["/sent_at"])).previous([selecting(["/amount"])]);
    assert_eq!(pay(&after, SENT).compare(&recorded), Comparison::UnknownProfile);
    assert_eq!(pay(&Fingerprinter::new(ignoring(["/sent_at"])), SENT).compare(&recorded), Comparison::UnknownProfile);
    let foreign = Fingerprint::from_parts(ProfileId::from_bits(1), *pay(&after, SENT).fingerprint().digest());
    assert_eq!(pay(&after, SENT).compare(&foreign), Comparison::UnknownProfile);
}

#[test]
fn several_profiles_stay_comparable_at_once() {
    let hmac = |key_id| built(Profile::builder().hmac(key_id, [b'k'; 32]));
    let profiles = [hmac("1"), hmac("2"), Profile::default(), ignoring(["/sent_at"]), selecting(["/amount"])];
    let now = Fingerprinter::new(hmac("3")).previous(profiles[..2].to_vec()).previous(profiles[2..].to_vec());
    for profile in profiles.into_iter().chain([hmac("3")]) {
        let recorded = pay(&Fingerprinter::new(profile.clone()), SENT).fingerprint();
        assert_eq!(pay(&now, RESPELLED).compare(&recorded), Comparison::Same, "{profile:?}");
        assert_eq!(pay(&now, OTHER).compare(&recorded), Comparison::Differs, "{profile:?}");
    }
    assert_eq!(now.current().id(), hmac("3").id());
    assert_eq!(pay(&now, SENT).fingerprint().profile(), hmac("3").id());
}

#[test]
fn a_rotated_secret_needs_a_new_key_id() {
    let under = |key_id, byte| Fingerprinter::new(built(Profile::builder().hmac(key_id, [byte; 32])));
    let recorded = pay(&under("1", b'a'), SENT).fingerprint();
    assert_eq!(pay(&under("1", b'b'), SENT).compare(&recorded), Comparison::Differs);
    let rotated = under("2", b'b').previous([built(Profile::builder().hmac("1", [b'a'; 32]))]);
    assert_eq!(pay(&rotated, SENT).compare(&recorded), Comparison::Same);
}

#[test]
fn every_byte_of_a_digest_is_compared() {
    let request = pay(&Fingerprinter::default(), SENT);
    for place in 0..32 {
        let mut digest = *request.fingerprint().digest();
        digest[place] ^= 1;
        let recorded = Fingerprint::from_parts(request.fingerprint().profile(), digest);
        assert_eq!(request.compare(&recorded), Comparison::Differs);
        assert_eq!(request.fingerprint().compare(&recorded), Comparison::Differs);
    }
    assert_eq!(request.compare(&request.fingerprint()), Comparison::Same);
}

#[test]
fn debug_output_shows_no_body() {
    let after = Fingerprinter::new(ignoring(["/sent_at"])).previous([Profile::default()]);
    let request = pay(&after, SENT);
    assert_eq!(
        format!("{request:?}"),
        format!(
            "RequestFingerprint {{ fingerprint: {:?}, previous: [{:?}] }}",
            request.fingerprint(),
            Profile::default().id()
        )
    );
}
