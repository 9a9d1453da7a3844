//! The layer on hyper's own connections, HTTP/1.1 and HTTP/2, and with the body types of others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use idem_core::{Principal, Route};
use idem_memory::MemoryStore;
use idem_tower::{Body, IdempotencyLayer, fixed_route};
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tower::{Layer, Service, ServiceExt};

fn layer() -> IdempotencyLayer {
    let caller = |_: &http::request::Parts| Principal::new("alice");
    IdempotencyLayer::new(MemoryStore::default(), caller, fixed_route(Route::new("payments").unwrap()))
}

type Boxed = UnsyncBoxBody<Bytes, Infallible>;

fn trailers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

/// A body of frames that are there already.
struct Frames(VecDeque<Frame<Bytes>>);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn frames(frames: impl IntoIterator<Item = Frame<Bytes>>) -> Boxed {
    Frames(frames.into_iter().collect()).boxed_unsync()
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

fn payment(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("http://shop.example/payments")
        .header("host", "shop.example")
        .header("te", "trailers")
        .header("idempotency-key", "key-of-alice-0001")
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .unwrap()
}

/// Serves one connection in a task of its own, and gives the client's end.
fn connect<S, R>(service: S, http_2: bool) -> DuplexStream
where
    S: Service<Request<Incoming>, Response = Response<R>, Future: Send, Error: Into<idem_tower::BoxError>>
        + Clone
        + Send
        + 'static,
    R: http_body::Body<Data = Bytes, Error: Into<idem_tower::BoxError>> + Send + 'static,
{
    let (client, server) = tokio::io::duplex(1 << 16);
    let service = TowerToHyperService::new(service);
    tokio::spawn(async move {
        let io = TokioIo::new(server);
        let _ended = if http_2 {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
        } else {
            hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
        };
    });
    client
}

struct Seen {
    head: http::response::Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

async fn send(connection: DuplexStream, http_2: bool, request: Request<Full<Bytes>>) -> Seen {
    let io = TokioIo::new(connection);
    let response = if http_2 {
        let (mut send, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        send.send_request(request).await.unwrap()
    } else {
        let (mut send, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        send.send_request(request).await.unwrap()
    };
    let (head, body) = response.into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    Seen { head, body: collected.to_bytes(), trailers }
}

#[tokio::test]
async fn trailers_cross_both_versions_of_http_first_and_replayed() {
    for http_2 in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let shop = tower::service_fn(move |request: Request<Body<Incoming>>| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "pay");
                let checksum = Frame::trailers(trailers(&[("checksum", "abc")]));
                let response = Response::builder().header("trailer", "checksum").header("content-encoding", "gzip");
                Ok::<_, Infallible>(response.body(frames([data("bo"), data("dy"), checksum])).unwrap())
            }
        });
        let service = layer().layer(shop);
        for replayed in [None, Some("true")] {
            let seen = send(connect(service.clone(), http_2), http_2, payment("pay")).await;
            assert_eq!(seen.head.status, 200);
            assert_eq!(seen.head.headers.get("idempotent-replayed").map(|value| value.to_str().unwrap()), replayed);
            assert_eq!(seen.head.headers["content-encoding"], "gzip");
            assert_eq!(seen.body, "body");
            assert_eq!(seen.trailers.unwrap(), trailers(&[("checksum", "abc")]), "HTTP/2: {http_2}");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_replay_has_the_framing_of_its_own_connection() {
    let shop = tower::service_fn(async |_: Request<Body<Incoming>>| {
        let response = Response::builder().header("connection", "close").header("content-length", "4");
        Ok::<_, Infallible>(response.body(frames([data("bo"), data("dy")])).unwrap())
    });
    let service = layer().layer(shop);
    let first = send(connect(service.clone(), false), false, payment("pay")).await;
    assert_eq!((&first.head.headers["connection"], &*first.body), (&"close".parse().unwrap(), &b"body"[..]));
    let replay = send(connect(service, false), false, payment("pay")).await;
    assert_eq!(replay.head.headers.get("connection"), None);
    assert_eq!(replay.head.headers["content-length"], "4");
    assert_eq!(replay.body, "body");
}

#[tokio::test]
async fn a_connection_that_is_cut_cancels_nothing() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waits) = (Arc::clone(&begun), Arc::clone(&go_on));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let shop = tower::service_fn(move |_: Request<Body<Incoming>>| {
        let (begun, go_on) = (Arc::clone(&told), Arc::clone(&waits));
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            begun.notify_one();
            go_on.notified().await;
            Ok::<_, Infallible>(Response::new(frames([data("charged")])))
        }
    });
    let layer = layer();
    let service = layer.layer(shop);
    let client = tokio::spawn(send(connect(service.clone(), false), false, payment("pay")));
    begun.notified().await;
    client.abort();
    assert!(client.await.is_err_and(|error| error.is_cancelled()));
    go_on.notify_one();
    layer.drain().await;

