//! Ignored and selected members of JSON documents.

use idem_core::Profile;

use super::{ignoring, posted, selecting};

const JSON: &str = "application/json";

#[track_caller]
fn same(profile: &Profile, a: &str, b: &str) {
    assert_eq!(posted(profile, JSON, a), posted(profile, JSON, b), "{a} and {b}");
}

#[track_caller]
fn differ(profile: &Profile, a: &str, b: &str) {
    assert_ne!(posted(profile, JSON, a), posted(profile, JSON, b), "{a} and {b}");
}

#[test]
fn an_ignored_member_may_change_move_or_be_absent() {
    let profile = ignoring(["/client_timestamp", "/meta/trace_id"]);
    let sent = r#"{"amount":1,"client_timestamp":"12:00","meta":{"trace_id":"a","channel":"app"}}"#;
    same(&profile, sent, r#"{"client_timestamp":{"s":1},"amount":1,"meta":{"channel":"app","trace_id":null}}"#);
    same(&profile, sent, r#"{"amount":1,"meta":{"channel":"app"}}"#);
    differ(&profile, sent, r#"{"amount":2,"client_timestamp":"12:00","meta":{"trace_id":"a","channel":"app"}}"#);
    differ(&profile, sent, r#"{"amount":1,"client_timestamp":"12:00","meta":{"trace_id":"a","channel":"web"}}"#);
    differ(&profile, sent, r#"{"amount":1,"client_timestamp":"12:00"}"#);
    // The names count at the place that was named and nowhere else.
    differ(&profile, r#"{"trace_id":1}"#, r#"{"trace_id":2}"#);
    differ(&profile, r#"{"a":{"client_timestamp":1}}"#, r#"{"a":{"client_timestamp":2}}"#);
}

#[test]
fn what_holds_only_ignored_members_still_counts() {
    let profile = ignoring(["/meta/trace_id"]);
    same(&profile, r#"{"meta":{"trace_id":1}}"#, r#"{"meta":{}}"#);
    differ(&profile, r#"{"meta":{"trace_id":1}}"#, "{}");
    differ(&profile, r#"{"meta":1}"#, r#"{"meta":2}"#);
    differ(&profile, r#"{"meta":[1]}"#, r#"{"meta":[2]}"#);
}

#[test]
fn a_star_stands_for_any_element() {
    let profile = ignoring(["/items/*/sent_at"]);
    same(
        &profile,
        r#"{"items":[{"id":1,"sent_at":1},{"sent_at":2,"id":2}]}"#,
        r#"{"items":[{"id":1},{"id":2,"sent_at":3}]}"#,
    );
    differ(&profile, r#"{"items":[{"id":1},{"id":2}]}"#, r#"{"items":[{"id":2},{"id":1}]}"#);
    differ(&profile, r#"{"items":[{"id":1,"sent_at":1}]}"#, r#"{"items":[{"id":1},{"sent_at":1}]}"#);
    // In an object it is the member of that name.
    differ(&profile, r#"{"items":{"a":{"sent_at":1}}}"#, r#"{"items":{"a":{"sent_at":2}}}"#);
    same(&profile, r#"{"items":{"*":{"sent_at":1}}}"#, r#"{"items":{"*":{"sent_at":2}}}"#);
}

#[test]
fn an_ignored_element_keeps_its_place() {
    let any = ignoring(["/*"]);
    same(&any, "[1,2]", r#"[{"a":[]},"x"]"#);
    differ(&any, "[1,2]", "[1]");
    differ(&any, "[1]", "[]");

    let second = ignoring(["/1"]);
    same(&second, "[1,2,3]", "[1,9,3]");
    differ(&second, "[1,2,3]", "[1,3]");
    differ(&second, "[1,2,3]", "[2,1,3]");
    differ(&second, "[1,2]", "[1]");
    differ(&second, "[1,2,3]", "[1,3,2]");

    let inner = ignoring(["/*/0"]);
    same(&inner, "[[1,2],[3,4]]", "[[8,2],[9,4]]");
    differ(&inner, "[[1,2],[3,4]]", "[[2],[3,4]]");
}

#[test]
fn an_index_is_a_name_in_an_object_and_has_no_leading_zero_in_an_array() {
    same(&ignoring(["/0"]), r#"{"0":1}"#, r#"{"0":2}"#);
    same(&ignoring(["/10"]), "[0,1,2,3,4,5,6,7,8,9,10]", "[0,1,2,3,4,5,6,7,8,9,11]");
    for pointer in ["/00", "/01", "/+0", "/-", "/-0", "/ 0", "/99999999999999999999999999"] {
        differ(&ignoring([pointer]), "[1,2]", "[2,2]");
        differ(&ignoring([pointer]), "[2,1]", "[2,2]");
    }
    same(&ignoring(["/01"]), r#"{"01":1}"#, r#"{"01":2}"#);
}

#[test]
fn escapes_in_pointers_and_in_names_are_undone() {
    let profile = ignoring(["/a~1b", "/c~0d", "/~01", "/é", "/"]);
    same(&profile, r#"{"a\/b":1,"c~d":1,"~1":1,"\u00e9":1,"":1}"#, "{}");
    differ(&profile, r#"{"/":1}"#, r#"{"/":2}"#);
    differ(&profile, r#"{"~01":1}"#, r#"{"~01":2}"#);
}

#[test]
fn overlapping_pointers_ignore_what_each_names() {
    let profile = ignoring(["/a/*/x", "/a/0/y", "/a/1", "/b", "/b/c"]);
    same(
        &profile,
        r#"{"a":[{"x":1,"y":1,"z":1},{"q":1},{"x":1,"y":2}],"b":{"c":1}}"#,
        r#"{"a":[{"z":1},7,{"x":2,"y":2}]}"#,
    );
    differ(&profile, r#"{"a":[{"z":1},7,{"y":1}]}"#, r#"{"a":[{"z":1},7,{"y":2}]}"#);
    differ(&profile, r#"{"a":[{"z":1},7]}"#, r#"{"a":[{"z":2},7]}"#);
}

#[test]
fn ignored_values_leave_shuffled_neighbours_in_order() {
    let profile = ignoring(["/m", "/n/*/k"]);
    same(
        &profile,
        r#"{"z":{"b":1,"a":2},"m":{"y":1,"x":{"d":1,"c":2}},"n":[{"k":{"v":1,"u":2},"j":{"t":1,"s":2}}],"a":{"f":1,"e":2}}"#,
        r#"{"a":{"e":2,"f":1},"n":[{"j":{"s":2,"t":1}}],"z":{"a":2,"b":1}}"#,
    );
}

#[test]
fn only_what_is_selected_counts() {
    let profile = selecting(["/amount", "/card/number", "/items/*/id"]);
    let sent = r#"{"amount":1,"card":{"number":"4","name":"Z"},"items":[{"id":1,"n":1},{"n":2,"id":2}],"x":1}"#;
    same(
        &profile,
        sent,
        r#"{"items":[{"id":1},{"id":2.0,"q":[]}],"card":{"number":"4"},"amount":1.0,"y":{"amount":2}}"#,
    );
    for other in [
        r#"{"amount":2,"card":{"number":"4"},"items":[{"id":1},{"id":2}]}"#,
        r#"{"amount":1,"card":{"number":"5"},"items":[{"id":1},{"id":2}]}"#,
        r#"{"amount":1,"card":{},"items":[{"id":1},{"id":2}]}"#,
        r#"{"amount":1,"card":{"number":"4"},"items":[{"id":1}]}"#,
        r#"{"amount":1,"card":{"number":"4"},"items":[{"id":2},{"id":1}]}"#,
        r#"{"amount":1,"card":{"number":"4"},"items":[{},{"id":1},{"id":2}]}"#,
        r#"{"amount":1,"card":{"number":"4"},"items":{"0":{"id":1},"1":{"id":2}}}"#,
    ] {
        differ(&profile, sent, other);
    }
}

#[test]
fn a_value_under_another_selected_path_is_another_request() {
    let profile = selecting(["/a", "/b", "/c/a", "/d/*"]);
    let all =
        [r#"{"a":1}"#, r#"{"b":1}"#, r#"{"c":{"a":1}}"#, r#"{"d":[1]}"#, r#"{"d":[1,1]}"#, r#"{"a":{"a":1}}"#, "{}"];
    for (place, a) in all.iter().enumerate() {
        for b in &all[place + 1..] {
            differ(&profile, a, b);
        }
    }
}

#[test]
fn an_element_is_selected_with_its_index() {
    let profile = selecting(["/0", "/2"]);
    same(&profile, "[1,2,3,4]", "[1,7,3]");
    differ(&profile, "[1,2,3]", "[3,2,1]");
    differ(&profile, "[1,2,3]", "[1,3]");
    differ(&profile, "[1]", r#"{"0":1}"#);
    let many = selecting(["/*"]);
    let zeros = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    for count in [1, 40, 41, 42, 127, 128, 129, 300] {
        differ(&many, &zeros(count), &zeros(count + 1));
    }
}

#[test]
fn a_body_in_which_nothing_selected_is_present_has_a_fingerprint() {
    let profile = selecting(["/amount", "/card/number", "/items/*/id"]);
    for body in
        [r#"{"x":1}"#, "null", "[]", "[1]", "\"amount\"", r#"{"card":{"name":1}}"#, r#"{"card":4,"items":[{},[]]}"#]
    {
        same(&profile, body, "{}");
    }
    differ(&profile, "{}", r#"{"amount":null}"#);
    differ(&profile, "{}", "not json");
}

#[test]
fn a_selected_subtree_counts_whole() {
    let profile = selecting(["/a", "/a/b"]);
    differ(&profile, r#"{"a":{"b":1,"c":1}}"#, r#"{"a":{"b":1,"c":2}}"#);
    same(&profile, r#"{"x":0,"a":{"b":1,"c":{"e":1,"d":2}}}"#, r#"{"a":{"c":{"d":2,"e":1},"b":1}}"#);
}

#[test]
fn bytes_know_no_members() {
    for profile in [ignoring(["/a"]), selecting(["/b"])] {
        for (content_type, a, b) in [("text/plain", r#"{"a":1}"#, r#"{"a":2}"#), (JSON, r#"{"a":1}x"#, r#"{"a":2}x"#)] {
            assert_ne!(posted(&profile, content_type, a), posted(&profile, content_type, b));
        }
    }
}
