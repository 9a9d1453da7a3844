//! Forms: the decoded pairs, in their order.

use idem_core::{Fingerprint, Profile};

use super::{ignoring, posted, selecting};

const FORM: &str = "application/x-www-form-urlencoded";

fn form(body: &str) -> Fingerprint {
    posted(&Profile::default(), FORM, body)
}

#[test]
fn escapes_are_undone() {
    assert_eq!(form("name=Zo%C3%AB+M%75ller"), form("name=Zo%c3%ab%20Muller"));
    assert_eq!(form("a%3D=b%26"), form("%61%3d=%62%26"));
    assert_ne!(form("a=%2B"), form("a=+"));
    assert_ne!(form("a=%26b=1"), form("a=&b=1"));
}

#[test]
fn the_order_of_pairs_counts() {
    assert_ne!(form("a=1&b=2"), form("b=2&a=1"));
    assert_ne!(form("a=1&a=2"), form("a=2&a=1"));
    assert_ne!(form("a=1&a=1"), form("a=1"));
}

#[test]
fn names_and_values_do_not_run_together() {
    assert_ne!(form("ab=c"), form("a=bc"));
    assert_ne!(form("a=b&c=d"), form("a=bc&=d"));
    assert_ne!(form("a=b=c"), form("a%3Db=c"));
    assert_eq!(form("a=b=c"), form("a=b%3Dc"));
}

#[test]
fn a_pair_is_read_as_the_url_standard_reads_it() {
    assert_eq!(form("a&b=1"), form("a=&b=1"));
    assert_eq!(form("a=1&&b=2&"), form("a=1&b=2"));
    assert_eq!(form(""), form("&"));
    assert_ne!(form("="), form(""));
}

#[test]
fn bytes_need_not_be_utf_8() {
    assert_ne!(form("a=%FF"), form("a=%FE"));
    assert_ne!(form("a=%FF"), form("a=%EF%BF%BD"));
    assert_eq!(posted(&Profile::default(), FORM, b"a=\xff".to_vec()), form("a=%FF"));
}

#[test]
fn a_broken_escape_counts_byte_by_byte() {
    for body in ["a=%", "a=%4", "a=%4g", "%=1", "a=1&b=%zz"] {
        assert_ne!(form(body), form(&format!("{body}&")), "{body}");
        assert_eq!(form(body), form(body), "{body}");
    }
    assert_eq!(form("a=%41"), form("a=%41&"));
}

#[test]
fn pointers_of_one_step_name_pairs() {
    let ignoring = ignoring(["/nonce", "/a~1b", "/deep/er"]);
    let form = |body: &str| posted(&ignoring, FORM, body);
    assert_eq!(form("amount=1&nonce=2"), form("amount=1&%6Eonce=3&nonce"));
    assert_eq!(form("amount=1&a%2Fb=2"), form("amount=1"));
    assert_ne!(form("amount=1"), form("amount=2"));
    assert_ne!(form("deep=1"), form("deep=2"));

    let selecting = selecting(["/amount"]);
    let form = |body: &str| posted(&selecting, FORM, body);
    assert_eq!(form("amount=1&nonce=2"), form("x=1&amount=1"));
    assert_ne!(form("amount=1"), form("amount=2"));
    assert_eq!(form("x=1"), form("y=2"));
    assert_ne!(form("x=1"), form("amount="));
}
