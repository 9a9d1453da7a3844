//! What is held of bodies that come in many chunks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::{Layer, ServiceExt};

use crate::support::{App, Order, Step, Steps, charged, data, first_charge, gate, payment, request, see};

/// How many chunks are still in memory.
#[derive(Clone, Default)]
struct Held(Arc<AtomicUsize>);

/// One byte, and all that a chunk of it holds on to.
struct Tiny(Held);

impl AsRef<[u8]> for Tiny {
    fn as_ref(&self) -> &[u8] {
        b"x"
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Held {
    fn chunks(&self, count: usize) -> impl Iterator<Item = Step> {
        self.0.fetch_add(count, Ordering::SeqCst);
        std::iter::repeat_with(|| Step::Data(Bytes::from_owner(Tiny(self.clone())))).take(count)
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

const MANY: usize = 10_000;

async fn reached(polls: &AtomicUsize) {
    while polls.load(Ordering::SeqCst) < MANY {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_body_in_tiny_chunks_holds_its_bytes_and_not_its_chunks() {
    let (held, (open, closed)) = (Held::default(), gate());
    let body = Steps::of(held.chunks(MANY).chain([closed]));
    let polls = body.polls();
    let app = App::new(async |order: Order| {
        assert_eq!(order.body, vec![b'x'; MANY]);
        Ok(charged(order.run))
    });
    let client = app.clone();
    let client = tokio::spawn(async move { client.send(request(body)).await });
    reached(&polls).await;
    assert!(held.count() <= 1, "{} chunks are held", held.count());
    open.send(()).unwrap();
    assert_eq!(client.await.unwrap(), first_charge());
}

#[tokio::test]
async fn a_response_body_in_tiny_chunks_holds_its_bytes_and_not_its_chunks() {
    let (held, (open, closed)) = (Held::default(), gate());
    let body = Steps::of(held.chunks(MANY).chain([closed]));
    let (polls, body) = (body.polls(), std::sync::Mutex::new(Some(body)));
    let app = App::answering(move || Response::new(body.lock().unwrap().take().unwrap()));
    let client = app.clone();
    let client = tokio::spawn(async move { client.pay().await });
    reached(&polls).await;
    assert!(held.count() <= 1, "{} chunks are held", held.count());
    open.send(()).unwrap();
    assert_eq!(client.await.unwrap().body, vec![b'x'; MANY]);
    assert_eq!(app.pay().await.body, vec![b'x'; MANY]);
}

#[tokio::test]
async fn chunks_of_any_size_come_out_in_their_order_kept_or_not() {
    let body = || {
        let large = |byte| Step::Data(Bytes::from(vec![byte; 2000]));
        Steps::of([data("ab"), data("cd"), data("ef"), large(b'1'), data("gh"), data("ij"), large(b'2'), data("k")])
    };
    let whole = [&b"abcdef"[..], &[b'1'; 2000], b"ghij", &[b'2'; 2000], b"k"].concat();
    let kept = App::answering(move || Response::new(body()));
    assert_eq!(kept.pay().await.body, whole);
    assert_eq!(kept.pay().await.body, whole);
    for limit in [1, 3, 6, 2006, 2008, 4010] {
        let over = App::answering(move || Response::new(body())).set(|layer| layer.max_response(limit));
        assert_eq!(over.pay().await.body, whole, "{limit}");
        over.pay().await.is_problem(409, "response-not-kept");
    }
}

#[tokio::test]
async fn a_body_of_one_chunk_is_handed_on_without_a_copy() {
    static CHUNK: &[u8] = br#"{"amount":"1.00"}"#;
    let service = tower::service_fn(async |mut request: Request<idem_tower::Body<Steps>>| {
        let chunk = request.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(std::ptr::eq(chunk.as_ptr(), CHUNK.as_ptr()));
        Ok::<_, std::convert::Infallible>(Response::new(Steps::from(Bytes::from_static(CHUNK))))
    });
    let app = App::charging();
    let request = payment().map(|_| Steps::from(Bytes::from_static(CHUNK)));
    let mut response = app.layer.layer(service).oneshot(request).await.unwrap();
    let chunk = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(std::ptr::eq(chunk.as_ptr(), CHUNK.as_ptr()));
    assert!(see(response).await.body.is_empty());
}
