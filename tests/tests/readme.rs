//! The walks through the example in the READMEs, run as they stand there.
#![cfg(unix)]
#![allow(clippy::panic, reason = "a test may")]

use core::time::Duration;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use idem_tests::postgres::Database;
use idem_tests::{Server, payments};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
const PAYMENTS_README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/payments/README.md");

/// Set, it makes the document say what was answered, in place of a comparison.
const UPDATE: &str = "IDEM_UPDATE_README";

#[tokio::test]
async fn every_command_of_the_walk_through_is_answered_as_it_says() {
    for (path, at_least) in [(README, 8), (PAYMENTS_README, 3)] {
        Walk { path, fence: "```console", at_least }.go(InMemory::start).await;
    }
}

#[tokio::test]
async fn every_command_of_the_walk_through_over_postgres_is_answered_as_it_says() {
    Walk { path: PAYMENTS_README, fence: "```console postgres", at_least: 12 }.go(OverPostgres::start).await;
}

/// How often a walk may differ from its document. The document tells of clients that hang up after 100 ms: a machine
/// that stands still for that long at the wrong moment makes another story of it, though never one with two charges.
const TRIES: usize = 3;

/// The commands of one document, in the blocks that begin with `fence`.
struct Walk {
    path: &'static str,
    fence: &'static str,
    at_least: usize,
}

impl Walk {
    async fn go<P: Place>(&self, start: impl AsyncFn() -> P) {
        let text = std::fs::read_to_string(self.path).expect("the README is there");
        let mut document = Document::parse(&text, self.fence);
        if std::env::var_os(UPDATE).is_some() {
            document.take(run(&document, &start().await).await);
            std::fs::write(self.path, document.to_text()).expect("the README can be written");
            return;
        }
        let count = document.commands().count();
        assert!(count >= self.at_least, "only {count} commands were found in {}", self.path);

        let mut differs = None;
        for _ in 0..TRIES {
            let place = start().await;
            let outputs = run(&document, &place).await;
            let charged = place.charged_keys().await;
            let keys: std::collections::HashSet<_> = charged.iter().collect();
            assert_eq!(keys.len(), charged.len(), "a key was charged twice: {outputs:#?}");
            differs = first_difference(&document, &outputs);
            if differs.is_none() {
                return;
            }
        }
        panic!("{}\nIf that is right: {UPDATE}=1 cargo test -p idem-tests --test readme", differs.unwrap_or_default());
    }
}

/// Where a walk leads.
trait Place {
    /// What the document writes, and what stands for it here.
    fn names(&self) -> Vec<(&'static str, String)>;

    /// A folder of programs that the document takes to be installed.
    fn programs(&self) -> Option<&Path>;

    /// The key of every charge that was made.
    async fn charged_keys(&self) -> Vec<Option<String>>;
}

/// A server that is there before the first command.
struct InMemory(Server);

impl InMemory {
    async fn start() -> Self {
        Self(payments!().await)
    }
}

impl Place for InMemory {
    fn names(&self) -> Vec<(&'static str, String)> {
        vec![("127.0.0.1:3000", self.0.address().to_string())]
    }

    fn programs(&self) -> Option<&Path> {
        None
    }

    async fn charged_keys(&self) -> Vec<Option<String>> {
        self.0.ledger().await.into_iter().map(|charge| charge.bank_key).collect()
    }
}

/// A database, and a program `payments` that the commands start.
struct OverPostgres {
    database: Database,
    addresses: [String; 2],
    programs: PathBuf,
}

impl OverPostgres {
    async fn start() -> Self {
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let place = format!("walk-{}-{}", std::process::id(), PLACES.fetch_add(1, Ordering::SeqCst));
        let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place);
        std::fs::create_dir_all(&programs).expect("a folder of this test");
        let payments = programs.join("payments");
        let text = format!("#!/bin/sh\nulimit -c 0\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_payments-under-test"));
        std::fs::write(&payments, text).expect("the folder can be written");
        std::fs::set_permissions(&payments, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self { database: Database::create().await, addresses: [(); 2].map(|()| free_address()), programs }
    }
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

impl Place for OverPostgres {
    fn names(&self) -> Vec<(&'static str, String)> {
        let [one, other] = self.addresses.clone();
        let url = self.database.url();
        let claim = format!("{url}{}mode=claim", if url.contains('?') { '&' } else { '?' });
        vec![
            ("127.0.0.1:3000", one),
            ("127.0.0.1:3001", other),
            ("postgres://localhost/shop?mode=claim", claim),
            ("postgres://localhost/shop", url.to_owned()),
        ]
    }

    fn programs(&self) -> Option<&Path> {
        Some(&self.programs)
    }

    async fn charged_keys(&self) -> Vec<Option<String>> {
        let mut connection = PgConnection::connect(self.database.url()).await.expect("it is there");
        let keys = sqlx::query_scalar("SELECT bank_key FROM payments_ledger").fetch_all(&mut connection).await;
        keys.expect("the commands have started the program")
    }
}

impl Drop for OverPostgres {
    fn drop(&mut self) {
        // What is left is in the folder of the build.
        let _ = std::fs::remove_dir_all(&self.programs);
    }
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
    /// Takes the commands from the blocks that begin with `fence`: lines that start with `$ `.
    fn parse(text: &str, fence: &str) -> Self {
        let mut parts = Vec::new();
        let mut is_console = false;
        for line in text.lines() {
            match (is_console, line.strip_prefix("$ "), parts.last_mut()) {
                (_, _, _) if line.starts_with("```") => {
                    is_console = line == fence;
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

/// Runs the commands in one shell, one after the other, at this place.
async fn run(document: &Document, place: &impl Place) -> Vec<String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut shell = tokio::process::Command::new("bash");
    shell.env("HOME", home).env("CURL_HOME", home).env("NO_PROXY", "*").env("LC_ALL", "C").stdin(Stdio::null());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if let Some(programs) = place.programs() {
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", programs.display()));
    }

    let names = place.names();
    let mut script = String::from("exec 2>&1\ncurl --version > /dev/null || exit 100\n");
    for (command, _) in document.commands() {
        script.push_str(&names.iter().fold(command.to_owned(), |text, (written, here)| text.replace(written, here)));
        script.push_str(&format!("\nprintf '{NEXT}'\n"));
    }
    let shell = shell.arg("-c").arg(script).spawn().expect("this test needs bash");
    let group = Group(Pid::from_raw(i32::try_from(shell.id().expect("it runs")).expect("a process id")));
    let ran = tokio::time::timeout(Duration::from_secs(60), shell.wait_with_output()).await;
    drop(group);
    let ran = ran.expect("the commands end").expect("the shell ends");
    let output = String::from_utf8(ran.stdout).expect("text");
    assert_ne!(ran.status.code(), Some(100), "this test needs curl: {output}");

    let output = output.replace("\r\n", "\n");
    let output = names.iter().fold(output, |text, (written, here)| text.replace(here, written));
    let mut outputs: Vec<_> = output.split(NEXT).map(str::to_owned).collect();
    assert_eq!(outputs.pop().as_deref(), Some(""), "the last command has not ended");
    assert_eq!(outputs.len(), document.commands().count());
    outputs
}

/// The shell and everything that its commands have left running; ends with this.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // Nobody may be left.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

/// The lines of an output, without what differs from run to run.
fn comparable(output: &str) -> Vec<String> {
    output.lines().map(comparable_line).collect()
}

fn comparable_line(line: &str) -> String {
    if let Some(header) = ["date: ", "curl: (28) ", "curl: (52) "].into_iter().find(|header| line.starts_with(header)) {
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
