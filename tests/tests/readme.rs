//! The walks through the example in both READMEs, run as they stand there.
#![cfg(unix)]
#![allow(clippy::panic, reason = "a test may")]

use std::path::Path;
use std::process::Stdio;

use idem_tests::{Server, payments};
use serde_json::Value;

const READMES: [(&str, usize); 2] = [
    (concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md"), 8),
    (concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/payments/README.md"), 3),
];

/// Set, it makes the document say what was answered, in place of a comparison.
const UPDATE: &str = "IDEM_UPDATE_README";

/// Where the document says that the server listens.
const DOCUMENTED: &str = "127.0.0.1:3000";

#[tokio::test]
async fn every_command_of_the_walk_through_is_answered_as_it_says() {
    for (path, commands) in READMES {
        walk_through(path, commands).await;
    }
}

/// How often a walk may differ from its document. The document tells of clients that hang up after 100 ms: a machine
/// that stands still for that long at the wrong moment makes another story of it, though never one with two charges.
const TRIES: usize = 3;

/// Walks through one document, which has at least so many commands.
async fn walk_through(path: &str, at_least: usize) {
    let text = std::fs::read_to_string(path).expect("the README is there");
    let mut document = Document::parse(&text);
    if std::env::var_os(UPDATE).is_some() {
        document.take(run(&document, &payments!().await).await);
        std::fs::write(path, document.to_text()).expect("the README can be written");
        return;
    }
    let count = document.commands().count();
    assert!(count >= at_least, "only {count} commands were found in {path}");

    let mut differs = None;
    for _ in 0..TRIES {
        let server = payments!().await;
        let outputs = run(&document, &server).await;
        let charges = server.ledger().await;
        let keys: std::collections::HashSet<_> = charges.iter().map(|charge| &charge.bank_key).collect();
        assert_eq!(keys.len(), charges.len(), "a key was charged twice: {outputs:#?}");
        differs = first_difference(&document, &outputs);
        if differs.is_none() {
            return;
        }
    }
    panic!("{}\nIf that is right: {UPDATE}=1 cargo test -p idem-tests --test readme", differs.unwrap_or_default());
}

/// Says which command is answered otherwise than the document says.
fn first_difference(document: &Document, outputs: &[String]) -> Option<String> {
    let answered = document.commands().zip(outputs);
    let differs = |((_, documented), output): &((&str, &str), &String)| comparable(documented) != comparable(output);
    let ((command, documented), output) = answered.into_iter().find(differs)?;
    Some(format!("$ {command}\nThe document says:\n{documented}\nIt answers now:\n{output}"))
}

/// A document, as commands with their outputs and the text around them.
struct Document(Vec<Part>);

enum Part {
    Text(String),
    Command { command: String, output: String },
}

impl Document {
    /// Takes the commands from the blocks marked `console`: lines that start with `$ `.
    fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut is_console = false;
        for line in text.lines() {
            match (is_console, line.strip_prefix("$ "), parts.last_mut()) {
                (_, _, _) if line.starts_with("```") => {
                    is_console = line == "```console";
                    parts.push(Part::Text(format!("{line}\n")));
                }
                (true, Some(command), _) => {
                    parts.push(Part::Command { command: command.to_owned(), output: String::new() });
                }
                (true, None, Some(Part::Command { output, .. })) => {
                    output.push_str(line);
                    output.push('\n');
                }
                _ => parts.push(Part::Text(format!("{line}\n"))),
            }
        }
        Self(parts)
    }

    fn commands(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|part| match part {
            Part::Command { command, output } => Some((&**command, &**output)),
            Part::Text(_) => None,
        })
    }

    fn take(&mut self, new: Vec<String>) {
        let mut new = new.into_iter();
        for part in &mut self.0 {
            if let Part::Command { output, .. } = part {
                *output = new.next().expect("an output for each command");
            }
        }
    }

    fn to_text(&self) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Command { command, output } => format!("$ {command}\n{output}"),
        });
        parts.collect()
    }
}

