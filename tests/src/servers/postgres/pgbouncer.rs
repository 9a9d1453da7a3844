use std::path::PathBuf;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::database::url_of;
use crate::servers::ports;
use crate::servers::programs::Programs;
use crate::servers::supervised::{End, Supervised, word};
use crate::servers::user::User;

/// `PgBouncer` in transaction mode, before the server of one URL. It ends with the test.
///
/// It lets everybody of this machine in, and is to the server whoever the URL names. Of what a client sets as it
/// connects, it takes what it can track, ignores `extra_float_digits`, and refuses the rest.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    supervised: Supervised,
}

impl PgBouncer {
    /// Starts it with the options that tests usually have: 5 connections to the server for each database.
    pub async fn create(server: &str) -> Self {
        Self::create_with(server, &[]).await
    }

    /// Starts it with these options beside those that tests usually have; where they differ, these win.
    pub async fn create_with(server: &str, options: &[(&str, &str)]) -> Self {
        let program = program(&Programs::installed(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from)));
        let program = program.unwrap_or_else(|error| panic!("{error}"));
        let supervised = Supervised::new(&User::unprivileged(&["postgres", "nobody"]), End::Killed);
        for _ in 0..5 {
            let port = ports::free();
            std::fs::write(supervised.folder().join("pgbouncer.ini"), configuration(server, port, options)).unwrap();
            supervised.start(&format!("exec {} pgbouncer.ini", word(&program)));
            let is_ready = supervised.until("PgBouncer is up", || supervised.log().contains("process up:"));
            match is_ready.await {
                Ok(()) => return Self { url: url(server, port), supervised },
                Err(log) if log.contains("Address already in use") => (),
                Err(log) => panic!("PgBouncer does not start:\n{log}"),
            }
        }
        panic!("no port is free for PgBouncer:\n{}", supervised.log());
    }

    /// The URL of the server's database through it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.supervised.log()
    }
}

const OPTIONS: &[(&str, &str)] = &[
    ("listen_addr", "127.0.0.1"),
    ("unix_socket_dir", ""),
    ("auth_type", "any"),
    ("pool_mode", "transaction"),
    ("default_pool_size", "5"),
    ("max_client_conn", "300"),
    // What sqlx sets on every connection. Nothing else: a store that sets more does not work through PgBouncer.
    ("ignore_startup_parameters", "extra_float_digits"),
];

/// An error says what to install.
fn program(programs: &Programs) -> Result<PathBuf, &'static str> {
    let folder = programs.folder_of(&["pgbouncer"]).ok_or(
        "this test needs `pgbouncer`, which is neither in PATH nor in /usr/sbin. \
         Run scripts/install, or install PgBouncer (Debian: apt-get install pgbouncer)",
    )?;
    Ok(folder.join("pgbouncer"))
}

fn configuration(server: &str, port: u16, options: &[(&str, &str)]) -> String {
    let options = OPTIONS.iter().chain(options).map(|(name, value)| format!("{name} = {value}\n"));
    let target: String = target(server).iter().map(|(name, value)| format!(" {name}={}", quoted(value))).collect();
    format!("[databases]\n* ={target}\n[pgbouncer]\nlisten_port = {port}\n{}", options.collect::<String>())
}

/// How the server is reached, in the words of a connection string.
fn target(server: &str) -> Vec<(&'static str, String)> {
    let server: PgConnectOptions = server.parse().unwrap_or_else(|error| panic!("{server}: {error}"));
    let host = server.get_socket().map_or_else(|| server.get_host().to_owned(), |path| path.display().to_string());
    let mut target =
        vec![("host", host), ("port", server.get_port().to_string()), ("user", server.get_username().to_owned())];
    if let Some(password) = server.to_url_lossy().password() {
        assert!(!password.contains('%'), "for PgBouncer, the password in the URL must be of letters and digits");
        target.push(("password", password.to_owned()));
    }
    target
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn url(server: &str, port: u16) -> String {
    let server: PgConnectOptions = server.parse().expect("it was parsed before");
    let database = server.get_database().expect("the URL of a database");
    url_of(&format!("postgres://anybody@127.0.0.1:{port}"), database)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_pgbouncer_is_not_installed_the_error_says_what_to_install() {
        let error = program(&Programs::nowhere()).unwrap_err();

        assert!(error.contains("scripts/install"), "{error}");
        assert!(error.contains("apt-get install pgbouncer"), "{error}");
    }

    #[test]
    fn what_the_url_says_of_the_server_is_told_to_pgbouncer_and_options_of_the_test_come_last() {
        let configuration =
            configuration("postgres://me:secret@db:1/old?sslmode=disable", 2, &[("pool_mode", "session")]);

        assert!(
            configuration.starts_with(
                "[databases]\n* = host='db' port='1' user='me' password='secret'\n[pgbouncer]\nlisten_port = 2\n"
            ),
            "{configuration}"
        );
        assert!(configuration.ends_with("\npool_mode = session\n"), "{configuration}");
    }
}
