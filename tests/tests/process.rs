//! The program around the API: how it starts, what it shows, how it ends.

use std::process::{Command, Output};

use idem_tests::{ORDER, eventually, payments};

#[tokio::test]
async fn the_metrics_count_what_happened_and_name_nobody() {
    let server = payments!().await;
    let alice = server.caller("alice-is-a-secret");
    let key = "this-key-is-a-secret";
    alice.pay(key).send().await;
    alice.pay(key).send().await;
    alice.pay(key).send().await;
    alice.post("/payments").key(key).json("{}").send().await;
    alice.post("/payments").json(ORDER).send().await;
    alice.pay("another-secret-key").bank("busy").send().await;
    alice.post("/likes/42").send().await;

    for (line, value) in [
        ("idempotency_requests_total{route=\"/payments\",outcome=\"completed\"}", 1.0),
        ("idempotency_requests_total{route=\"/payments\",outcome=\"replayed\"}", 2.0),
        ("idempotency_requests_total{route=\"/payments\",outcome=\"key-reused\"}", 1.0),
        ("idempotency_requests_total{route=\"/payments\",outcome=\"missing-key\"}", 1.0),
        ("idempotency_requests_total{route=\"/payments\",outcome=\"released\"}", 1.0),
        ("idempotency_requests_total{route=\"/likes/{post}\",outcome=\"without-key\"}", 1.0),
        ("idempotency_store_seconds_count{operation=\"insert\"}", 5.0),
        ("idempotency_store_seconds_count{operation=\"replace\"}", 2.0),
        ("idempotency_in_flight", 0.0),
    ] {
        assert_eq!(server.metric(line).await, value, "{line}");
    }
    let text = server.call(http::Method::GET, "/metrics").send().await.body;
    for never in ["idempotency_lease_lost_total 0", "idempotency_completion_retries_total 0"] {
        let is_there = String::from_utf8_lossy(&text).lines().any(|line| line == never);
        assert!(is_there, "what never happened is there all the same: {never}");
    }
    let answer = server.call(http::Method::GET, "/metrics").send().await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    for said in [text, server.log()] {
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test]
async fn attempts_that_run_show_in_the_metrics_also_when_their_clients_are_gone() {
    let server = payments!().await;
    let alice = server.caller("alice");
    for number in 0..3 {
        let pay = alice.pay(&format!("a-slow-payment-{number}")).bank("slow=1000");
        pay.hang_up_once(server.until_in_flight(number + 1)).await;
    }
    eventually("they end", async || server.metric("idempotency_in_flight").await == 0.0).await;
    assert_eq!(server.ledger().await.len(), 3);
}

#[tokio::test]
async fn a_process_that_dies_after_the_charge_leaves_no_client_hanging() {
    let server = payments!().await;
    let pay = server.caller("alice").pay("the-last-payment");
    let waiting = pay.clone().bank("slow=5000");
    let (waiting, broken_off) = tokio::join!(waiting.try_send(), async {
        server.until_in_flight(1).await;
        server.caller("bob").pay("the-fatal-payment").bank("abort").try_send().await
    });
    waiting.expect_err("there is nobody left to answer");
    broken_off.expect_err("there is nobody left to answer");
    let ended = server.ended().await;
    assert!(!ended.status.success(), "{:?}", ended.status);
    assert_eq!(ended.log.matches("the bank charged").count(), 1, "{}", ended.log);
}

#[test]
fn options_that_do_not_fit_are_refused_with_the_reason() {
    for (options, reason) in [
        (
            &["--store", "mysql://user:hunter2@localhost/db"][..],
            "no store with the scheme `mysql`; supported: `memory:`",
        ),
        (&["--store", "memory"], "takes a URL; supported: `memory:`"),
        (&["--store", "memory://localhost"], "nothing may follow `memory:`"),
        (&["--lease", "0s"], "lease of 0ns is below 10ms"),
        (&["--lease", "9ms"], "lease of 9ms is below 10ms"),
        (&["--lease", "24h"], "not below the retention"),
        (&["--lease", "2s", "--retention", "1s"], "not below the retention"),
        (&["--retention", "20years"], "above ten years"),
        (&["--lease", "soon"], "--lease"),
        (&["--lease", "30"], "time unit needed"),
        (&["--lease=-1s"], "--lease"),
        (&["--wait", "x"], "--wait"),
        (&["--max-body", "lots"], "expected a number of bytes"),
        (&["--max-body", "0"], "nothing fits into 0 bytes"),
        (&["--max-response", "1.5MiB"], "expected a number of bytes"),
        (&["--listen", "nowhere"], "--listen"),
        (&["--listen", "127.0.0.1:65536"], "--listen"),
        (&["--retries", "3"], "--retries"),
        (&["serve"], "serve"),
    ] {
        let Output { status, stdout, stderr } = run(options);
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(reason), "{options:?}: {stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
        assert_eq!(String::from_utf8(stdout).unwrap(), "", "{options:?}");
    }
}

#[test]
fn the_help_names_every_option() {
    let Output { status, stdout, .. } = run(&["--help"]);
    assert!(status.success());
    let help = String::from_utf8(stdout).unwrap();
    for option in ["--listen", "--store", "--lease", "--retention", "--max-body", "--max-response", "--wait", "--drain"]
    {
        assert!(help.contains(option), "{option}: {help}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_that_says_so() {
    let server = payments!().await;
    let Output { status, stdout, stderr } = run(&["--listen", &server.address().to_string()]);
    assert_eq!(status.code(), Some(1));
    let said = String::from_utf8(stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on {}", server.address())), "{said}");
    assert!(stdout.is_empty());
}

fn run(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_payments-under-test")).args(options).output().expect("it starts")
}

#[cfg(unix)]
mod signals {
    use idem_tests::{Server, eventually, payments};
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn a_server_that_is_told_to_stop_ends_the_charge_that_runs_and_answers_it() {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let server = payments!().await;
            let address = server.address();
            let pay = server.caller("alice").pay("the-last-payment").bank("slow=1000");
            let (answer, ()) = tokio::join!(pay.send(), async {
                server.until_in_flight(1).await;
                stop(&server, signal);
                eventually("nobody else gets in", async || TcpStream::connect(address).await.is_err()).await;
                assert!(!server.log().contains("the bank charged"), "it was told after the charge");
            });
            let id = answer.assert_charged("/payments", "100.00", "RUB");
            let ended = server.ended().await;
            assert_eq!(ended.status.code(), Some(0), "{signal}: {}", ended.log);
            assert_eq!(ended.log.matches("the bank charged").count(), 1, "{signal}: {}", ended.log);
            assert!(ended.log.contains(&id), "{}", ended.log);
        }
    }

    #[tokio::test]
    async fn a_server_that_is_told_to_stop_waits_for_a_charge_whose_client_is_gone() {
        let server = payments!().await;
        let pay = server.caller("alice").pay("the-last-payment").bank("slow=1000");
        pay.hang_up_once(server.until_in_flight(1)).await;
        stop(&server, Signal::SIGTERM);
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
        assert_eq!(ended.log.matches("the bank charged").count(), 1, "{}", ended.log);
    }

    #[tokio::test]
    async fn a_server_that_is_told_to_stop_waits_no_longer_than_it_may_and_says_what_it_left() {
        let server = payments!("--drain", "200ms").await;
        let pay = server.caller("alice").pay("the-last-payment").bank("slow=60000");
        let (answer, ()) = tokio::join!(pay.try_send(), async {
            server.until_in_flight(1).await;
            stop(&server, Signal::SIGTERM);
        });
        answer.expect_err("the process ended before the charge");
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
        assert!(ended.log.contains("1 attempts and 0 owed writes did not end in time"), "{}", ended.log);
    }

    #[tokio::test]
    async fn a_server_that_is_told_to_stop_leaves_a_body_that_never_ends_and_loses_nothing() {
        let server = payments!("--drain", "200ms").await;
        let pay = server.caller("alice").pay("never-sent-to-its-end");
        let mut upload = TcpStream::connect(server.address()).await.expect("it listens");
        pay.send_only_over(&mut upload, pay.length() - 1).await;
        server.assert_healthy().await;
        stop(&server, Signal::SIGTERM);
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
        assert!(ended.log.contains("some connections did not end in time"), "{}", ended.log);
        assert!(!ended.log.contains("the bank charged"), "{}", ended.log);
    }

    #[tokio::test]
    async fn an_idle_server_ends_at_once_also_with_connections_that_say_nothing() {
        let server = payments!().await;
        let _silent = TcpStream::connect(server.address()).await.unwrap();
        server.assert_healthy().await;
        stop(&server, Signal::SIGTERM);
        let ended = server.ended().await;
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
        assert!(!ended.log.contains("did not end in time"), "{}", ended.log);
    }

    fn stop(server: &Server, signal: Signal) {
        let id = i32::try_from(server.id()).expect("a process id of this system");
        kill(Pid::from_raw(id), signal).expect("it runs");
    }
}
