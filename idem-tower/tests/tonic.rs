//! The layer around tonic's own server code: what `tonic-build` generates, written by hand over messages of bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use idem_core::{Principal, Route};
use idem_memory::MemoryStore;
use idem_tower::{IdempotencyLayer, fixed_route};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::{Layer, Service, ServiceExt};

/// Messages that are their own bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

/// A bank whose `/bank.Bank/Pay` counts its runs, and answers with the message or with a status.
#[derive(Clone)]
struct Bank {
    runs: Arc<AtomicUsize>,
    answer: Result<&'static str, Code>,
}

impl NamedService for Bank {
    const NAME: &'static str = "bank.Bank";
}

impl UnaryService<Bytes> for Bank {
    type Response = Bytes;
    type Future = std::future::Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        assert_eq!(request.into_inner(), "100.00");
        self.runs.fetch_add(1, Ordering::SeqCst);
        std::future::ready(match self.answer {
            Ok(text) => Ok(tonic::Response::new(Bytes::from_static(text.as_bytes()))),
            Err(code) => Err(Status::new(code, "the bank says no")),
        })
    }
}

impl Service<Request<Body>> for Bank {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let bank = self.clone();
        Box::pin(async move { Ok(Grpc::new(Raw).unary(bank, request).await) })
    }
}

/// Calls twice with one key; gives the two answers as (replayed, message, `grpc-status`), and how often it ran.
async fn call_twice(answer: Result<&'static str, Code>) -> (Vec<(bool, Bytes, String)>, usize) {
    let runs = Arc::new(AtomicUsize::new(0));
    let bank = Bank { runs: Arc::clone(&runs), answer };
    let caller = |_: &http::request::Parts| Principal::new("alice");
    let service = IdempotencyLayer::new(MemoryStore::default(), caller, fixed_route(Route::new("pay").unwrap()))
        .layer(Routes::new(bank));
    let mut answers = Vec::new();
    for _ in 0..2 {
        let request = Request::post("http://bank.example/bank.Bank/Pay")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("idempotency-key", "key-of-alice-0001")
            .body(Full::new(Bytes::from_static(b"\0\0\0\0\x06100.00")))
            .unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        assert_eq!((head.status.as_u16(), &head.headers["content-type"]), (200, &"application/grpc".parse().unwrap()));
        let collected = body.collect().await.unwrap();
        // A call that ends without a message has its status in the head.
        let status =
            collected.trailers().and_then(|lines| lines.get("grpc-status")).or(head.headers.get("grpc-status"));
        let status = status.unwrap().to_str().unwrap().to_owned();
        answers.push((head.headers.contains_key("idempotent-replayed"), collected.to_bytes(), status));
    }
    (answers, runs.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_call_that_succeeds_is_replayed_with_message_and_status() {
    let (answers, runs) = call_twice(Ok("paid")).await;
    let message = Bytes::from_static(b"\0\0\0\0\x04paid");
    assert_eq!(answers, [(false, message.clone(), "0".to_owned()), (true, message, "0".to_owned())]);
    assert_eq!(runs, 1);
}

#[tokio::test]
async fn a_definite_status_is_replayed() {
    let (answers, runs) = call_twice(Err(Code::FailedPrecondition)).await;
    assert_eq!(answers, [(false, Bytes::new(), "9".to_owned()), (true, Bytes::new(), "9".to_owned())]);
    assert_eq!(runs, 1);
}

#[tokio::test]
async fn a_status_that_asks_to_come_back_runs_again() {
    let (answers, runs) = call_twice(Err(Code::Unavailable)).await;
    assert_eq!(answers, [(false, Bytes::new(), "14".to_owned()), (false, Bytes::new(), "14".to_owned())]);
    assert_eq!(runs, 2);
}
