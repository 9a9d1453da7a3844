//! What cannot be read in one way only counts byte by byte.

use idem_core::Fingerprint;

use super::{ignoring, is_canonical, json, posted, selecting};

#[track_caller]
fn counts_byte_by_byte(document: impl AsRef<[u8]>) {
    let document = document.as_ref();
    let shown = String::from_utf8_lossy(&document[..document.len().min(60)]).into_owned();
    assert!(!is_canonical(document), "{shown}");
    // An honest retry, byte for byte the same, still matches.
    assert_eq!(json(document), json(document), "{shown}");
    // The same bytes where nobody says that they are JSON share the reading, but a JSON document never does.
    assert_eq!(json(document), Fingerprint::bytes("test", document), "{shown}");
}

#[test]
fn json_and_the_same_bytes_as_bytes_differ() {
    assert_ne!(json("{}"), Fingerprint::bytes("test", b"{}"));
}

#[test]
fn duplicate_names_count_byte_by_byte() {
    counts_byte_by_byte(r#"{"a":1,"a":1}"#);
    counts_byte_by_byte(r#"{"a":1,"b":2,"a":3}"#);
    counts_byte_by_byte(r#"{"b":1,"a":2,"b":3}"#);
    counts_byte_by_byte(r#"{"a":1,"\u0061":2}"#);
    counts_byte_by_byte(r#"[{"x":{"deep":1,"deep":2}}]"#);
    counts_byte_by_byte(r#"{"":1,"":2}"#);
    for count in [15, 16, 17, 18, 40, 1000] {
        let names = |last: usize| -> String {
            let members = (0..count).rev().chain([last]).map(|name| format!("\"name {name}\":0"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        };
        counts_byte_by_byte(names(count / 2));
        counts_byte_by_byte(names(0));
        counts_byte_by_byte(names(count - 1));
        assert!(is_canonical(names(count).as_bytes()));
    }
    assert!(is_canonical(br#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#));
}

#[test]
fn duplicate_names_count_byte_by_byte_also_in_what_is_ignored() {
    let type_ = "application/json";
    for profile in [ignoring(["/x"]), ignoring(["/*"]), selecting(["/y"])] {
        for document in
            [r#"{"x":{"a":1,"a":2},"y":1}"#, r#"{"x":1,"y":1,"x":2}"#, r#"{"y":1,"x":[[{"a":1,"b":0,"a":2}]]}"#]
        {
            assert_ne!(
                posted(&profile, type_, document),
                posted(&profile, type_, format!(" {document}")),
                "{document}"
            );
        }
    }
}

#[test]
fn lone_surrogates_count_byte_by_byte() {
    for document in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\udc00\ud800""#, r#""\ud834 \udd1e""#] {
        counts_byte_by_byte(document);
    }
    for document in [
        r#""\ud834\n""#,
        r#""\ud834\u0041""#,
        r#""\ud834\ue000""#,
        r#""\ud834\udbff""#,
        r#""\ud834\"#,
        r#"{"\udbff":1}"#,
    ] {
        counts_byte_by_byte(document);
    }
}

#[test]
fn invalid_utf_8_counts_byte_by_byte() {
    for bytes in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"] {
        counts_byte_by_byte([b"\"", bytes, b"\""].concat());
        counts_byte_by_byte([b"{\"a\":1}", bytes].concat());
    }
    assert_ne!(json(b"\"\xff\""), json(b"\"\xfe\""));
    assert_ne!(json(b"\"\xff\""), json("\"\u{fffd}\""));
}

#[test]
fn what_is_no_json_counts_byte_by_byte() {
    let documents = [
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e2",
        "1e",
        "1e+",
        "01",
        "-01",
        "00",
        "0x1",
        "1_000",
        "1 2",
        "--1",
        "1.2.3",
        "1e2e3",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1;2]",
        "(1)",
        "{",
        "}",
        "{1:2}",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{}{}",
        "[}",
        "\"",
        "\"a",
        "'a'",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\",
        "\"\\u",
        "\"\n\"",
        "\"\t\"",
        "\"\0\"",
        "\"\u{1f}\"",
        "\u{feff}{}",
        "{}\0",
        "// c\n{}",
        "{}/**/",
        "\u{a0}1",
        "\u{c}1",
        "null,",
        "\"a\"\"b\"",
        "[@]",
        "_",
    ];
    for document in documents {
        counts_byte_by_byte(document);
    }
}

#[test]
fn a_hundred_and_twenty_eight_levels_are_read_and_no_more() {
    let arrays = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let mixed = |pairs: usize| format!("{}null{}", "[{\"a\":".repeat(pairs), "}]".repeat(pairs));
    assert!(is_canonical(arrays(128).as_bytes()));
    assert!(is_canonical(objects(128).as_bytes()));
    assert!(is_canonical(mixed(64).as_bytes()));
    counts_byte_by_byte(arrays(129));
    counts_byte_by_byte(objects(129));
    counts_byte_by_byte(format!("[{}]", mixed(64)));
}

#[test]
fn a_hundred_thousand_open_brackets_do_no_harm() {
    counts_byte_by_byte("[".repeat(100_000));
    counts_byte_by_byte("{\"a\":".repeat(100_000));
    counts_byte_by_byte(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
}

#[test]
fn a_mebibyte_of_anything_is_read() {
    const MEBIBYTE: usize = 1 << 20;
    let many_members = |names: &mut dyn Iterator<Item = usize>| {
        let members: Vec<String> = names.map(|name| format!("\"{name:07}\":{name}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let count = MEBIBYTE / 18;
    let (up, down) = (many_members(&mut (0..count)), many_members(&mut (0..count).rev()));
    assert_eq!(json(&up), json(&down));
    assert_ne!(json(&up), json(up.replace(":777,", ":778,")));

    let mut deep = format!("\"{}\"", "x".repeat(MEBIBYTE));
    for _ in 0..128 {
        deep = format!("{{\"b\":{deep},\"a\":1}}");
    }
    assert!(is_canonical(deep.as_bytes()));
    assert!(is_canonical(format!("[{}1]", "1,".repeat(MEBIBYTE / 2)).as_bytes()));
    assert!(is_canonical(format!("[{}1]", "{\"b\":1,\"a\":1},".repeat(MEBIBYTE / 14)).as_bytes()));
}
