use core::time::Duration;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use http::Method;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::Call;

/// The payments API in a process of its own. Killed when it is dropped; its log is shown where the test fails.
#[derive(Debug)]
pub struct Server {
    process: Child,
    address: SocketAddr,
    log: Log,
    readers: Vec<JoinHandle<()>>,
}

/// What a process left.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Everything it wrote, from its first line on.
    pub log: String,
}

type Log = Arc<Mutex<String>>;

/// For whatever should take a moment: after this long it has not happened.
const PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// Starts the program on a free port of this machine, and waits until it listens.
    pub async fn start(program: &str, options: &[&str]) -> Self {
        let mut process = without_core(program)
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .env("RUST_LOG", "info")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = Log::default();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let reading_errors = tokio::spawn(read(stderr, Arc::clone(&log)));

        let mut line = String::new();
        tokio::time::timeout(PATIENCE, stdout.read_line(&mut line)).await.expect("a line within the time").unwrap();
        let address = line.trim_end().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("it said {line:?}, and {}", log.lock().unwrap()));
        let reading = tokio::spawn(read(stdout, Arc::clone(&log)));
        Self { process, address, log, readers: vec![reading_errors, reading] }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id().expect("it still runs")
    }

    /// Somebody who calls it.
    #[must_use]
    pub fn caller(&self, name: &str) -> Caller {
        Caller { address: self.address, name: name.to_owned() }
    }

    /// A request of nobody.
    #[must_use]
    pub fn call(&self, method: Method, path: &str) -> Call {
        Call::new(self.address, method, path)
    }

    /// Every charge that its bank has made, in order.
    pub async fn ledger(&self) -> Vec<Charge> {
        let answer = self.call(Method::GET, "/ledger").send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The ids of every charge that its bank has made, in order.
    pub async fn charged_ids(&self) -> Vec<String> {
        self.ledger().await.into_iter().map(|charge| charge.id).collect()
    }

    /// Holds it to be alive and well.
    pub async fn assert_healthy(&self) {
        let answer = self.call(Method::GET, "/healthz").send().await;
        assert_eq!((answer.status, &*answer.body), (200, &b"ok"[..]));
    }

    /// The value of one line of its metrics; 0 where it has none.
    pub async fn metric(&self, line: &str) -> f64 {
        let answer = self.call(Method::GET, "/metrics").send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let value = text.lines().find_map(|metric| metric.strip_prefix(line)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until this many attempts run.
    pub async fn until_in_flight(&self, attempts: u32) {
        eventually("the attempts run", async || self.metric("idempotency_in_flight").await >= f64::from(attempts))
            .await;
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Kills it at once, as a crash would, and waits until it is gone.
    pub async fn kill(mut self) -> Ended {
        self.process.start_kill().expect("it still runs");
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub async fn ended(mut self) -> Ended {
        let status = tokio::time::timeout(PATIENCE, self.process.wait()).await.expect("it ends").unwrap();
        for reader in core::mem::take(&mut self.readers) {
            reader.await.unwrap();
        }
        Ended { status, log: self.log() }
    }
}

/// A program that leaves no core behind when it is told to abort.
#[cfg(unix)]
fn without_core(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\"", program]);
    command
}

#[cfg(not(unix))]
fn without_core(program: &str) -> Command {
    Command::new(program)
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log\n{}---", self.log.lock().unwrap());
        }
    }
}

async fn read(mut output: impl AsyncRead + AsyncBufReadExt + Unpin, log: Log) {
    let mut line = String::new();
    while output.read_line(&mut line).await.is_ok_and(|bytes| bytes > 0) {
        log.lock().unwrap().push_str(&line);
        line.clear();
    }
}

/// Waits for what is bound to happen.
pub async fn eventually(what: &str, has_happened: impl AsyncFn() -> bool) {
    let polling = async {
        while !has_happened().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polling).await.unwrap_or_else(|_| panic!("in {PATIENCE:?}, not yet: {what}"));
}

/// Somebody with a name.
#[derive(Clone, Debug)]
pub struct Caller {
    address: SocketAddr,
    name: String,
}

impl Caller {
    /// `POST`s to a path.
    #[must_use]
    pub fn post(&self, path: &str) -> Call {
        self.call(Method::POST, path)
    }

    /// `GET`s a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Call {
        self.call(Method::GET, path)
    }

    /// Pays [`ORDER`](crate::ORDER) under a key.
    #[must_use]
    pub fn pay(&self, key: &str) -> Call {
        self.post("/payments").key(key).json(crate::ORDER)
    }

    fn call(&self, method: Method, path: &str) -> Call {
        Call::new(self.address, method, path).header("authorization", format!("Bearer {}", self.name))
    }
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// What the charge is called.
    pub id: String,
    /// Payment, refund or like.
    pub kind: String,
    /// For whom.
    pub principal: String,
    /// How much.
    pub amount: Option<String>,
    /// Of what.
    pub currency: Option<String>,
    /// By which attempt.
    pub epoch: Option<u64>,
    /// The key that the bank was called with.
    pub bank_key: Option<String>,
}