/// Stands between the outputs of two commands.
const NEXT: &str = "\u{1e}next\n";

/// Runs the commands in one shell, one after the other, against this server.
async fn run(document: &Document, server: &Server) -> Vec<String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut shell = tokio::process::Command::new("bash");
    shell.env("HOME", home).env("CURL_HOME", home).env("NO_PROXY", "*").env("LC_ALL", "C").stdin(Stdio::null());
    shell.kill_on_drop(true);

    let mut script = String::from("exec 2>&1\ncurl --version > /dev/null || exit 100\n");
    for (command, _) in document.commands() {
        script.push_str(&command.replace(DOCUMENTED, &server.address().to_string()));
        script.push_str(&format!("\nprintf '{NEXT}'\n"));
    }
    let ran = shell.arg("-c").arg(script).output();
    let ran = tokio::time::timeout(core::time::Duration::from_secs(60), ran).await.expect("the commands end");
    let ran = ran.expect("this test needs bash");
    let output = String::from_utf8(ran.stdout).expect("text");
    assert_ne!(ran.status.code(), Some(100), "this test needs curl: {output}");

    let output = output.replace("\r\n", "\n").replace(&server.address().to_string(), DOCUMENTED);
    let mut outputs: Vec<_> = output.split(NEXT).map(str::to_owned).collect();
    assert_eq!(outputs.pop().as_deref(), Some(""), "the last command has not ended");
    assert_eq!(outputs.len(), document.commands().count());
    outputs
}

/// The lines of an output, without what differs from run to run.
fn comparable(output: &str) -> Vec<String> {
    output.lines().map(comparable_line).collect()
}

fn comparable_line(line: &str) -> String {
    if let Some(header) = ["date: ", "curl: (28) "].into_iter().find(|header| line.starts_with(header)) {
        return format!("{header}…");
    }
    // One entry of the ledger stands on one line, with a comma behind it.
    let (json, comma) = line.strip_suffix(',').map_or((line, ""), |json| (json, ","));
    match serde_json::from_str::<Value>(json) {
        Ok(mut value @ Value::Object(_)) => {
            if value["retry_after_ms"].is_number() {
                value["retry_after_ms"] = "…".into();
            }
            without_ids(&value.to_string()) + comma
        }
        _ => without_ids(line),
    }
}

/// `pay_` and sixteen hexadecimal digits become `pay_…`.
fn without_ids(line: &str) -> String {
    let mut parts = line.split("pay_");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        rest.push_str(if digits == 16 { "pay_…" } else { "pay_" });
        rest.push_str(if digits == 16 { &part[16..] } else { part });
    }
    rest
}

#[test]
fn only_what_differs_from_run_to_run_is_left_out_of_the_comparison() {
    let same = |a: &str, b: &str| assert_eq!(comparable(a), comparable(b));
    same("location: /payments/pay_0123456789abcdef", "location: /payments/pay_fedcba9876543210");
    same("date: Tue, 01 Dec 2026 14:54:33 GMT", "date: Wed, 02 Dec 2026 14:54:33 GMT");
    same(r#"{"a":1,"retry_after_ms":512}"#, r#"{"retry_after_ms":730,"a":1}"#);
    same("curl: (28) Operation timed out after 100 milliseconds", "curl: (28) Timeout was reached");

    let differ = |a: &str, b: &str| assert_ne!(comparable(a), comparable(b));
    differ("HTTP/1.1 201 Created", "HTTP/1.1 200 OK");
    differ("location: /payments/pay_0123456789abcdef", "location: /payments/pay_0123");
    differ(r#"{"amount":"1.00"}"#, r#"{"amount":"1.0"}"#);
    differ(r#"{"id":"pay_0123456789abcdef"},"#, r#"{"id":"pay_0123456789abcdef"}"#);
    differ("idempotent-replayed: true\n", "");
}
