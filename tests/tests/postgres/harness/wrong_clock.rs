//! A wrong clock for this process and for nobody else: `libfaketime` stands between the process and the system's clock,
//! and adds what a file says.
//!
//! All cases run so. While one of them holds a handle with a wrong clock, the clock is wrong for the others as well,
//! which must not matter to them either.

use core::num::NonZeroU32;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, LazyLock};
use std::time::UNIX_EPOCH;

use idem_conformance::{Halt, WrongClock, async_trait};
use idem_core::{
    Change, Found, Guard, Inserted, KeyStore, NewRecord, Replaced, ScopedKey, StoreError, StoreStats, Swept,
};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, query_scalar};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Does it in this program, started anew with the library before it. Where there is no library, does it as it is, and
/// every call of [`with`] fails.
#[expect(clippy::panic, reason = "a helper of tests fails the test")]
pub(crate) fn under_a_clock_that_can_be_set(what: impl FnOnce() -> ExitCode) -> ExitCode {
    let Some(library) = library() else { return what() };
    let file = file();
    if std::env::var_os(FILE).is_none_or(|is| is != file) {
        set(0).expect("cargo makes the folder");
        let program = std::env::current_exe().expect("the system knows this program");
        let mut again = Command::new(program);
        again.args(std::env::args_os().skip(1)).env("LD_PRELOAD", library).env(FILE, file);
        // Waits are as long as ever, and the file is read again for every look at the clock.
        again.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_NO_CACHE", "1");
        panic!("this program does not start anew: {}", again.exec());
    }
    let code = what();
    let _ = std::fs::remove_file(file);
    code
}

/// Sets the clock of this process wrong for as long as the handle lives. Only one does at a time; the next waits.
pub(crate) async fn with(wrong: WrongClock, url: &str, store: Arc<dyn KeyStore>) -> Result<Arc<dyn KeyStore>, Halt> {
    if library().is_none() {
        return Err(Halt::fail(
            "no clock can be set wrong without libfaketime, which is not under /usr/lib. \
             Run scripts/install, or install libfaketime (Debian: apt-get install faketime)",
        ));
    }
    let clock = WrongTime { _turn: Arc::clone(&*TURN).lock_owned().await };
    let by = match wrong {
        WrongClock::Ahead => WrongClock::BY.as_secs().cast_signed(),
        WrongClock::Behind => -WrongClock::BY.as_secs().cast_signed(),
    };
    set(by)?;
    let ahead = ahead_of_server(url).await?;
    assert!((ahead - by).abs() < 600, "this process is {ahead} s ahead of the server, not {by} s");
    Ok(Arc::new(WithWrongClock { store, _clock: clock }))
}

/// What the library reads.
const FILE: &str = "FAKETIME_TIMESTAMP_FILE";

static TURN: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

/// The library as Debian and others install it, in the form for programs of many threads.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = folders.chain(["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from));
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}

/// The file of this process, which it keeps when it starts anew.
fn file() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{}", std::process::id()))
}

/// Sets the clock ahead by this many seconds. In one step: it may be read at any moment.
fn set(ahead: i64) -> std::io::Result<()> {
    let (file, new) = (file(), file().with_extension("new"));
    std::fs::write(&new, format!("{ahead:+}\n"))?;
    std::fs::rename(new, file)
}

/// In seconds.
async fn ahead_of_server(url: &str) -> Result<i64, Halt> {
    let mut connection = PgConnection::connect(url).await?;
    let server: i64 =
        query_scalar("SELECT extract(epoch FROM clock_timestamp())::bigint").fetch_one(&mut connection).await?;
    Ok(UNIX_EPOCH.elapsed()?.as_secs().cast_signed() - server)
}

/// The right time comes back when this is dropped.
struct WrongTime {
    _turn: OwnedMutexGuard<()>,
}

impl Drop for WrongTime {
    fn drop(&mut self) {
        set(0).expect("the file was written before");
    }
}

struct WithWrongClock {
    store: Arc<dyn KeyStore>,
    _clock: WrongTime,
}

#[async_trait]
impl KeyStore for WithWrongClock {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        self.store.insert(key, record).await
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        self.store.replace(key, guard, change).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        self.store.find(key).await
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        self.store.sweep(limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        self.store.stats().await
    }
}
