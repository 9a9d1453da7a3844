use core::future::pending;
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use testcontainers::core::IntoContainerPort;
use testcontainers::core::logs::LogFrame;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};
use tokio::sync::oneshot;

use crate::servers::random::unlike_any_other;

/// Starts a server in a container, which ends and removes itself soon after this process has ended, however that ends.
///
/// The URL of the database `postgres`, for its superuser.
pub(super) async fn start() -> Result<String, String> {
    let (tell, told) = oneshot::channel();
    // What talks to the engine and to the server lives in this runtime: those of the tests end with their tests.
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            match keep().await {
                Ok((url, _kept)) => {
                    let _ = tell.send(Ok(url));
                    pending::<()>().await;
                }
                Err(message) => drop(tell.send(Err(message))),
            }
        });
    });
    told.await.expect("it is told")
}

/// Runs in the container: a server for as long as somebody keeps it, by a connection of this name.
const SCRIPT: &str = include_str!("container.sh");
const KEEPER: &str = "idem-tests-keeper";

/// Longer than an image takes to come.
const PATIENCE: Duration = Duration::from_secs(60);

async fn keep() -> Result<(String, (ContainerAsync<GenericImage>, PgConnection)), String> {
    let image = std::env::var("IDEM_TEST_POSTGRES_IMAGE").unwrap_or_else(|_| "postgres:17-alpine".to_owned());
    let (name, tag) = image.rsplit_once(':').ok_or_else(|| format!("the image {image} has no tag"))?;
    // The engine may publish the port to other machines too.
    let password = format!("{:016x}", unlike_any_other());
    let log = Arc::new(Mutex::new(String::new()));
    let logging = Arc::clone(&log);
    let container = GenericImage::new(name, tag)
        .with_exposed_port(5432.tcp())
        .with_env_var("POSTGRES_PASSWORD", &password)
        .with_env_var("POSTGRES_INITDB_ARGS", "-E UTF8 --locale=C --no-sync")
        .with_cmd(["sh", "-c", SCRIPT, KEEPER, "-c", "max_connections=300", "-c", "fsync=off"])
        .with_host_config_modifier(|host| host.auto_remove = Some(true))
        .with_log_consumer(move |frame: &LogFrame| {
            logging.lock().unwrap().push_str(&String::from_utf8_lossy(frame.bytes()));
        })
        .start();
    let no_engine = |error| format!("a container of {image} does not start: {error}");
    let container = container.await.map_err(no_engine)?;
    let host = container.get_host().await.map_err(no_engine)?;
    let port = container.get_host_port_ipv4(5432.tcp()).await.map_err(no_engine)?;
    let url = format!("postgres://postgres:{password}@{host}:{port}/postgres");
    let keeper: PgConnectOptions = url.parse().expect("it is a URL");
    let keeper = keeper.application_name(KEEPER);

    let since = Instant::now();
    loop {
        match keeper.connect().await {
            Ok(keeper) => return Ok((url, (container, keeper))),
            Err(error) if since.elapsed() > PATIENCE || !container.is_running().await.unwrap_or(false) => {
                return Err(format!("Postgres in a container of {image}: {error}. Its log:\n{}", log.lock().unwrap()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