    let retry = send(connect(service, false), false, payment("pay")).await;
    assert_eq!((retry.head.status.as_u16(), &*retry.body), (200, &b"charged"[..]));
    assert_eq!(retry.head.headers["idempotent-replayed"], "true");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_body_over_the_limit_gets_its_answer_without_being_read() {
    let shop = tower::service_fn(async |_: Request<Body<Incoming>>| -> Result<Response<Boxed>, Infallible> {
        panic!("the handler ran")
    });
    let service = layer().max_request_body(2).layer(shop);
    let seen = send(connect(service, false), false, payment("pay")).await;
    assert_eq!(seen.head.status, 413);
    assert!(String::from_utf8_lossy(&seen.body).contains("#body-too-large"));
}

#[tokio::test]
async fn a_response_over_the_limit_arrives_whole() {
    let shop = tower::service_fn(async |_: Request<Body<Incoming>>| {
        let chunks = (0..1000).map(|_| data("0123456789"));
        Ok::<_, Infallible>(Response::new(frames(chunks)))
    });
    let service = layer().max_response(100).layer(shop);
    let seen = send(connect(service.clone(), false), false, payment("pay")).await;
    assert_eq!((seen.head.status.as_u16(), seen.body.len()), (200, 10_000));
    let retry = send(connect(service, false), false, payment("pay")).await;
    assert_eq!(retry.head.status, 409);
}

/// An error as generated gRPC code has it: neither boxed nor standard.
#[derive(Debug)]
struct Status;

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a status")
    }
}

impl std::error::Error for Status {}

/// Generated gRPC code is generic over the bodies of requests, like this.
#[derive(Clone)]
struct Greeter;

impl<B> Service<Request<B>> for Greeter
where
    B: http_body::Body<Error: Into<idem_tower::BoxError> + Send> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, Status>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        Box::pin(async {
            let done = Frame::trailers(trailers(&[("grpc-status", "0")]));
            let body = frames([data("\0\0\0\0\0"), done]).map_err(|never| match never {}).boxed_unsync();
            Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
        })
    }
}

#[tokio::test]
async fn a_unary_grpc_call_is_replayed_with_its_status() {
    let service = layer().layer(Greeter);
    for replayed in [false, true] {
        let body = Full::new(Bytes::from_static(b"\0\0\0\0\x01x")).map_err(|never| match never {});
        let request = payment("").map(|_| -> UnsyncBoxBody<Bytes, Status> { body.boxed_unsync() });
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
        let collected = response.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes(), "\0\0\0\0\0");
    }
    let over_hyper = layer().layer(Greeter);
    for replayed in [false, true] {
        let seen = send(connect(over_hyper.clone(), true), true, payment("")).await;
        assert_eq!(seen.head.headers.contains_key("idempotent-replayed"), replayed);
        assert_eq!(seen.trailers.unwrap()["grpc-status"], "0");
    }
}
