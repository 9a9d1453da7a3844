//! Multipart: the parts, in their order, without the boundary.

use idem_core::{Fingerprint, Profile};

use super::{ignoring, posted, selecting};

/// A body of these parts (headers, content) between these boundaries.
fn multipart(boundary: &str, parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (headers, content) in parts {
        body += &format!("--{boundary}\r\n{headers}\r\n\r\n{content}\r\n");
    }
    body + &format!("--{boundary}--\r\n")
}

fn read(profile: &Profile, boundary: &str, body: &str) -> Fingerprint {
    posted(profile, &format!("multipart/form-data; boundary={boundary}"), body)
}

fn form_data(boundary: &str, parts: &[(&str, &str)]) -> Fingerprint {
    read(&Profile::default(), boundary, &multipart(boundary, parts))
}

const AMOUNT: (&str, &str) = ("Content-Disposition: form-data; name=\"amount\"", "12.50");
const FILE: (&str, &str) = (
    "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain",
    "line\r\n--x\r\n",
);

/// Whether a body is read as multipart: only then does what follows the last boundary leave no trace.
fn is_read(content_type: &str, body: &str) -> bool {
    let body = body.trim_end_matches("\r\n");
    posted(&Profile::default(), content_type, body)
        == posted(&Profile::default(), content_type, format!("{body}\r\nepilogue"))
}

#[test]
fn the_boundary_does_not_count() {
    let parts = [AMOUNT, FILE];
    assert_eq!(form_data("one", &parts), form_data("----WebKitFormBoundaryX7", &parts));
    let quoted = posted(
        &Profile::default(),
        "Multipart/Form-Data; charset=\"a;b\\\"\"; BOUNDARY=\"a b:c\"",
        multipart("a b:c", &parts),
    );
    assert_eq!(form_data("one", &parts), quoted);
}

#[test]
fn contents_headers_and_order_count() {
    let all = [
        form_data("b", &[AMOUNT, FILE]),
        form_data("b", &[FILE, AMOUNT]),
        form_data("b", &[AMOUNT]),
        form_data("b", &[AMOUNT, AMOUNT]),
        form_data("b", &[(AMOUNT.0, "12.5")]),
        form_data("b", &[("Content-Disposition: form-data; name=\"total\"", "12.50")]),
        form_data("b", &[(AMOUNT.0, "12.50"), (FILE.0, "")]),
        form_data("b", &[AMOUNT, ("Content-Disposition: form-data; name=\"file\"", FILE.1)]),
        form_data("b", &[]),
    ];
    for (place, a) in all.iter().enumerate() {
        assert!(!all[place + 1..].contains(a), "number {place}");
    }
}

#[test]
fn a_header_is_not_a_part() {
    let type_ = "multipart/mixed; boundary=b";
    let three = "--b\r\n\r\na\r\n--b\r\n\r\nb\r\n--b\r\n\r\nc\r\n--b--";
    let one = "--b\r\na: b\r\n\r\nc\r\n--b--";
    assert!(is_read(type_, three) && is_read(type_, one));
    assert_ne!(posted(&Profile::default(), type_, three), posted(&Profile::default(), type_, one));
}

#[test]
fn header_names_have_no_case_and_no_order() {
    let same =
        ("content-type:text/plain\r\nCONTENT-DISPOSITION:  form-data; name=\"file\"; filename=\"a.txt\" ", FILE.1);
    assert_eq!(form_data("b", &[same]), form_data("b", &[FILE]));
    assert_ne!(
        form_data("b", &[("Content-Type: text/PLAIN", "")]),
        form_data("b", &[("Content-Type: text/plain", "")])
    );
}

#[test]
fn preamble_padding_and_epilogue_do_not_count() {
    let part = "Content-Disposition: form-data; name=\"amount\"\r\n\r\n12.50";
    let expected = form_data("b", &[AMOUNT]);
    for body in [
        format!("--b\r\n{part}\r\n--b--"),
        format!("preamble --b\r\n--b\r\n{part}\r\n--b--\r\nepilogue\r\n--b\r\n"),
        format!("--b \t\r\n{part}\r\n--b-- \t\r\n"),
    ] {
        assert_eq!(read(&Profile::default(), "b", &body), expected, "{body}");
    }
}

