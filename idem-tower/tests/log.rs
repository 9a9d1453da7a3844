//! What the log tells, and what it must not tell. A process of its own, with one subscriber for all of it: interest in
//! a line is cached per process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

#[allow(dead_code, reason = "shared with the tests of the layer")]
#[path = "layer/support.rs"]
mod support;

use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use idem_core::StoreErrorKind;
use support::{App, Fault, payment, request};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that is logged, down to traces and with the spans.
static LOG: LazyLock<Log> = LazyLock::new(|| {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    log
});

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_route_digest_outcome_and_epoch_and_neither_key_nor_principal() {
    let log = &*LOG;
    let app = App::charging();
    app.store.next_replace([Fault::Refused(StoreErrorKind::Unavailable)]);
    app.pay().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    app.pay().await;
    app.send(request("other")).await;
    app.store.set_down(Some(Fault::Lost));
    app.pay().await;

    let log = log.text();
    let digest = format!("{:?}", support::key());
    let digest = digest.rsplit('#').next().unwrap().trim_end_matches(')');
    for told in
        ["route=\"payments\"", &format!("key={digest}"), "outcome=\"completed\"", "outcome=\"replayed\"", "epoch=1"]
    {
        assert!(log.contains(told), "{told} in {log}");
    }
    assert!(log.contains("WARN") && log.contains("the outcome is not written yet"), "{log}");
    for secret in [support::KEY, "alice", "1.00"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn a_misconfiguration_is_logged_as_an_error_that_says_what_to_do() {
    let log = &*LOG;
    let app = App::charging();
    let mut anonymous = payment();
    anonymous.extensions_mut().clear();
    app.send(anonymous).await;
    let log = log.text();
    assert!(log.contains("ERROR") && log.contains("inside authentication"), "{log}");
    assert!(!log.contains(support::KEY));
}
