//! Serves until it is told to stop, and ends in order.

use core::error::Error;
use core::fmt;
use core::future::Future;
use core::num::NonZeroU32;
use core::time::Duration;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use idem_core::KeyStore;
use idem_tower::Undrained;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::app::App;
use crate::options::Settings;
use crate::store::OpenError;

/// Why the program could not serve, or not end in order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("no runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("cannot keep metrics: {0}")]
    Metrics(#[from] BuildError),
    #[error("cannot use the store {store}: {}", Causes(.source))]
    Store { store: String, source: OpenError },
    #[error("cannot wait for signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("serving broke off: {0}")]
    Serve(#[source] io::Error),
    #[error("{} attempts and {} owed writes did not end in time; their keys stay claimed", .0.attempts, .0.owed_writes)]
    LeftBehind(Undrained),
}

pub(crate) async fn serve(settings: Settings) -> Result<(), ServeError> {
    let metrics = recorder()?;
    let store = settings.store.open(settings.db_connections).await;
    let store = store.map_err(|source| ServeError::Store { store: settings.store.to_string(), source })?;
    let claims = Arc::clone(&store.claims);
    let App { router, layers } = App::new(&settings, store, metrics.clone());
    let mut stop = stop_signal().map_err(ServeError::Signals)?;

    let address = settings.listen;
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let address = listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
    tokio::spawn(upkeep(metrics));
    tokio::spawn(sweep(claims));
    // Whoever started this may not listen; that is no reason not to serve.
    let _ = writeln!(io::stdout(), "listening on http://{address}");
    tracing::info!(%address, store = %settings.store, "serving");

    // From the signal on there are no new connections. Requests that are being answered go on, and so do attempts
    // whose clients have left: `drain_for` knows them. The bound holds for both together.
    let mut told = stop.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { told.told().await });
    let over = async {
        stop.told().await;
        let over_at = Instant::now() + settings.drain;
        tokio::time::sleep_until(over_at).await;
    };
    tokio::select! {
        served = server => served.map_err(ServeError::Serve)?,
        () = over => tracing::warn!("some connections did not end in time"),
    }
    let left = layers.drain_for(settings.drain.saturating_sub(stop.since_told())).await;
    if !left.is_empty() {
        return Err(ServeError::LeftBehind(left));
    }
    tracing::info!("everything is settled");
    Ok(())
}

/// An error with what is beneath it.
struct Causes<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(beneath) = cause {
            write!(f, ": {beneath}")?;
            cause = beneath.source();
        }
        Ok(())
    }
}

/// Becomes an instant once the program is told to stop.
#[derive(Clone)]
struct Stop(watch::Receiver<Option<Instant>>);

impl Stop {
    async fn told(&mut self) {
        // The sender lives until it has sent.
        let _ = self.0.wait_for(Option::is_some).await;
    }

    fn since_told(&self) -> Duration {
        self.0.borrow().map_or(Duration::ZERO, |told| told.elapsed())
    }
}

#[cfg(unix)]
fn stop_signal() -> io::Result<Stop> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(stop_after(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }))
}

#[cfg(not(unix))]
fn stop_signal() -> io::Result<Stop> {
    Ok(stop_after(async {
        let _ = tokio::signal::ctrl_c().await;
    }))
}

fn stop_after(signal: impl Future<Output = ()> + Send + 'static) -> Stop {
    let (tell, stop) = watch::channel(None);
    tokio::spawn(async move {
        signal.await;
        tracing::info!("told to stop");
        tell.send_replace(Some(Instant::now()));
    });
    Stop(stop)
}

/// Upper bounds, in seconds, that tell a store in memory from one across a network.
const STORE_SECONDS: [f64; 10] = [0.000_01, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];

fn recorder() -> Result<PrometheusHandle, BuildError> {
    let store_seconds = Matcher::Full("idempotency_store_seconds".to_owned());
    let handle = PrometheusBuilder::new().set_buckets_for_metric(store_seconds, &STORE_SECONDS)?.install_recorder()?;
    idem_tower::describe_metrics();
    Ok(handle)
}

/// Gives back what the recorder has buffered, whether anybody scrapes or not.
async fn upkeep(metrics: PrometheusHandle) {
    let mut every = tokio::time::interval(Duration::from_secs(5));
    loop {
        every.tick().await;
        metrics.run_upkeep();
    }
}

/// Gives back the room of expired records.
async fn sweep(store: Arc<dyn KeyStore>) {
    const AT_ONCE: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");
    let mut every = tokio::time::interval(Duration::from_secs(60));
    loop {
        every.tick().await;
        loop {
            match store.sweep(AT_ONCE).await {
                Ok(swept) if swept.more => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), "expired records stay for another minute");
                    break;
                }
            }
        }
    }
}
