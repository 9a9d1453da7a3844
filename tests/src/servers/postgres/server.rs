use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::servers::ports;
use crate::servers::processes::{any_runs, children_of, signal};
use crate::servers::programs::{Programs, versions_under};
use crate::servers::supervised::{End, Supervised, word};
use crate::servers::user::User;

/// A private server, started from installed programs, for a test that stops, kills or configures it. It ends with the
/// test, its data with it.
///
/// Its superuser is `postgres`, who needs no password. Its database is `postgres`.
#[derive(Debug)]
pub struct Server {
    supervised: Supervised,
    /// What starts it, all but the port.
    text: String,
    port: u16,
}

impl Server {
    /// Starts a server with the options that tests usually have.
    pub async fn create() -> Self {
        Self::create_with(&[]).await
    }

    /// Starts a server with these options beside those that tests usually have; where they differ, these win.
    pub async fn create_with(options: &[(&str, &str)]) -> Self {
        let installed = Installed::find();
        let installed = installed.unwrap_or_else(|error| panic!("no server for this test alone: {error}"));
        Self::of(&installed, options).await
    }

    pub(super) async fn of(installed: &Installed, options: &[(&str, &str)]) -> Self {
        let supervised = Supervised::new(&User::unprivileged(&["postgres", "nobody"]), End::Quit);
        let text = text(installed, supervised.folder(), options);
        let mut server = Self { supervised, text, port: 0 };
        for _ in 0..5 {
            server.port = ports::free();
            match server.try_start().await {
                Ok(()) => return server,
                Err(log) if log.contains("could not bind") => (),
                Err(log) => panic!("Postgres does not start:\n{log}"),
            }
        }
        panic!("no port is free for Postgres:\n{}", server.supervised.log());
    }

    /// The URL of one of its databases, for its superuser.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// A program that comes with it, such as `pgbench`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        let installed = Installed::find().unwrap_or_else(|error| panic!("the server is gone: {error}"));
        installed.folder.join(name)
    }

    /// Kills all of its processes at once with SIGKILL, and waits until they are gone: a crash.
    pub async fn kill(&self) {
        let processes = self.stopped_processes();
        for &process in &processes {
            signal(process, Signal::SIGKILL);
        }
        self.supervised.until("the killed server ends", || self.supervised.has_ended()).await.expect("it has ended");
        let supervised = &self.supervised;
        let _ = supervised.until("its children end", || !any_runs(&processes)).await;
    }

    /// Shuts it down in good order, and waits until it is gone. Whoever is connected loses the connection.
    pub async fn stop(&self) {
        signal(self.id(), Signal::SIGINT);
        self.supervised.until("the server shuts down", || self.supervised.has_ended()).await.expect("it has ended");
    }

    /// Starts it again after [`kill`](Self::kill) or [`stop`](Self::stop), with the same data on the same port, and waits
    /// until it accepts connections.
    pub async fn start(&self) {
        self.try_start().await.unwrap_or_else(|log| panic!("Postgres does not start again:\n{log}"));
    }

    /// Shuts it down in good order and starts it again.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Halts all of its processes with SIGSTOP: connections stay open, and nobody answers.
    pub fn pause(&self) {
        self.stopped_processes();
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        resume(self.id());
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.supervised.log()
    }

    async fn try_start(&self) -> Result<(), String> {
        self.supervised.start(&format!("{} -p {}", self.text, self.port));
        self.supervised.until("Postgres accepts connections", || self.is_ready()).await
    }

    /// As `pg_ctl` finds it out.
    fn is_ready(&self) -> bool {
        let Ok(status) = std::fs::read_to_string(self.supervised.folder().join("data/postmaster.pid")) else {
            return false;
        };
        let lines: Vec<&str> = status.lines().map(str::trim).collect();
        let id = self.supervised.id().map(|id| id.to_string());
        lines.first().copied() == id.as_deref() && lines.get(7) == Some(&"ready")
    }

    /// Its first process, whose children all others are.
    fn id(&self) -> i32 {
        assert!(!self.supervised.has_ended(), "the server is down. Its log:\n{}", self.log());
        self.supervised.id().expect("it was started")
    }

    /// All of its processes, which do nothing any more.
    fn stopped_processes(&self) -> Vec<i32> {
        let parent = self.id();
        signal(parent, Signal::SIGSTOP);
        let children = children_of(parent);
        for &child in &children {
            signal(child, Signal::SIGSTOP);
        }
        core::iter::once(parent).chain(children).collect()
    }
}

fn resume(parent: i32) {
    for process in children_of(parent) {
        signal(process, Signal::SIGCONT);
    }
    signal(parent, Signal::SIGCONT);
}

/// What a private server is started with, where the test says nothing else.
const OPTIONS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("max_connections", "300"),
    // A machine that crashes ends the test as well.
    ("fsync", "off"),
    // In the data folder, not in /dev/shm, which nobody would clean up after a killed server.
    ("dynamic_shared_memory_type", "mmap"),
    ("unix_socket_directories", "."),
];

/// The shell text that makes the data folder, where there is none yet, and becomes the server.
fn text(installed: &Installed, folder: &Path, options: &[(&str, &str)]) -> String {
    let data = word(folder.join("data"));
    let options = OPTIONS.iter().chain(options);
    let options: String = options.map(|(name, value)| format!(" -c {}", word(format!("{name}={value}")))).collect();
    format!(
        "{{ [ -e data/PG_VERSION ] || {} -D {data} -U postgres -A trust -E UTF8 --locale=C --no-sync; }} && \
         exec {} -D {data}{options}",
        word(installed.folder.join("initdb")),
        word(installed.folder.join("postgres")),
    )
}

/// The programs of one installed version.
#[derive(Debug)]
pub(super) struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// An error says what to install.
    pub(super) fn find() -> Result<Self, &'static str> {
        Self::among(&Programs::installed(versions_under(Path::new("/usr/lib/postgresql"))))
    }

    fn among(programs: &Programs) -> Result<Self, &'static str> {
        let folder = programs.folder_of(&["initdb", "postgres"]).ok_or(
            "its programs `initdb` and `postgres` are neither in PATH nor under /usr/lib/postgresql/*/bin. \
             Run scripts/install, or install Postgres (Debian: apt-get install postgresql)",
        )?;
        // `PATH` may have links to these two alone; beside the programs themselves is all that belongs to them.
        let initdb = folder.join("initdb").canonicalize().expect("it was found just now");
        Ok(Self { folder: initdb.parent().expect("it is in a folder").to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Halted processes do not hear that they are to end.
        if let Some(id) = self.supervised.id().filter(|_| !self.supervised.has_ended()) {
            resume(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_postgres_is_installed_the_error_says_what_to_install() {
        let error = Installed::among(&Programs::nowhere()).unwrap_err();

        assert!(error.contains("scripts/install"), "{error}");
        assert!(error.contains("apt-get install postgresql"), "{error}");
    }
}
