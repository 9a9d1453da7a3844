//! What stands around the body.

use bytes::Bytes;
use idem_core::{Comparison, Fingerprint, Fingerprinter, Profile, RequestFingerprint, RequestIdentity, RequestParts};

fn request(query: Option<&str>, content_type: Option<&str>, coding: Option<&str>, body: &str) -> Fingerprint {
    let request = RequestParts::new("POST", "/payments", body.to_owned())
        .query(query)
        .content_type(content_type.map(str::as_bytes))
        .content_encoding(coding.map(str::as_bytes));
    Fingerprinter::default().fingerprint(request).fingerprint()
}

fn typed(content_type: &str, body: &str) -> Fingerprint {
    request(None, Some(content_type), None, body)
}

fn plain(method: &str, path: &str, body: &'static str) -> RequestFingerprint {
    Fingerprinter::default().fingerprint(RequestParts::new(method, path, body))
}

#[test]
fn a_changed_body_is_another_request() {
    let recorded = plain("POST", "/payments", "amount 1").fingerprint();
    assert_eq!(plain("POST", "/payments", "amount 1").compare(&recorded), Comparison::Same);
    assert_eq!(plain("POST", "/payments", "amount 2").compare(&recorded), Comparison::Differs);
    assert_eq!(plain("POST", "/payments", "").compare(&recorded), Comparison::Differs);
}

#[test]
fn method_and_path_count_as_they_are() {
    let recorded = plain("POST", "/payments", "x").fingerprint();
    for (method, path) in [("PATCH", "/payments"), ("post", "/payments"), ("POST", "/payments/"), ("POST", "/Payments")]
    {
        assert_eq!(plain(method, path, "x").compare(&recorded), Comparison::Differs, "{method} {path}");
    }
}

#[test]
fn a_dry_run_is_not_a_run() {
    let with = |query| request(query, None, None, "x");
    assert_ne!(with(Some("dry_run=true")), with(Some("dry_run=false")));
    assert_ne!(with(Some("dry_run=true")), with(None));
    assert_eq!(with(Some("dry_run=true")), with(Some("dry_run=true")));
    // Neither sorted nor decoded, and an empty query is not an absent one.
    assert_ne!(with(Some("a=1&b=2")), with(Some("b=2&a=1")));
    assert_ne!(with(Some("a=%41")), with(Some("a=A")));
    assert_ne!(with(Some("")), with(None));
}

#[test]
fn no_field_runs_into_the_next() {
    let of = |method, path, query, body: &'static str| {
        Fingerprinter::default().fingerprint(RequestParts::new(method, path, body).query(query)).fingerprint()
    };
    let all = [
        of("POST", "/ab", "c", "d"),
        of("POST/", "ab", "c", "d"),
        of("POST", "/a", "bc", "d"),
        of("POST", "/ab", "cd", ""),
        of("POST", "/abc", "", "d"),
        of("POST", "/ab?c", "", "d"),
        of("", "POST/ab", "c", "d"),
    ];
    for (place, a) in all.iter().enumerate() {
        assert!(!all[place + 1..].contains(a), "number {place}");
    }
}

#[test]
fn the_media_type_counts_without_its_parameters_and_its_case() {
    let body = r#"{"a":1}"#;
    let all = ["application/json", "Application/JSON; charset=utf-8", " application/json ;q=1", "application/json;"];
    for content_type in all {
        assert_eq!(typed(content_type, body), typed("application/json", body), "{content_type}");
    }
    for content_type in ["application/problem+json", "text/plain", "text/json", "", "application"] {
        assert_ne!(typed(content_type, body), typed("application/json", body), "{content_type}");
    }
    assert_ne!(request(None, None, None, body), typed("", body));
}

#[test]
fn every_json_type_is_read_as_json_and_no_other() {
    let read = |content_type| typed(content_type, r#"{"a":1.0}"#) == typed(content_type, r#"{ "a": 1 }"#);
    for content_type in
        ["application/json", "application/merge-patch+json", "application/vnd.api+JSON;v=1", "image/x+json"]
    {
        assert!(read(content_type), "{content_type}");
    }
    for content_type in
        ["text/json", "application/json-seq", "application/jsonx", "text/plain", "+json", "application/x+jso"]
    {
        assert!(!read(content_type), "{content_type}");
    }
    assert_ne!(request(None, None, None, "1.0"), request(None, None, None, "1"));
}

#[test]
fn a_coded_body_counts_byte_by_byte_and_its_coding_counts() {
    let coded = |coding, body| request(None, Some("application/json"), coding, body);
    assert_ne!(coded(Some("gzip"), r#"{"a":1}"#), coded(Some("gzip"), r#"{ "a":1}"#));
    assert_ne!(coded(Some("gzip"), "x"), coded(Some("br"), "x"));
    assert_ne!(coded(Some("gzip"), "x"), coded(None, "x"));
    assert_eq!(coded(Some(" GZip "), "x"), coded(Some("gzip"), "x"));
    assert_ne!(coded(Some("gzip, br"), "x"), coded(Some("br, gzip"), "x"));
}

#[test]
fn identity_is_no_coding() {
    let coded = |coding, body| request(None, Some("application/json"), coding, body);
    for coding in ["identity", "Identity", " identity ", ""] {
        assert_eq!(coded(Some(coding), r#"{ "a":1}"#), coded(None, r#"{"a":1.0}"#), "{coding:?}");
    }
}

#[test]
fn an_operation_is_no_request() {
    let operation = Fingerprint::bytes("POST", b"x");
    assert_ne!(operation, plain("POST", "", "x").fingerprint());
    assert_ne!(operation, plain("", "POST", "x").fingerprint());
    assert_ne!(Fingerprint::bytes("a", b"bc"), Fingerprint::bytes("ab", b"c"));
    assert_ne!(Fingerprint::json("ship", b"{}"), Fingerprint::json("cancel", b"{}"));
    assert_eq!(operation.profile(), Profile::default().id());
}

#[test]
fn a_request_fingerprint_outlives_what_it_was_made_of() {
    fn movable<T: Send + Sync + Clone + 'static>(value: T) -> T {
        value
    }
    let body = Bytes::from(vec![b'x'; 100]);
    let made = {
        let path = String::from("/payments");
        Fingerprinter::new(Profile::default())
            .previous([Profile::builder().ignore(["/a"]).build().unwrap()])
            .fingerprint(RequestParts::new("POST", &path, body.clone()))
    };
    let seen = std::thread::scope(|scope| scope.spawn(|| movable(made.clone()).fingerprint()).join()).unwrap();
    assert_eq!(seen, Fingerprinter::default().fingerprint(RequestParts::new("POST", "/payments", body)).fingerprint());
}

#[test]
fn a_body_is_held_only_for_the_sake_of_previous_profiles() {
    let body = Bytes::from(vec![b'x'; 100]);
    let request = || RequestParts::new("POST", "/payments", body.clone());
    let alone = Fingerprinter::default().fingerprint(request());
    assert!(body.is_unique());
    let with_previous = Fingerprinter::default().previous([Profile::default()]).fingerprint(request());
    assert!(!body.is_unique());
    assert_eq!(alone.fingerprint(), with_previous.fingerprint());
}