#[test]
fn parts_may_have_no_headers_or_no_content() {
    assert!(is_read("multipart/mixed; boundary=b", "--b\r\n\r\ncontent\r\n--b--"));
    assert!(is_read("multipart/mixed; boundary=b", "--b\r\nA: b\r\n\r\n\r\n--b--"));
    assert!(is_read("multipart/mixed; boundary=b", "--b\r\n\r\n\r\n--b--"));
    assert!(is_read("multipart/mixed; boundary=b", "--b--"));
}

#[test]
fn what_is_no_multipart_counts_byte_by_byte() {
    let good = multipart("b", &[AMOUNT]);
    let type_ = "multipart/form-data; boundary=b";
    assert!(is_read(type_, &good));
    for body in [
        "",
        "text",
        "--b",
        "--b\r\n",
        "--b\r\n--b--",
        "--b\r\nA: b\r\n--b--",
        "--b\r\n\r\nnever closed",
        "--b\n\ncontent\n--b--",
        "--bc\r\n\r\ncontent\r\n--bc--",
        "--b\r\n\r\ncontent\r\n--bc\r\n\r\ncontent\r\n--b--",
        "--b\r\nno colon\r\n\r\ncontent\r\n--b--",
        "--b\r\nA: b\r\n folded\r\n\r\ncontent\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\ncontent\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\ncontent\r\n--b--",
        "--b--x",
    ] {
        assert!(!is_read(type_, body), "{body:?}");
    }
    let headers = |count: usize| format!("--b\r\n{}\r\ncontent\r\n--b--", "A: b\r\n".repeat(count));
    assert!(is_read(type_, &headers(32)));
    assert!(!is_read(type_, &headers(33)));
}

#[test]
fn a_boundary_that_is_missing_doubled_or_malformed_leaves_bytes() {
    let good = multipart("b", &[AMOUNT]);
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=b; boundary=b",
        "multipart/form-data; boundary=\"b",
        "multipart/form-data; boundary=\"b\"x",
        "multipart/form-data; boundary=\"b \"",
        "multipart/form-data; boundary=\"b\u{e9}\"",
        "text/plain; boundary=b",
    ] {
        assert!(!is_read(content_type, &good), "{content_type}");
    }
    let (long, longer) = ("b".repeat(70), "b".repeat(71));
    assert!(is_read(&format!("multipart/mixed; boundary={long}"), &multipart(&long, &[AMOUNT])));
    assert!(!is_read(&format!("multipart/mixed; boundary={longer}"), &multipart(&longer, &[AMOUNT])));
}

#[test]
fn pointers_of_one_step_name_parts() {
    let named = |name: &str| format!("Content-Disposition: form-data; name={name}");
    let (nonce, quoted, nameless) = (named("nonce"), named("\"a\\\"b\""), "Content-Type: text/plain");
    let body = |content: &str| multipart("b", &[AMOUNT, (&nonce, content), (&quoted, content), (nameless, "")]);

    let without = ignoring(["/nonce", "/a\"b"]);
    assert_eq!(read(&without, "b", &body("1")), read(&without, "b", &body("2")));
    assert_eq!(read(&without, "b", &body("1")), read(&without, "b", &multipart("b", &[AMOUNT, (nameless, "")])));
    assert_ne!(read(&without, "b", &body("1")), read(&without, "b", &multipart("b", &[AMOUNT])));
    assert_ne!(read(&Profile::default(), "b", &body("1")), read(&Profile::default(), "b", &body("2")));

    let only = selecting(["/amount"]);
    assert_eq!(read(&only, "b", &body("1")), read(&only, "b", &multipart("b", &[AMOUNT])));
    assert_ne!(read(&only, "b", &body("1")), read(&only, "b", &multipart("b", &[(AMOUNT.0, "13")])));
}
