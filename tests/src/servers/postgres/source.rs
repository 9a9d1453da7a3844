use core::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::sync::OnceCell;

use super::database::remove_leftovers;
use super::server::{Installed, Server};
use crate::servers::kind::{KIND, Kind};

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
        let given = std::env::var(URL).ok();
        match (Kind::demanded()?, given) {
            (None | Some(Kind::Given), Some(url)) => Self::at(url).await,
            (Some(Kind::Given), None) => Err(format!("{KIND} wants the server that {URL} gives, and it gives none")),
            (Some(Kind::Programs), _) => Ok(Self::started(&Installed::find()?).await),
            (Some(Kind::Containers), _) => Self::contained().await,
            (None, None) => match Installed::find() {
                Ok(installed) => Ok(Self::started(&installed).await),
                Err(no_programs) => Self::contained().await.map_err(|no_container| {
                    format!("no Postgres for the tests. {URL} gives none; {no_programs}; and {no_container}")
                }),
            },
        }
    }

    async fn started(installed: &Installed) -> Self {
        let server = Server::of(installed, &[]).await;
        Self { url: server.url("postgres"), outlives_the_run: false, _server: Some(server) }
    }

    #[cfg(feature = "containers")]
    async fn contained() -> Result<Self, String> {
        let url = super::container::start().await?;
        Ok(Self { url, outlives_the_run: false, _server: None })
    }

    #[cfg(not(feature = "containers"))]
    async fn contained() -> Result<Self, String> {
        Err("the tests are built without their feature `containers`".to_owned())
    }

    async fn at(url: String) -> Result<Self, String> {
        let connecting = tokio::time::timeout(PATIENCE, PgConnection::connect(&url)).await;
        let connecting = connecting.map_err(|_| "it does not answer".to_owned());
        let mut connection = connecting
            .and_then(|connected| connected.map_err(|error| error.to_string()))
            .map_err(|error| format!("the server that {URL} gives is not usable: {error}"))?;
        remove_leftovers(&mut connection).await;
        Ok(Self { url, outlives_the_run: true, _server: None })
    }
}

/// As much as a server takes to answer that answers at all.
const PATIENCE: Duration = Duration::from_secs(10);

const URL: &str = "IDEM_TEST_POSTGRES_URL";
