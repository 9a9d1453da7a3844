//! One test per row of the table of answers: what each does to its key.

use http::Response;
use idem_core::Policy;
use idem_tower::{Class, Streamed};

use crate::support::{App, Broken, Order, Seen, Step, Steps, charged, data, header_map, payment, seen, status};

/// What the retry of an answer meets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Retry {
    Replay,
    Run,
    Refused { safe: bool },
    NotKept,
}

/// Sends one request and its retry; asserts both answers and the number of runs.
async fn settles(app: App, first: Seen, retry: Retry) {
    assert_eq!(app.pay().await, first);
    let again = app.pay().await;
    match retry {
        Retry::Replay => assert_eq!(again, first.replayed()),
        Retry::Run => assert_eq!(again, first),
        Retry::Refused { safe } => {
            let problem = again.is_problem(500, "previous-attempt-failed");
            assert_eq!(problem["safe_to_use_new_key"], safe);
        }
        Retry::NotKept => drop(again.is_problem(409, "response-not-kept")),
    }
    assert_eq!(app.runs(), if retry == Retry::Run { 2 } else { 1 });
}

#[tokio::test]
async fn success_redirection_and_most_client_errors_complete() {
    for code in [200, 201, 202, 204, 206, 301, 303, 307, 400, 402, 403, 404, 409, 410, 418, 422, 428, 451, 499] {
        settles(App::answering(move || status(code)), seen(code, &[], "text"), Retry::Replay).await;
    }
}

#[tokio::test]
async fn answers_that_ask_to_come_back_release() {
    for code in [401, 425, 429] {
        settles(App::answering(move || status(code)), seen(code, &[], "text"), Retry::Run).await;
    }
}

#[tokio::test]
async fn a_timeout_and_server_errors_fail_with_the_effect_open() {
    for code in [408, 500, 501, 502, 503, 504, 507, 599, 600, 999] {
        let retry = Retry::Refused { safe: false };
        settles(App::answering(move || status(code)), seen(code, &[], "text"), retry).await;
    }
}

#[tokio::test]
async fn no_store_on_an_answer_is_no_leave_to_run_again() {
    let response = || {
        let mut response = status(200);
        response.headers_mut().insert("cache-control", "no-store".parse().unwrap());
        response
    };
    settles(App::answering(response), seen(200, &[("cache-control", "no-store")], "text"), Retry::Replay).await;
}

