//! Digests that never change: a record outlives the program that wrote it.

use core::fmt::Write;

use idem_core::{Fingerprint, Fingerprinter, Profile, RequestIdentity, RequestParts};

use super::built;

const VECTORS: &str = include_str!("../../testdata/fingerprint/vectors.txt");

/// One vector: the lines that say what to compute, and the two that say what came of it.
#[derive(Default)]
struct Vector {
    title: String,
    input: Vec<(String, String)>,
    pinned: Vec<(String, String)>,
}

fn parse(text: &str) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            vectors.push(Vector { title: title.to_owned(), ..Vector::default() });
            continue;
        }
        let (field, value) = line.split_once(':').expect("a line is `field: value`");
        let value = value.strip_prefix(' ').unwrap_or(value);
        let vector = vectors.last_mut().expect("a vector starts with its title");
        let lines = if matches!(field, "profile id" | "digest") { &mut vector.pinned } else { &mut vector.input };
        lines.push((field.to_owned(), value.to_owned()));
    }
    vectors
}

impl Vector {
    fn all<'a>(&'a self, field: &'a str) -> impl Iterator<Item = &'a str> {
        self.input.iter().filter(move |(name, _)| name == field).map(|(_, value)| value.as_str())
    }

    fn one<'a>(&'a self, field: &'a str) -> Option<&'a str> {
        self.all(field).next()
    }

    fn profile(&self) -> Profile {
        let mut builder = Profile::builder();
        for pointer in self.all("ignore") {
            builder = builder.ignore([pointer]);
        }
        for pointer in self.all("only") {
            builder = builder.only([pointer]);
        }
        if let Some((key_id, secret)) = self.one("hmac").and_then(|key| key.split_once(' ')) {
            builder = builder.hmac(key_id, secret);
        }
        built(builder)
    }

    /// Lines of a body are joined by CRLF.
    fn body(&self) -> Vec<u8> {
        if let Some(hex) = self.one("body in hex") {
            let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
            return digits
                .chunks(2)
                .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("two hex digits"))
                .collect();
        }
        self.all("body").collect::<Vec<_>>().join("\r\n").into_bytes()
    }

    fn fingerprint(&self) -> Fingerprint {
        if let Some(operation) = self.one("json operation") {
            return Fingerprint::json(operation, &self.body());
        }
        if let Some(operation) = self.one("bytes operation") {
            return Fingerprint::bytes(operation, &self.body());
        }
        let (method, path) = self.one("request").and_then(|line| line.split_once(' ')).expect("a method and a path");
        let request = RequestParts::new(method, path, self.body())
            .query(self.one("query"))
            .content_type(self.one("content-type").map(str::as_bytes))
            .content_encoding(self.one("content-encoding").map(str::as_bytes));
        Fingerprinter::new(self.profile()).fingerprint(request).fingerprint()
    }

    fn computed(&self) -> Vec<(String, String)> {
        let fingerprint = self.fingerprint();
        let digest = fingerprint.digest().iter().map(|byte| format!("{byte:02x}")).collect();
        vec![
            ("profile id".to_owned(), format!("{:016x}", fingerprint.profile().to_bits())),
            ("digest".to_owned(), digest),
        ]
    }
}

#[test]
fn every_vector_keeps_its_digest() {
    let vectors = parse(VECTORS);
    assert_eq!(vectors.len(), 41, "a vector is added or changed on purpose only");
    let mut changed = String::new();
    for vector in &vectors {
        if vector.computed() != vector.pinned {
            writeln!(changed, "== {}", vector.title).expect("a string takes every character");
            for (field, value) in vector.computed() {
                writeln!(changed, "{field}: {value}").expect("a string takes every character");
            }
        }
    }
    assert!(changed.is_empty(), "these came out otherwise; stored records would no longer match:\n{changed}");
}

#[test]
fn vectors_of_one_group_share_a_digest_and_groups_do_not() {
    let vectors = parse(VECTORS);
    for (place, a) in vectors.iter().enumerate() {
        for b in &vectors[place + 1..] {
            let one_group = a.one("same as").unwrap_or(&a.title) == b.one("same as").unwrap_or(&b.title);
            assert_eq!(a.pinned == b.pinned, one_group, "{} and {}", a.title, b.title);
        }
    }
}
