use core::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::sync::OnceCell;

use super::database::remove_leftovers;
use super::server::{Installed, Server};

/// The server that all tests of this process have in common.
#[derive(Debug)]
pub(super) struct Source {
    /// Of any of its databases, as somebody who may create more.
    pub(super) url: String,
    /// Whether what is left on it stays.
    pub(super) outlives_the_run: bool,
    /// Held for as long as the process lives. It holds no connection: each test has a runtime of its own.
    _server: Option<Server>,
}

impl Source {
    /// The server, found or started by whoever asks first.
    pub(super) async fn of_this_process() -> &'static Self {
        static SOURCE: OnceCell<Result<Source, String>> = OnceCell::const_new();
        match SOURCE.get_or_init(Self::find).await {
            Ok(source) => source,
            Err(message) => panic!("{message}"),
        }
    }

    async fn find() -> Result<Self, String> {
        if let Ok(url) = std::env::var(URL) {
            return Self::at(url).await;
        }
        let installed = Installed::find();
        let installed = installed.map_err(|error| format!("no Postgres: {URL} gives none, and {error}"))?;
        let server = Server::of(&installed, &[]).await;
        Ok(Self { url: server.url("postgres"), outlives_the_run: false, _server: Some(server) })
    }

    async fn at(url: String) -> Result<Self, String> {
        let connecting = tokio::time::timeout(Duration::from_secs(10), PgConnection::connect(&url)).await;
        let connecting = connecting.map_err(|_| "it does not answer".to_owned());
        let mut connection = connecting
            .and_then(|connected| connected.map_err(|error| error.to_string()))
            .map_err(|error| format!("the server that {URL} gives is not usable: {error}"))?;
        remove_leftovers(&mut connection).await;
        Ok(Self { url, outlives_the_run: true, _server: None })
    }
}

const URL: &str = "IDEM_TEST_POSTGRES_URL";
