//! One test per row of the table of refusals, and what passes untouched.

use std::time::Duration;

use http::{HeaderName, Method, Request, Response, StatusCode};
use idem_core::{Abandoned, KeyFormat, Policy, Principal, Profile, Route};
use idem_tower::{IdempotencyLayer, Running, fixed_route};
use tower::{Layer, ServiceExt};

use crate::support::{App, Order, Step, Steps, User, charged, data, first_charge, payment, request, see, seen, status};

#[tokio::test]
async fn a_retry_gets_the_same_answer_and_the_handler_ran_once() {
    let app = App::charging();
    assert_eq!(app.pay().await, first_charge());
    assert_eq!(app.pay().await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn the_quoted_key_of_the_draft_names_the_same_key() {
    let app = App::charging();
    app.pay().await;
    let mut quoted = payment();
    quoted.headers_mut().insert("idempotency-key", "\"key-of-alice-0001\"".parse().unwrap());
    assert_eq!(app.send(quoted).await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn other_methods_pass_untouched_key_or_not() {
    let app = App::charging();
    for run in 1..=2 {
        let mut read = payment();
        *read.method_mut() = Method::GET;
        let answer = app.send(read).await;
        assert_eq!(answer, seen(201, &[("location", "/payments/1")], &format!("charge {run}")));
    }
    assert_eq!((app.runs(), app.store.calls()), (2, 0));
}

#[tokio::test]
async fn patch_is_covered_and_so_is_any_method_that_is_asked_for() {
    let app = App::charging().set(|layer| layer.methods([Method::PUT, Method::PATCH]));
    for method in [Method::PATCH, Method::PUT] {
        let send = || {
            let mut request = payment();
            *request.method_mut() = method.clone();
            request.headers_mut().insert("idempotency-key", format!("the-key-of-{method}").parse().unwrap());
            app.send(request)
        };
        let first = send().await;
        assert_eq!(send().await, first.replayed());
    }
    let mut uncovered = payment();
    *uncovered.method_mut() = Method::POST;
    app.send(uncovered).await;
    assert_eq!(app.runs(), 3);
}

#[tokio::test]
async fn requests_that_are_carved_out_pass_untouched() {
    let app = App::charging().set(|layer| layer.covers_only(|parts| parts.uri.path() != "/stream"));
    let mut stream = payment();
    *stream.uri_mut() = "/stream".parse().unwrap();
    assert_eq!(app.send(stream).await, first_charge());
    assert_eq!(app.store.calls(), 0);
}

#[tokio::test]
async fn a_missing_key_is_refused_where_it_is_required() {
    let app = App::charging();
    let mut request = payment();
    request.headers_mut().remove("idempotency-key");
    app.send(request).await.is_problem(400, "missing-key");
    assert_eq!((app.runs(), app.store.calls()), (0, 0));
}

#[tokio::test]
async fn a_missing_key_passes_untouched_where_it_is_optional() {
    let app = App::new(|order: Order| {
        assert!(order.parts.extensions.get::<Running>().is_none());
        std::future::ready(Ok(charged(order.run)))
    })
    .set(|layer| layer.policy(Policy::relaxed()));
    let mut request = payment();
    request.headers_mut().remove("idempotency-key");
    assert_eq!(app.send(request).await, first_charge());
    assert_eq!((app.runs(), app.store.calls()), (1, 0));
}

#[tokio::test]
async fn every_malformed_key_is_refused_with_its_rule_also_where_a_key_is_optional() {
    let long = "k".repeat(129);
    for (value, rule) in [
        ("", "empty"),
        ("short", "at least 8"),
        (long.as_str(), "at most 128"),
        ("one-key-1, one-key-2", "more than once"),
        ("\"one-key-1\", \"one-key-2\"", "more than once"),
        ("\"one-key-1\";a=b", "parameters"),
        ("one key 12", "forbidden character"),
        ("\"one-key-1", "never closed"),
    ] {
        for policy in [Policy::strict(), Policy::relaxed()] {
            let app = App::charging().set(|layer| layer.policy(policy));
            let mut request = payment();
            request.headers_mut().insert("idempotency-key", value.parse().unwrap());
            let problem = app.send(request).await.is_problem(400, "invalid-key");
            assert!(problem["detail"].as_str().unwrap().contains(rule), "{value}: {problem}");
            assert_eq!((app.runs(), app.store.calls()), (0, 0));
        }
    }
}

#[tokio::test]
async fn a_key_header_that_stands_twice_is_refused_even_with_equal_values() {
    let app = App::charging();
    let mut request = payment();
    request.headers_mut().append("idempotency-key", "key-of-alice-0001".parse().unwrap());
    let problem = app.send(request).await.is_problem(400, "invalid-key");
    assert!(problem["detail"].as_str().unwrap().contains("more than once"));
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn header_and_format_of_the_key_can_be_set() {
    let app = App::charging()
        .set(|layer| layer.key_header(HeaderName::from_static("x-request-key")).key_format(KeyFormat::uuid()));
    app.pay().await.is_problem(400, "missing-key");
    let mut request = payment();
    request.headers_mut().insert("x-request-key", "key-of-alice-0001".parse().unwrap());
    let problem = app.send(request).await.is_problem(400, "invalid-key");
    assert!(problem["detail"].as_str().unwrap().contains("36"), "{problem}");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn without_a_principal_nothing_runs() {
    let app = App::charging();
    let mut request = payment();
    request.extensions_mut().remove::<User>();
    app.send(request).await.is_problem(500, "misconfigured");

    let mut nameless = payment();
    nameless.extensions_mut().insert(User(""));
    app.send(nameless).await.is_problem(500, "misconfigured");
    assert_eq!((app.runs(), app.store.calls()), (0, 0));
}

#[tokio::test]
async fn without_a_route_name_nothing_runs() {
    let shop =
        tower::service_fn(async |_: Request<idem_tower::Body<Steps>>| -> Result<Response<Steps>, std::io::Error> {
            panic!("the handler ran")
        });
    let layer = IdempotencyLayer::new(idem_memory::MemoryStore::default(), crate::support::caller, |_| None::<Route>);
    let response = layer.layer(shop).oneshot(payment()).await.unwrap();
    see(response).await.is_problem(500, "misconfigured");
}

#[tokio::test]
async fn two_principals_never_see_each_others_answers() {
    let app = App::charging();
    app.pay().await;
    let mut of_bob = payment();
    of_bob.extensions_mut().insert(User("bob"));
    assert_eq!(app.send(of_bob).await, seen(201, &[("location", "/payments/1")], "charge 2"));
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn two_routes_never_share_a_key() {
    let app = App::charging();
    app.pay().await;
    let elsewhere = IdempotencyLayer::new(app.store.clone(), crate::support::caller, |_| Route::new("refunds"));
    let refunds = elsewhere.layer(tower::service_fn(async |_: Request<idem_tower::Body<Steps>>| {
        Ok::<_, std::io::Error>(Response::new(Steps::from("refund")))
    }));
    let answer = see(refunds.oneshot(payment()).await.unwrap()).await;
    assert_eq!(answer, seen(200, &[], "refund"));
}

#[tokio::test]
async fn a_shared_principal_equals_no_named_one() {
    let app = App::charging();
    app.pay().await;
    let route = fixed_route(Route::new("payments").unwrap());
    let shared = IdempotencyLayer::new(app.store.clone(), |_| Some(Principal::shared()), route);
    let shared = shared.layer(tower::service_fn(async |_: Request<idem_tower::Body<Steps>>| {
        Ok::<_, std::io::Error>(Response::new(Steps::from("shared")))
    }));
    assert_eq!(see(shared.oneshot(payment()).await.unwrap()).await, seen(200, &[], "shared"));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_reading_stops_there() {
    let app = App::charging().set(|layer| layer.max_request_body(8));
    let body = Steps::of([data("12345678"), data("9"), data("never read"), data("never read")]);
    let polls = body.polls();
    let problem = app.send(request(body)).await.is_problem(413, "body-too-large");
    assert!(problem["detail"].as_str().unwrap().contains("8 bytes"));
    assert_eq!(polls.load(std::sync::atomic::Ordering::SeqCst), 2);
    assert_eq!((app.runs(), app.store.calls()), (0, 0));

    let exactly = Steps::of([data("1234"), data("5678")]);
    assert_eq!(app.send(request(exactly)).await, first_charge());
}

#[tokio::test]
async fn an_announced_length_may_refuse_but_never_lets_pass() {
    let app = App::charging().set(|layer| layer.max_request_body(8));
    let body = Steps::from("tiny");
    let polls = body.polls();
    let mut announced = request(body);
    announced.headers_mut().insert("content-length", "9".parse().unwrap());
    app.send(announced).await.is_problem(413, "body-too-large");
    assert_eq!(polls.load(std::sync::atomic::Ordering::SeqCst), 0, "not read at all");

    let mut lying = request("nine bytes");
    lying.headers_mut().insert("content-length", "4".parse().unwrap());
    app.send(lying).await.is_problem(413, "body-too-large");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_limit_of_a_layer_outside_is_a_limit_too() {
    let app = App::charging();
    let limited = payment().map(|body| Steps::of([Step::Fail(Box::new(limit_error(body)))]));
    app.send(limited).await.is_problem(413, "body-too-large");
    assert_eq!((app.runs(), app.store.calls()), (0, 0));
}

fn limit_error(_: Steps) -> http_body_util::LengthLimitError {
    use http_body_util::{BodyExt, Full, Limited};
    let body = Limited::new(Full::new(bytes::Bytes::from_static(b"too long")), 1);
    let error = futures_executor(body.collect()).unwrap_err();
    *error.downcast().unwrap()
}

fn futures_executor<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("a full body is there at once"),
    }
}

#[tokio::test]
async fn a_request_body_that_breaks_off_claims_nothing() {
    let app = App::charging();
    app.send(request(Steps::of([data("{"), Step::Break]))).await.is_problem(400, "body-unreadable");
    assert_eq!((app.runs(), app.store.calls()), (0, 0));
    assert_eq!(app.pay().await, first_charge());
}

#[tokio::test]
async fn the_handler_gets_the_request_as_it_came() {
    let app = App::new(async |order: Order| {
        assert_eq!(order.parts.uri.path_and_query().unwrap(), "/payments?dry_run=true");
        assert_eq!(order.parts.headers["x-one"], "1");
        assert!(order.parts.extensions.get::<User>().is_some());
        assert_eq!(order.body, "{\"a\":1}");
        assert_eq!(order.trailers, [("checksum".to_owned(), "abc".to_owned())]);
        let running = order.running();
        assert_eq!((running.epoch().number(), running.key()), (1, &crate::support::key()));
        Ok(charged(order.run))
    });
    let trailers = Step::Trailers(crate::support::header_map(&[("checksum", "abc")]));
    let mut whole = request(Steps::of([data("{\"a\""), data(":1}"), trailers]));
    *whole.uri_mut() = "/payments?dry_run=true".parse().unwrap();
    whole.headers_mut().insert("x-one", "1".parse().unwrap());
    assert_eq!(app.send(whole).await, first_charge());
}

#[tokio::test]
async fn another_request_under_the_key_is_refused_whatever_differs() {
    let app = App::charging();
    app.pay().await;
    let mut other_query = payment();
    *other_query.uri_mut() = "/payments?dry_run=true".parse().unwrap();
    let mut other_path = payment();
    *other_path.uri_mut() = "/refunds".parse().unwrap();
    let mut other_type = payment();
    other_type.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    let mut other_coding = payment();
    other_coding.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    let mut other_method = payment();
    *other_method.method_mut() = Method::PATCH;
    for other in [request(r#"{"amount":"1.01"}"#), other_query, other_path, other_type, other_coding, other_method] {
        app.send(other).await.is_problem(422, "key-reused");
    }
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn the_status_of_a_reused_key_can_be_set() {
    let app = App::charging().set(|layer| layer.key_reused_status(StatusCode::CONFLICT));
    app.pay().await;
    app.send(request("other")).await.is_problem(409, "key-reused");
}

#[tokio::test]
async fn spelling_order_and_ignored_members_make_no_other_request() {
    let app = App::charging().set(|layer| layer.ignore(["/sent_at"]).ignore(["/trace"]));
    app.send(request(r#"{"amount":1.0,"to":"bob","sent_at":1,"trace":1}"#)).await;
    let retry = request(r#"{ "trace":2, "to":"\u0062ob", "sent_at":2, "amount":1 }"#);
    assert_eq!(app.send(retry).await, first_charge().replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_new_profile_refuses_no_retry_from_before_it() {
    let app = App::charging();
    app.pay().await;
    let forgetful = app.clone().set(|layer| layer.ignore(["/sent_at"]));
    forgetful.pay().await.is_problem(409, "not-comparable");
    let deployed = app.clone().set(|layer| layer.ignore(["/sent_at"]).previous_profiles([Profile::default()]));
    assert_eq!(deployed.pay().await, first_charge().replayed());
    deployed.send(request("other")).await.is_problem(422, "key-reused");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_comparison_of_ones_own_is_used_on_every_path() {
    let app = App::charging()
        .set(|layer| layer.fingerprint(|parts, _| idem_core::Fingerprint::bytes("pay", parts.uri.path().as_bytes())));
    app.pay().await;
    assert_eq!(app.send(request("another body")).await, first_charge().replayed());
    let mut other = payment();
    *other.uri_mut() = "/other".parse().unwrap();
    app.send(other).await.is_problem(422, "key-reused");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_failed_attempt_is_refused_and_says_whether_a_new_key_is_safe() {
    let app = App::answering(|| status(502));
    assert_eq!(app.pay().await, seen(502, &[], "text"));
    let problem = app.pay().await.is_problem(500, "previous-attempt-failed");
    assert_eq!(problem["safe_to_use_new_key"], false);
    assert!(problem["detail"].as_str().unwrap().contains("Check"), "{problem}");
    let teapot = app.clone().set(|layer| layer.previous_failed_status(StatusCode::CONFLICT));
    teapot.pay().await.is_problem(409, "previous-attempt-failed");
    let relaxed = app.clone().set(|layer| layer.policy(Policy::relaxed()));
    assert_eq!(relaxed.pay().await, seen(502, &[], "text"));
    assert_eq!(app.runs(), 2);
}

#[tokio::test]
async fn an_abandoned_key_is_refused_or_run_again_as_the_policy_says() {
    let app = App::charging();
    let fingerprint = idem_core::Fingerprint::bytes("pay", b"");
    let app = app.set(|layer| layer.fingerprint(move |_, _| fingerprint));
    let begun = app.layer.idempotency().begin(&crate::support::key(), &fingerprint).await.unwrap();
    drop(begun);
    let problem = app.pay().await.is_problem(409, "in-progress");
    assert!(problem["retry_after_ms"].as_u64().unwrap() >= 200);

    app.clock.advance(Duration::from_secs(31));
    let problem = app.pay().await.is_problem(409, "outcome-unknown");
    assert_eq!(problem["safe_to_use_new_key"], false);
    assert_eq!(app.runs(), 0);

    let rerun = Policy::strict().customize().abandoned(Abandoned::Rerun).build().unwrap();
    let rerun = app.clone().set(|layer| layer.policy(rerun));
    assert_eq!(rerun.pay().await, first_charge());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_record_that_is_no_response_is_refused_and_not_run_again() {
    let app = App::charging();
    let fingerprint = idem_core::Fingerprint::bytes("pay", b"");
    let app = app.set(|layer| layer.fingerprint(move |_, _| fingerprint));
    let handler = async |_| idem_core::Handled::<_, String>::Complete("a value".to_owned());
    let ran = app.layer.idempotency().run(&crate::support::key(), &fingerprint, handler).await.unwrap();
    assert!(matches!(ran, idem_core::Outcome::Completed(_)), "{ran:?}");
    app.pay().await.is_problem(500, "record-unreadable");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_refused_under_every_policy() {
    let app = App::charging();
    app.pay().await;
    app.store.corrupt();
    app.pay().await.is_problem(500, "record-unreadable");
    app.clone().set(|layer| layer.policy(Policy::relaxed())).pay().await.is_problem(500, "record-unreadable");
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn layered_twice_is_a_loud_error_and_runs_nothing() {
    let app = App::charging();
    let twice = app.layer.layer(app.service.clone().map_request(as_it_came));
    see(twice.clone().oneshot(payment()).await.unwrap()).await.is_problem(500, "misconfigured");
    see(twice.oneshot(payment()).await.unwrap()).await.is_problem(500, "previous-attempt-failed");
    assert_eq!(app.runs(), 0);
}

/// The test's layers are around services of one body type.
fn as_it_came(request: Request<idem_tower::Body<Steps>>) -> Request<Steps> {
    request.map(|_| Steps::from(r#"{"amount":"1.00"}"#))
}

#[tokio::test]
async fn a_request_that_is_passed_on_after_the_handler_has_acted_releases_nothing() {
    let inner = App::charging();
    let other = inner.clone();
    let outer = App::new(move |order: Order| {
        let inner = other.clone();
        async move {
            // The charge is made here; then the very same request goes on to a router with a layer of its own.
            let mut onward = payment();
            *onward.extensions_mut() = order.parts.extensions.clone();
            assert_eq!(inner.send(onward).await.status, 500);
            Ok(status(500))
        }
    });
    assert_eq!(outer.pay().await.status, 500);
    let problem = outer.pay().await.is_problem(500, "previous-attempt-failed");
    assert_eq!(problem["safe_to_use_new_key"], false);
    assert_eq!((outer.runs(), inner.runs()), (1, 0));
}

#[tokio::test]
async fn a_handler_may_send_requests_of_its_own_through_the_same_layer() {
    let inner = App::charging();
    let other = inner.clone();
    let outer = App::new(move |order: Order| {
        let inner = other.clone();
        async move {
            let mut onward = payment();
            *onward.extensions_mut() = order.parts.extensions.clone();
            let derived = order.running().derive_key("inner");
            onward.headers_mut().insert("idempotency-key", derived.as_str().parse().unwrap());
            let answer = inner.send(onward).await;
            assert_eq!(answer, first_charge());
            Ok(charged(order.run))
        }
    });
    assert_eq!(outer.pay().await, first_charge());
    assert_eq!((outer.runs(), inner.runs()), (1, 1));
}
