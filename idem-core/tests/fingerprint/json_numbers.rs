//! Numbers are equal if and only if they are the same exact value.

use super::{is_canonical, json};

#[track_caller]
fn one_number(spellings: &[&str]) {
    for spelling in spellings {
        assert!(is_canonical(spelling.as_bytes()), "{spelling}");
        assert_eq!(json(spelling), json(spellings[0]), "{spelling} and {}", spellings[0]);
    }
}

#[track_caller]
fn different_numbers(spellings: &[&str]) {
    for (place, a) in spellings.iter().enumerate() {
        assert!(is_canonical(a.as_bytes()), "{a}");
        for b in &spellings[place + 1..] {
            assert_ne!(json(a), json(b), "{a} and {b}");
        }
    }
}

#[test]
fn spellings_of_one_number_are_one_number() {
    one_number(&["1", "1.0", "1.000", "10e-1", "0.1e1", "0.01E+2", "100e-2", "1e0", "1e-0", "1e+00"]);
    one_number(&["12.5", "12.50", "1250e-2", "0.125e2", "1.25E1", "125e-0001"]);
    one_number(&["1500", "1.5e3", "15e2", "1500.0", "150e1", "0.00015e7"]);
    one_number(&["-20", "-2e1", "-0.2E2", "-20.0"]);
    one_number(&["100", "1e2", "1.00e2", "10.0e1"]);
    one_number(&["0.001", "1e-3", "0.1e-2", "0.0010"]);
}

#[test]
fn zero_has_no_sign_and_no_exponent() {
    one_number(&["0", "-0", "0.0", "-0.000", "0e5", "-0E-5", "0.0e99999999999999999999999999999999999999999", "0e+0"]);
    different_numbers(&["0", "1", "-1", "1e-400", "-1e-999999999999999999999999999999999999999"]);
}

#[test]
fn what_a_double_takes_for_one_number_stays_two() {
    different_numbers(&["9007199254740993", "9007199254740992", "9007199254740993.5"]);
    different_numbers(&["12345678901234567890", "12345678901234567891"]);
    different_numbers(&["0.1", "0.1000000000000000055", "0.1000000000000000055511151231257827021181583404541015625"]);
    different_numbers(&["1e400", "1e401", "2e400", "-1e400", "1.7976931348623157e308"]);
    different_numbers(&["1e-400", "1e-401", "2e-400", "-1e-400", "5e-324", "0"]);
    different_numbers(&[
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
    ]);
    different_numbers(&["1", "-1", "10", "0.1", "11", "1.1", "1e11"]);
}

#[test]
fn exponents_of_any_length_keep_their_value() {
    one_number(&["1e99999999999999999999999999", "10e99999999999999999999999998", "0.1e100000000000000000000000000"]);
    let nines = "9".repeat(60);
    let power = format!("1{}", "0".repeat(60));
    one_number(&[
        &format!("1e{power}"),
        &format!("10e{nines}"),
        &format!("0.1e{}1", &power[..60]),
        &format!("1.0E+000{power}"),
    ]);
    one_number(&[&format!("1e-{power}"), &format!("0.1e-{nines}"), &format!("10e-{}1", &power[..60])]);
    one_number(&[&format!("1e{nines}"), &format!("0.1e{power}"), &format!("100e{}7", &nines[..59])]);
    one_number(&[&format!("1e-{nines}"), &format!("10e-{power}"), &format!("0.01e-{}7", &nines[..59])]);
    different_numbers(&[
        &format!("1e{nines}"),
        &format!("1e{power}"),
        &format!("1e-{nines}"),
        &format!("1e-{power}"),
        "1",
    ]);
}

#[test]
fn sums_at_the_edge_of_machine_integers_are_exact() {
    // Exponents change from machine arithmetic to digits between 36 and 37 digits: both must spell alike.
    for digits in [1, 17, 18, 19, 20, 35, 36, 37, 38, 39, 40] {
        let (nines, power) = ("9".repeat(digits), format!("1{}", "0".repeat(digits)));
        one_number(&[&format!("1e{power}"), &format!("10e{nines}")]);
        one_number(&[&format!("1e-{power}"), &format!("0.1e-{nines}")]);
        one_number(&[&format!("1e{nines}"), &format!("0.1e{power}")]);
        different_numbers(&[
            &format!("1e{nines}"),
            &format!("1e{power}"),
            &format!("1e-{nines}"),
            &format!("1e-{power}"),
        ]);
    }
}

#[test]
fn long_digits_and_long_exponents_meet() {
    let zeros = "0".repeat(5000);
    one_number(&["1", &format!("1{zeros}e-5000"), &format!("0.{}1e5000", &zeros[1..]), &format!("1.{zeros}")]);
    one_number(&[&format!("1{zeros}"), "1e5000", &format!("1{zeros}.{zeros}e0{zeros}")]);
    different_numbers(&["1e5000", "1e5001", "1e-5000", &format!("1{zeros}1"), &format!("1.{zeros}1")]);
}

#[test]
fn a_number_is_not_its_text() {
    assert_ne!(json("1"), json("\"1\""));
    assert_ne!(json("1e400"), json("\"1e400\""));
}
