use core::time::Duration;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use super::random::unlike_any_other;
use super::user::User;

/// One program at a time in a folder of its own. Both are gone soon after this process has ended, and at once where
/// this is dropped.
#[derive(Debug)]
pub(super) struct Supervised {
    folder: PathBuf,
    /// Its standard input is the pipe whose end it waits for.
    supervisor: Mutex<Child>,
}

/// How a program ends that is no longer wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// By SIGKILL: it leaves nothing behind.
    Killed,
    /// By SIGQUIT, on which it ends its own children at once.
    Quit,
}

/// For whatever should take a moment: after this long it has not happened.
const PATIENCE: Duration = Duration::from_secs(60);

impl Supervised {
    /// Makes the folder. Nothing runs yet.
    pub(super) fn new(user: &User, end: End) -> Self {
        let folder = std::env::temp_dir().join(format!("idem-tests-{:016x}", unlike_any_other()));
        let end = match end {
            End::Killed => "KILL",
            End::Quit => "QUIT",
        };
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", include_str!("supervised.sh"), "supervised"]).arg(&folder).arg(end);
        // What a test puts before its own libraries, such as another clock, is not for servers.
        supervisor.env("LC_ALL", "C").env_remove("LD_PRELOAD").current_dir("/").process_group(0);
        user.runs(&mut supervisor);
        supervisor.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut supervisor = supervisor.spawn().expect("there is a shell");
        let mut line = String::new();
        BufReader::new(supervisor.stdout.take().expect("it is piped")).read_line(&mut line).unwrap();
        assert_eq!(line, "made\n", "{user:?} cannot make {}: give a TMPDIR for everybody", folder.display());
        Self { folder, supervisor: Mutex::new(supervisor) }
    }

    /// Its folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the program of this shell text, which ends in `exec`. None may be running.
    pub(super) fn start(&self, text: &str) {
        assert!(!text.contains('\n'), "the supervisor reads it as one line: {text:?}");
        for left in ["pid", "ended"] {
            match std::fs::remove_file(self.folder.join(left)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{left}: {error}"),
                _ => (),
            }
        }
        let mut supervisor = self.supervisor.lock().unwrap();
        let input = supervisor.stdin.as_mut().expect("it is piped");
        writeln!(input, "{text}").expect("the supervisor lives");
    }

    /// The process id of the program, once it has one.
    pub(super) fn id(&self) -> Option<i32> {
        std::fs::read_to_string(self.folder.join("pid")).ok()?.trim_end().parse().ok()
    }

    /// Whether the program was started and has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.folder.join("ended").exists()
    }

    /// What the program has written.
    pub(super) fn log(&self) -> String {
        let log = std::fs::read(self.folder.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Waits until the program is as wanted; an error is its log, where it ended before.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<(), String> {
        let since = Instant::now();
        while !is_so() {
            if self.has_ended() {
                return Err(self.log());
            }
            assert!(since.elapsed() < PATIENCE, "in {PATIENCE:?}, not yet: {what}. Its log:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Ok(supervisor) = self.supervisor.get_mut() {
            drop(supervisor.stdin.take());
            let _ = supervisor.wait();
        }
    }
}

/// One word of shell text, whatever is in it.
pub(super) fn word(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_str().expect("a path in UTF-8");
    format!("'{}'", text.replace('\'', r"'\''"))
}