#[tokio::test]
async fn an_error_of_the_inner_service_fails_and_goes_to_the_caller() {
    let app = App::new(async |_| Err(Broken));
    assert!(app.try_send(payment()).await.is_err());
    let problem = app.pay().await.is_problem(500, "previous-attempt-failed");
    assert_eq!(problem["safe_to_use_new_key"], false);
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_off_fails_and_its_client_sees_it_break_off() {
    for code in [200, 404, 429] {
        let app = App::answering(move || {
            let mut response = status(code);
            *response.body_mut() = Steps::of([data("half of "), data("it"), Step::Break]);
            response
        });
        let first = app.pay().await;
        assert_eq!((first.status, &*first.body, first.broken), (code, &b"half of it"[..], true));
        app.pay().await.is_problem(500, "previous-attempt-failed");
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn the_handler_says_release() {
    for code in [200, 404, 503] {
        let app = App::new(move |order: Order| {
            order.running().release();
            std::future::ready(Ok(status(code)))
        });
        settles(app, seen(code, &[], "text"), Retry::Run).await;
    }
}

#[tokio::test]
async fn the_handler_says_that_it_failed_and_nothing_happened() {
    for code in [200, 409, 503] {
        let app = App::new(move |order: Order| {
            order.running().fail_without_effect();
            std::future::ready(Ok(status(code)))
        });
        settles(app, seen(code, &[], "text"), Retry::Refused { safe: true }).await;
    }
}

#[tokio::test]
async fn the_handler_says_release_and_then_errs() {
    let app = App::new(async |order: Order| match order.run {
        1 => {
            order.running().release();
            Err(Broken)
        }
        run => Ok(charged(run)),
    });
    assert!(app.try_send(payment()).await.is_err());
    assert_eq!(app.pay().await, seen(201, &[("location", "/payments/1")], "charge 2"));
}

#[tokio::test]
async fn the_handler_says_do_not_keep() {
    let app = App::new(async |order: Order| {
        order.running().do_not_keep();
        Ok(status(200))
    });
    settles(app, seen(200, &[], "text"), Retry::NotKept).await;
    let failing = App::new(async |order: Order| {
        order.running().do_not_keep();
        Ok(status(500))
    });
    settles(failing, seen(500, &[], "text"), Retry::Refused { safe: false }).await;
}

#[tokio::test]
async fn an_answer_that_is_not_to_be_kept_still_fails_where_its_body_breaks_off() {
    let app = App::new(async |order: Order| {
        order.running().do_not_keep();
        Ok(Response::new(Steps::of([data("half"), Step::Break])))
    });
    let first = app.pay().await;
    assert_eq!((&*first.body, first.broken), (&b"half"[..], true));
    app.pay().await.is_problem(500, "previous-attempt-failed");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_to_be_kept_still_goes_by_the_grpc_status_in_its_trailers() {
    for (code, retry) in [("0", Retry::NotKept), ("14", Retry::Run), ("13", Retry::Refused { safe: false })] {
        let app = App::new(move |order: Order| {
            order.running().do_not_keep();
            std::future::ready(Ok(grpc("application/grpc", Some(code))))
        });
        let head = [("content-type", "application/grpc")];
        settles(app, seen(200, &head, "message").with_trailers(&[("grpc-status", code)]), retry).await;
    }
}

#[tokio::test]
async fn what_is_said_while_the_body_is_made_still_counts() {
    type Say = fn(&idem_tower::Running);
    let sayings: [(Say, Retry); 3] = [
        (|running| running.do_not_keep(), Retry::NotKept),
        (|running| running.release(), Retry::Run),
        (|running| running.fail_without_effect(), Retry::Refused { safe: true }),
    ];
    for (say, retry) in sayings {
        let app = App::new(move |order: Order| {
            let running = order.running();
            let steps = [data("te"), Step::Do(Box::new(move || say(&running))), data("xt")];
            std::future::ready(Ok(Response::new(Steps::of(steps))))
        });
        settles(app, seen(200, &[], "text"), retry).await;
    }
}

#[tokio::test]
async fn a_failed_attempt_runs_again_under_the_relaxed_policy() {
    let app = App::answering(|| status(500)).set(|layer| layer.policy(Policy::relaxed()));
    settles(app, seen(500, &[], "text"), Retry::Run).await;
}

#[tokio::test]
async fn a_route_decides_for_itself_where_it_knows_better() {
    let classes = [
        (Class::Complete, Retry::Replay),
        (Class::CompleteNotKept, Retry::NotKept),
        (Class::Release, Retry::Run),
        (Class::Fail, Retry::Refused { safe: false }),
        (Class::FailWithoutEffect, Retry::Refused { safe: true }),
    ];
    for (class, retry) in classes {
        let app = App::answering(|| status(403)).set(|layer| {
            layer.classify(move |answered| {
                assert_eq!((answered.status.as_u16(), answered.body.map(|body| &**body)), (403, Some(&b"text"[..])));
                Some(class)
            })
        });
        settles(app, seen(403, &[], "text"), retry).await;
    }
    let undecided = App::answering(|| status(403)).set(|layer| layer.classify(|_| None));
    settles(undecided, seen(403, &[], "text"), Retry::Replay).await;
}

#[tokio::test]
async fn what_the_handler_says_comes_before_what_the_route_decides() {
    let app = App::new(async |order: Order| {
        order.running().release();
        Ok(status(200))
    });
    settles(app.set(|layer| layer.classify(|_| Some(Class::Complete))), seen(200, &[], "text"), Retry::Run).await;
}

#[tokio::test]
async fn a_classifier_that_panics_is_a_failed_attempt_and_not_a_stuck_key() {
    let app = App::charging().set(|layer| layer.classify(|_| panic!("a classifier panics")));
    let service = app.clone();
    assert!(tokio::spawn(async move { service.pay().await }).await.unwrap_err().is_panic());
    app.pay().await.is_problem(500, "previous-attempt-failed");
}

#[tokio::test]
async fn switching_protocols_is_done_once_and_not_kept() {
    let app = App::answering(|| {
        let mut response = status(101);
        response.headers_mut().insert("upgrade", "chat".parse().unwrap());
        response
    });
    settles(app, seen(101, &[("upgrade", "chat")], "text"), Retry::NotKept).await;
}

fn grpc(content_type: &'static str, code: Option<&'static str>) -> Response<Steps> {
    let trailers = code.map(|code| Step::Trailers(header_map(&[("grpc-status", code)])));
    let mut response = Response::new(Steps::of([data("message")].into_iter().chain(trailers)));
    response.headers_mut().insert("content-type", content_type.parse().unwrap());
    response
}

#[tokio::test]
async fn grpc_goes_by_the_status_in_its_trailers() {
    let failed = Retry::Refused { safe: false };
    for (code, retry) in [
        ("0", Retry::Replay),
        ("1", failed),
        ("2", failed),
        ("3", Retry::Replay),
        ("4", failed),
        ("5", Retry::Replay),
        ("6", Retry::Replay),
        ("7", Retry::Replay),
        ("8", Retry::Run),
        ("9", Retry::Replay),
        ("10", failed),
        ("11", Retry::Replay),
        ("12", Retry::Replay),
        ("13", failed),
        ("14", Retry::Run),
        ("15", failed),
        ("16", Retry::Replay),
        ("17", failed),
        ("", failed),
    ] {
        for content_type in ["application/grpc", "application/grpc+proto"] {
            let first = seen(200, &[("content-type", content_type)], "message").with_trailers(&[("grpc-status", code)]);
            let app = App::answering(move || grpc(content_type, Some(code)));
            assert_eq!(app.pay().await, first);
            let again = app.pay().await;
            match retry {
                // The test speaks HTTP/1.1, where a head announces its trailers.
                Retry::Replay => {
                    let mut replayed = first.clone().replayed();
                    replayed.headers.push(("trailer".to_owned(), "grpc-status".to_owned()));
                    assert_eq!(again, replayed, "{code}");
                }
                Retry::Run => assert_eq!(again, first, "{code}"),
                _ => drop(again.is_problem(500, "previous-attempt-failed")),
            }
        }
    }
}

#[tokio::test]
async fn grpc_without_a_status_fails() {
    let app = App::answering(|| grpc("application/grpc", None));
    settles(app, seen(200, &[("content-type", "application/grpc")], "message"), Retry::Refused { safe: false }).await;
}

#[tokio::test]
async fn grpc_without_a_message_goes_by_the_status_in_its_head() {
    for (code, retry) in [("5", Retry::Replay), ("14", Retry::Run), ("13", Retry::Refused { safe: false })] {
        let app = App::answering(move || {
            let response = Response::builder().header("content-type", "application/grpc").header("grpc-status", code);
            response.body(Steps::default()).unwrap()
        });
        settles(app, seen(200, &[("content-type", "application/grpc"), ("grpc-status", code)], ""), retry).await;
    }
}

#[tokio::test]
async fn a_marked_grpc_stream_is_done_once_and_not_kept() {
    let app = App::answering(|| {
        let mut response = grpc("application/grpc", Some("13"));
        response.extensions_mut().insert(Streamed);
        response
    });
    let first = app.pay().await;
    assert_eq!(first.trailers, [("grpc-status".to_owned(), "13".to_owned())]);
    app.pay().await.is_problem(409, "response-not-kept");
}

#[tokio::test]
async fn grpc_web_is_no_grpc_and_json_that_mentions_it_neither() {
    for content_type in ["application/grpc-web+proto", "application/json"] {
        let app = App::answering(move || grpc(content_type, None));
        settles(app, seen(200, &[("content-type", content_type)], "message"), Retry::Replay).await;
    }
}

#[tokio::test]
async fn a_panic_of_the_handler_fails_and_goes_to_whoever_polls() {
    for at_once in [true, false] {
        let app = App::new(move |_| async move {
            if !at_once {
                tokio::task::yield_now().await;
            }
            panic!("a handler panics")
        });
        let service = app.clone();
        let panic = tokio::spawn(async move { service.pay().await }).await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"a handler panics"));
        let problem = app.pay().await.is_problem(500, "previous-attempt-failed");
        assert_eq!(problem["safe_to_use_new_key"], false);
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn a_body_that_panics_fails_too() {
    let app = App::answering(|| Response::new(Steps::of([data("half"), Step::Panic])));
    let service = app.clone();
    assert!(tokio::spawn(async move { service.pay().await }).await.unwrap_err().is_panic());
    app.pay().await.is_problem(500, "previous-attempt-failed");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_stream_that_fails_by_its_status_is_failed_and_not_completed() {
    let app = App::answering(|| {
        let mut response = status(500);
        response.extensions_mut().insert(Streamed);
        response
    });
    settles(app, seen(500, &[], "text"), Retry::Refused { safe: false }).await;
}
