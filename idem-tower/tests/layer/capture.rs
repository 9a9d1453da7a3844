//! What is stored of a response, what its first client gets, and what is too much to be kept.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use idem_core::{Answer, Begin, Content, KeyStore, Settled, Settlement, State};
use idem_tower::Streamed;
use tower::ServiceExt;

use crate::support::{App, Step, Steps, data, gate, header_map, key, payment, see, seen};

#[tokio::test]
async fn lines_that_belong_to_one_connection_message_or_client_are_not_replayed() {
    let own = [
        ("connection", "keep-alive, x-hop"),
        ("keep-alive", "timeout=5"),
        ("x-hop", "1"),
        ("proxy-authenticate", "Basic"),
        ("proxy-status", "cache"),
        ("te", "trailers"),
        ("trailer", "x"),
        ("upgrade", "h2c"),
        ("content-length", "4"),
        ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        ("set-cookie", "session=alice"),
        ("set-cookie", "theme=dark"),
        ("authorization", "Bearer x"),
        ("x-request-id", "42"),
        ("server-timing", "db;dur=53"),
    ];
    let kept = [
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("location", "/payments/1"),
        ("etag", "\"1\""),
        ("link", "</a>; rel=a, </b>; rel=b"),
        ("link", "</c>; rel=c"),
        ("vary", "accept"),
        ("cache-control", "no-store"),
        ("x-own", "1"),
    ];
    let app = App::answering(move || {
        let mut response = Response::new(Steps::from("\x1f\u{8b}text"));
        for (name, value) in own.into_iter().chain(kept) {
            response.headers_mut().append(HeaderName::from_static(name), value.parse().unwrap());
        }
        response
    })
    .set(|layer| {
        let request_id = HeaderName::from_static("x-request-id");
        layer.not_stored_headers([request_id]).not_stored_headers([HeaderName::from_static("server-timing")])
    });

    let first = app.pay().await;
    assert_eq!(first.headers.len(), own.len() + kept.len(), "the first client gets the handler's own lines");
    assert_eq!(first.headers.iter().filter(|(name, _)| name == "set-cookie").count(), 2);
    assert_eq!(app.pay().await, seen(200, &kept, "\x1f\u{8b}text").replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn any_bytes_come_back_as_they_went_out() {
    for body in [Bytes::new(), Bytes::from_static(b"\0\xff\xfe\r\n"), Bytes::from(vec![7; 1 << 20])] {
        let sent = body.clone();
        let app = App::answering(move || Response::new(Steps::from(sent.clone())));
        assert_eq!(app.pay().await.body, body);
        let replay = app.pay().await;
        assert_eq!((replay.status, replay.body, replay.trailers.len()), (200, body, 0));
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn header_values_need_not_be_text() {
    let app = App::answering(|| {
        let mut response = Response::new(Steps::from(""));
        response.headers_mut().insert("x-name", http::HeaderValue::from_bytes(b"M\xfcller").unwrap());
        response
    });
    for _ in 0..2 {
        let response = app.service.clone().oneshot(payment()).await.unwrap();
        assert_eq!(response.headers()["x-name"].as_bytes(), b"M\xfcller");
    }
    assert_eq!(app.runs(), 1);
}

/// A response of so many header lines, whose names are `x-0`, `x-1` and so on.
fn of_names(names: u32) -> Response<Steps> {
    let mut response = Response::new(Steps::from("text"));
    for name in 0..names {
        response.headers_mut().append(format!("x-{name}").parse::<HeaderName>().unwrap(), name.into());
    }
    response
}

#[tokio::test]
async fn a_header_of_very_many_lines_is_replayed() {
    let app = App::answering(|| {
        let mut response = Response::new(Steps::from("text"));
        for line in 0..30_000_u32 {
            response.headers_mut().append("link", line.into());
        }
        response
    });
    let first = app.pay().await;
    assert_eq!(first.headers.len(), 30_000);
    assert_eq!(app.pay().await, first.replayed());
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn an_answer_of_more_headers_than_a_replay_can_have_is_not_kept() {
    for (names, is_kept) in [(24_574, true), (24_575, false), (24_576, false)] {
        let app = App::answering(move || of_names(names));
        let first = app.pay().await;
        assert_eq!((first.status, first.headers.len()), (200, names as usize));
        let retry = app.pay().await;
        if is_kept {
            assert_eq!(retry, first.replayed());
        } else {
            retry.is_problem(409, "response-not-kept");
        }
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test]
async fn a_record_of_more_headers_than_http_can_carry_is_unreadable() {
    let fingerprint = idem_core::Fingerprint::bytes("pay", b"");
    let app = App::charging().set(|layer| layer.fingerprint(move |_, _| fingerprint));
    let line = |name| idem_core::Header { name: format!("x-{name}").into(), value: Bytes::new() };
    let stored = idem_core::Response { status: 200, headers: (0..30_000).map(line).collect(), ..Default::default() };
    let begun = app.layer.idempotency().begin(&key(), &fingerprint).await.unwrap();
    let Begin::Run(attempt) = begun else { panic!("{begun:?}") };
    assert_eq!(attempt.settle(Settlement::Completed(Answer::from(stored))).await, Settled::Done);
    app.pay().await.is_problem(500, "record-unreadable");
    assert_eq!(app.runs(), 0);
}

#[tokio::test]
async fn trailers_are_replayed_and_announced_anew_where_http_1_needs_it() {
    let app = App::answering(|| {
        let trailers = Step::Trailers(header_map(&[("checksum", "abc"), ("set-cookie", "a=b")]));
        Response::new(Steps::of([data("bo"), data("dy"), trailers]))
    });
    let first = seen(200, &[], "body");
    assert_eq!(app.pay().await, first.clone().with_trailers(&[("checksum", "abc"), ("set-cookie", "a=b")]));

    let replay = app.service.clone().oneshot(payment()).await.unwrap();
    assert_eq!(replay.body().size_hint().exact(), None, "a length would cut trailers off in HTTP/1.1");
    let replay = see(replay).await;
    assert_eq!(replay.header("trailer"), Some("checksum"));
    assert_eq!(replay.trailers, [("checksum".to_owned(), "abc".to_owned())]);

    let mut http_2 = payment();
    *http_2.version_mut() = Version::HTTP_2;
    assert_eq!(app.send(http_2).await, first.replayed().with_trailers(&[("checksum", "abc")]));
    assert_eq!(app.runs(), 1);
}

#[tokio::test]
async fn a_replay_knows_its_length() {
    let app = App::charging();
    app.pay().await;
    let replay = app.service.clone().oneshot(payment()).await.unwrap();
    assert_eq!(replay.body().size_hint().exact(), Some(8));
}

#[tokio::test]
async fn the_inner_request_knows_its_length() {
    let service = tower::service_fn(async |request: Request<idem_tower::Body<Steps>>| {
        let length = request.body().size_hint().exact();
        Ok::<_, std::convert::Infallible>(Response::new(Steps::from(format!("{length:?}"))))
    });
    let app = App::charging();
    let response = tower::Layer::layer(&app.layer, service).oneshot(payment()).await.unwrap();
    assert_eq!(see(response).await, seen(200, &[], "Some(17)"));
}

#[tokio::test]
async fn a_body_at_the_limit_is_kept_and_one_over_it_is_not_and_reaches_its_client_whole() {
    let at =
        App::answering(|| Response::new(Steps::of([data("1234"), data("5678")]))).set(|layer| layer.max_response(8));
    assert_eq!(at.pay().await, seen(200, &[], "12345678"));
    assert_eq!(at.pay().await, seen(200, &[], "12345678").replayed());

    let over = App::answering(|| {
        let trailers = Step::Trailers(header_map(&[("checksum", "abc")]));
        Response::new(Steps::of([data("1234"), data("56789"), data("and more"), trailers]))
    })
    .set(|layer| layer.max_response(8));
    assert_eq!(over.pay().await, seen(200, &[], "123456789and more").with_trailers(&[("checksum", "abc")]));
    over.pay().await.is_problem(409, "response-not-kept");
    assert_eq!((at.runs(), over.runs()), (1, 1));
}

#[tokio::test]
async fn what_a_response_says_of_its_length_is_not_believed() {
    let app = App::answering(|| {
        let body = Steps::of([data("1234"), data("56789")]);
        Response::builder().header("content-length", "2").body(body).unwrap()
    })
    .set(|layer| layer.max_response(8));
    assert_eq!(app.pay().await, seen(200, &[("content-length", "2")], "123456789"));
    app.pay().await.is_problem(409, "response-not-kept");
}

/// What the store says of the key right now.
async fn state(app: &App) -> State {
    match app.store.memory.find(&key()).await.unwrap().unwrap().content {
        Content::Readable(record) => record.state,
        Content::Unreadable(_) => panic!("unreadable"),
    }
}

#[tokio::test(start_paused = true)]
async fn not_kept_is_written_before_the_first_byte_of_an_endless_stream_goes_out_at_once() {
    for kind in ["marked", "event stream"] {
        let app = App::answering(move || {
            let (open, never) = gate();
            std::mem::forget(open);
            let mut response = Response::new(Steps::of([data("first"), never]));
            match kind {
                "marked" => drop(response.extensions_mut().insert(Streamed)),
                _ => {
                    let media_type = "Text/Event-Stream; charset=utf-8".parse().unwrap();
                    drop(response.headers_mut().insert("content-type", media_type));
                }
            }
            response
        });
        let begun = tokio::time::Instant::now();
        let mut stream = app.service.clone().oneshot(payment()).await.unwrap().into_body();
        assert_eq!(begun.elapsed(), Duration::ZERO, "{kind}: nothing is held back");
        assert_eq!(state(&app).await, State::Completed(Answer::NotKept));
        assert_eq!(stream.frame().await.unwrap().unwrap().into_data().unwrap(), "first", "{kind}");
        app.pay().await.is_problem(409, "response-not-kept");
        assert_eq!(app.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_streams_on_and_is_not_kept_from_before_that() {
    let (open, closed) = gate();
    let body = std::sync::Mutex::new(Some(Steps::of([data("123456789"), closed, data(" and the rest")])));
    let app =
        App::answering(move || Response::new(body.lock().unwrap().take().unwrap())).set(|layer| layer.max_response(8));
    let mut stream = app.service.clone().oneshot(payment()).await.unwrap().into_body();
    assert_eq!(state(&app).await, State::Completed(Answer::NotKept));
    assert_eq!(stream.frame().await.unwrap().unwrap().into_data().unwrap(), "123456789");
    open.send(()).unwrap();
    assert_eq!(see(Response::new(stream)).await, seen(200, &[], " and the rest"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_not_kept_and_reaches_its_client_whole() {
    let (open, closed) = gate();
    let body = std::sync::Mutex::new(Some(Steps::of([data("at once"), closed, data(" and much later")])));
    let app = App::answering(move || Response::new(body.lock().unwrap().take().unwrap()))
        .set(|layer| layer.buffer_time(Duration::from_secs(3)));
    let begun = tokio::time::Instant::now();
    let response = app.service.clone().oneshot(payment()).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(state(&app).await, State::Completed(Answer::NotKept));
    open.send(()).unwrap();
    assert_eq!(see(response).await, seen(200, &[], "at once and much later"));
    app.pay().await.is_problem(409, "response-not-kept");
    assert_eq!(app.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_within_its_time_is_kept() {
    let (open, closed) = gate();
    let body = std::sync::Mutex::new(Some(Steps::of([data("at once"), closed, data(" and soon")])));
    let app = App::answering(move || Response::new(body.lock().unwrap().take().unwrap()));
    let opening = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        open.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(app.pay(), opening);
    assert_eq!(first, seen(200, &[], "at once and soon"));
    assert_eq!(app.pay().await, first.replayed());
}

#[tokio::test]
async fn a_forwarded_stream_that_breaks_off_breaks_off_for_its_client_only() {
    let app = App::answering(|| Response::new(Steps::of([data("123456789"), Step::Break])))
        .set(|layer| layer.max_response(8));
    let first = app.pay().await;
    assert_eq!((&*first.body, first.broken), (&b"123456789"[..], true));
    app.pay().await.is_problem(409, "response-not-kept");
    assert_eq!(app.runs.load(Ordering::SeqCst), 1);
}
