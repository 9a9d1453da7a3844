//! One fingerprint for all spellings of a document, one for each document.

use super::{is_canonical, json};

#[track_caller]
fn same(a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) {
    assert_eq!(json(a), json(b));
}

#[track_caller]
fn differ(a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) {
    let (a, b) = (a.as_ref(), b.as_ref());
    assert_ne!(json(a), json(b), "{} and {}", String::from_utf8_lossy(a), String::from_utf8_lossy(b));
}

#[test]
fn the_order_of_members_does_not_count_at_any_depth() {
    same(r#"{"a":1,"b":{"c":2,"d":[{"e":3,"f":4}]}}"#, r#"{"b":{"d":[{"f":4,"e":3}],"c":2},"a":1}"#);
}

#[test]
fn members_that_move_at_every_depth_keep_their_values() {
    let a = r#"{"z":{"y":{"x":1,"w":[{"b":2,"a":3}]},"v":{"d":4,"c":5}},"u":{"f":{"h":6,"g":7},"e":8}}"#;
    let b = r#"{"u":{"e":8,"f":{"g":7,"h":6}},"z":{"v":{"c":5,"d":4},"y":{"w":[{"a":3,"b":2}],"x":1}}}"#;
    same(a, b);
    differ(a, b.replace("\"g\":7,\"h\":6", "\"g\":6,\"h\":7"));
    differ(a, b.replace("\"c\":5,\"d\":4", "\"c\":4,\"d\":5"));
}

#[test]
fn names_with_a_common_beginning_are_told_apart() {
    same(r#"{"unit_price_net":1,"unit_price_gross":2}"#, r#"{"unit_price_gross":2,"unit_price_net":1}"#);
    differ(r#"{"unit_price_net":1,"unit_price_gross":2}"#, r#"{"unit_price_net":2,"unit_price_gross":1}"#);
    same(r#"{"a":1,"a\u0000":2,"":3}"#, r#"{"":3,"a\u0000":2,"a":1}"#);
    differ(r#"{"a":1,"a\u0000":2}"#, r#"{"a":2,"a\u0000":1}"#);
}

#[test]
fn white_space_between_tokens_does_not_count() {
    same(r#"{"a":[1,true,null],"b":"c d"}"#, "\r\n{\t\"a\" : [ 1 , true , null ] ,\n \"b\":\"c d\" }\n");
    differ(r#"{"b":"c d"}"#, r#"{"b":"cd"}"#);
}

#[test]
fn escapes_are_undone() {
    same(r#""/\"\\ Aé€𝄞""#, r#""\/\u0022\u005C \u0041\u00e9\u20AC\uD834\uDD1E""#);
    same(r#""\b\f\n\r\t""#, r#""\u0008\u000c\u000A\u000d\u0009""#);
    same(r#"{"amount":1}"#, r#"{"\u0061mount":1}"#);
    differ(r#""\n""#, r#""\\n""#);
}

#[test]
fn the_order_of_elements_counts() {
    differ("[1,2]", "[2,1]");
    differ("[[1],2]", "[1,[2]]");
    differ("[1,2]", "[[1,2]]");
}

#[test]
fn null_is_not_absent() {
    differ(r#"{"a":null}"#, "{}");
    differ("[null]", "[]");
}

#[test]
fn values_of_different_types_are_different() {
    let values =
        ["null", "true", "false", "0", "1", "\"\"", "\"0\"", "\"1\"", "\"null\"", "\"true\"", "[]", "{}", "[0]"];
    for (place, a) in values.iter().enumerate() {
        for b in &values[place + 1..] {
            differ(a, b);
            differ(format!("[{a}]"), format!("[{b}]"));
            differ(format!("{{\"m\":{a}}}"), format!("{{\"m\":{b}}}"));
        }
    }
}

#[test]
fn text_that_looks_like_the_canonical_spelling_changes_nothing() {
    differ(r##"["a","b"]"##, r##"["a\"b"]"##);
    differ(r##"{"a":"b"}"##, r##"{"a\"b":""}"##);
    differ(r##"["#1;"]"##, "[1]");
    differ(r##"[["]"]]"##, r##"[[],"]"]"##);
    differ(r##"{"}":1}"##, "{}");
    differ("[\"\u{ff}\"]", "[\"\",\"\"]");
    differ("[12]", "[1,2]");
    differ("[1e2,3]", "[1,23]");
}

#[test]
fn there_is_no_unicode_normalisation() {
    differ("\"\u{e9}\"", "\"e\u{301}\"");
    differ("\"\u{212b}\"", "\"\u{c5}\"");
    differ("\"ﬁ\"", "\"fi\"");
    differ(r#"{"É":1}"#, r#"{"é":1}"#);
}

#[test]
fn characters_of_every_length_are_kept() {
    for character in
        ['\u{7f}', '\u{80}', '\u{7ff}', '\u{800}', '\u{d7ff}', '\u{e000}', '\u{ffff}', '\u{10000}', '\u{10ffff}']
    {
        let mut units = [0; 2];
        let escaped: String = character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect();
        same(format!("\"{character}\""), format!("\"{escaped}\""));
        assert!(is_canonical(format!("\"{character}\"").as_bytes()));
    }
}

#[test]
fn a_string_ends_where_it_ends_wherever_that_is_in_eight_bytes() {
    for length in 0..40 {
        let text = "x".repeat(length);
        for tail in ["", "\\u0041", "\\\"", "\\\\"] {
            let plain = format!("[\"{text}{tail}\",1]");
            assert!(is_canonical(plain.as_bytes()), "{plain}");
            same(&plain, format!("[\"{text}{tail}\" ,1.0]"));
            differ(&plain, format!("[\"{text}x{tail}\",1]"));
            assert!(!is_canonical(format!("[\"{text}\u{1f}{tail}\",1]").as_bytes()));
        }
    }
}

#[test]
fn a_document_may_be_any_value() {
    for document in ["null", "true", "false", "0", "-1.5e+3", "\"\"", "[]", "{}", " [ ] ", "\t{\n}\r"] {
        assert!(is_canonical(document.as_bytes()), "{document}");
    }
}
