//! A scriptable shop behind the layer, scriptable bodies, and a store that fails on request.

use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use idem_core::{
    Change, Content, Found, Guard, IdempotencyKey, Inserted, KeyStore, NewRecord, Principal, Replaced, Route,
    ScopedKey, StoreError, StoreErrorKind, StoreStats, Swept, Unreadable,
};
use idem_memory::{ManualClock, MemoryStore};
use idem_tower::{Body, BoxError, IdempotencyLayer, IdempotencyService, Running, fixed_route};
use tokio::sync::{Notify, oneshot};
use tower::{Layer, Service, ServiceExt};

// ---- bodies

/// A body that comes step by step.
#[derive(Default)]
pub(crate) struct Steps {
    steps: VecDeque<Step>,
    polls: Arc<AtomicUsize>,
}

pub(crate) enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    Break,
    Fail(BoxError),
    /// Nothing comes until the other end is used.
    Gate(oneshot::Receiver<()>),
    Panic,
    /// Something is done between two frames.
    Do(Box<dyn FnOnce() + Send>),
}

impl Steps {
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), polls: Arc::default() }
    }

    /// Frames that were asked for.
    pub(crate) fn polls(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.polls)
    }
}

impl<T: Into<Bytes>> From<T> for Steps {
    fn from(text: T) -> Self {
        Self::of([Step::Data(text.into())])
    }
}

pub(crate) fn data(text: &'static str) -> Step {
    Step::Data(Bytes::from_static(text.as_bytes()))
}

pub(crate) fn gate() -> (oneshot::Sender<()>, Step) {
    let (open, gate) = oneshot::channel();
    (open, Step::Gate(gate))
}

#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body broke off")
    }
}

impl std::error::Error for Broken {}

impl http_body::Body for Steps {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(Step::Gate(gate)) = self.steps.front_mut() {
            if Pin::new(gate).poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.steps.pop_front();
        }
        self.polls.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(match self.steps.pop_front() {
            None => None,
            Some(Step::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Step::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(Step::Break) => Some(Err(Box::new(Broken))),
            Some(Step::Fail(error)) => Some(Err(error)),
            Some(Step::Do(act)) => {
                act();
                return self.poll_frame(cx);
            }
            Some(Step::Panic) => panic!("the body panics"),
            Some(gate @ Step::Gate(_)) => {
                self.steps.push_front(gate);
                return self.poll_frame(cx);
            }
        })
    }
}

// ---- requests and answers

#[derive(Clone, Debug)]
pub(crate) struct User(pub &'static str);

pub(crate) const KEY: &str = "key-of-alice-0001";

pub(crate) fn request(body: impl Into<Steps>) -> Request<Steps> {
    Request::post("/payments")
        .header("idempotency-key", KEY)
        .header("content-type", "application/json")
        .extension(User("alice"))
        .body(body.into())
        .unwrap()
}

pub(crate) fn payment() -> Request<Steps> {
    request(r#"{"amount":"1.00"}"#)
}

/// Everything that a client sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) trailers: Vec<(String, String)>,
    /// The body ended in an error.
    pub(crate) broken: bool,
}

pub(crate) fn seen(status: u16, headers: &[(&str, &str)], body: &str) -> Seen {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Seen { status, headers, body: Bytes::copy_from_slice(body.as_bytes()), trailers: Vec::new(), broken: false }
}

impl Seen {
    pub(crate) fn replayed(mut self) -> Self {
        self.headers.push(("idempotent-replayed".to_owned(), "true".to_owned()));
        self
    }

    pub(crate) fn with_trailers(mut self, trailers: &[(&str, &str)]) -> Self {
        self.trailers = trailers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(line, _)| line == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts the whole of a problem, and gives its body.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, slug: &str) -> serde_json::Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert!(problem["type"].as_str().unwrap().ends_with(&format!("#{slug}")), "{problem}");
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        assert_eq!(self.header("idempotent-replayed"), None);
        assert_eq!(self.header("retry-after").is_some(), problem["retry_after_ms"].is_number(), "{self:?}");
        problem
    }
}

pub(crate) async fn see<B>(response: Response<B>) -> Seen
where
    B: http_body::Body<Data = Bytes>,
{
    let (head, body) = response.into_parts();
    let mut body = std::pin::pin!(body);
    let (mut whole, mut trailers, mut broken) = (Vec::new(), HeaderMap::new(), false);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => match frame.into_data() {
                Ok(data) => whole.extend_from_slice(&data),
                Err(frame) => trailers = frame.into_trailers().unwrap(),
            },
            Err(_) => {
                broken = true;
                break;
            }
        }
    }
    Seen {
        status: head.status.as_u16(),
        headers: lines(&head.headers),
        body: whole.into(),
        trailers: lines(&trailers),
        broken,
    }
}

fn lines(map: &HeaderMap) -> Vec<(String, String)> {
    map.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

pub(crate) fn header_map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

// ---- the shop

/// What the handler gets.
pub(crate) struct Order {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
    pub(crate) trailers: Vec<(String, String)>,
    /// Counted from 1.
    pub(crate) run: usize,
}

impl Order {
    pub(crate) fn running(&self) -> Running {
        self.parts.extensions.get::<Running>().unwrap().clone()
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Steps>, Broken>> + Send>>;

/// An inner service that counts its runs.
#[derive(Clone)]
pub(crate) struct Shop {
    runs: Arc<AtomicUsize>,
    handler: Arc<dyn Fn(Order) -> Answer + Send + Sync>,
}

impl Shop {
    /// A shop, and the number of its runs.
    pub(crate) fn new<A>(handler: impl Fn(Order) -> A + Send + Sync + 'static) -> (Self, Arc<AtomicUsize>)
    where
        A: Future<Output = Result<Response<Steps>, Broken>> + Send + 'static,
    {
        let runs = Arc::new(AtomicUsize::new(0));
        (Self { runs: Arc::clone(&runs), handler: Arc::new(move |order| Box::pin(handler(order))) }, runs)
    }
}

impl Service<Request<Body<Steps>>> for Shop {
    type Response = Response<Steps>;
    type Error = Broken;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body<Steps>>) -> Answer {
        let shop = self.clone();
        Box::pin(async move {
            let run = shop.runs.fetch_add(1, Ordering::SeqCst) + 1;
            let (parts, body) = request.into_parts();
            let read = see(Response::new(body)).await;
            assert!(!read.broken, "an inner service gets whole bodies only");
            (shop.handler)(Order { parts, body: read.body, trailers: read.trailers, run }).await
        })
    }
}

/// A layer around a shop, and the store beneath.
#[derive(Clone)]
pub(crate) struct App {
    shop: Shop,
    pub(crate) service: IdempotencyService<Shop>,
    pub(crate) layer: IdempotencyLayer,
    pub(crate) store: Store,
    pub(crate) clock: ManualClock,
    pub(crate) runs: Arc<AtomicUsize>,
}

pub(crate) fn caller(parts: &Parts) -> Option<Result<Principal, idem_core::ScopeError>> {
    parts.extensions.get::<User>().map(|user| Principal::new(user.0))
}

impl App {
    pub(crate) fn new<A>(handler: impl Fn(Order) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Result<Response<Steps>, Broken>> + Send + 'static,
    {
        let clock = ManualClock::new();
        let store = Store { memory: Arc::new(MemoryStore::with_clock(clock.clone())), script: Arc::default() };
        let route = fixed_route(Route::new("payments").unwrap());
        let layer = IdempotencyLayer::new(store.clone(), caller, route);
        let (shop, runs) = Shop::new(handler);
        Self { service: layer.layer(shop.clone()), shop, layer, store, clock, runs }
    }

    /// Answers every order the same, as far as a response can be made twice.
    pub(crate) fn answering(response: impl Fn() -> Response<Steps> + Send + Sync + 'static) -> Self {
        Self::new(move |_| std::future::ready(Ok(response())))
    }

    /// Answers 201 with the number of the run.
    pub(crate) fn charging() -> Self {
        Self::new(|order| std::future::ready(Ok(charged(order.run))))
    }

    /// The same shop and store under other settings.
    pub(crate) fn set(mut self, change: impl FnOnce(IdempotencyLayer) -> IdempotencyLayer) -> Self {
        self.layer = change(self.layer);
        self.service = self.layer.layer(self.shop.clone());
        self
    }

    pub(crate) async fn send(&self, request: Request<Steps>) -> Seen {
        self.try_send(request).await.unwrap()
    }

    pub(crate) async fn try_send(&self, request: Request<Steps>) -> Result<Seen, Broken> {
        Ok(see(self.service.clone().oneshot(request).await?).await)
    }

    pub(crate) async fn pay(&self) -> Seen {
        self.send(payment()).await
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

pub(crate) fn charged(run: usize) -> Response<Steps> {
    Response::builder()
        .status(201)
        .header("location", "/payments/1")
        .body(Steps::from(format!("charge {run}")))
        .unwrap()
}

/// What the client of the first run sees.
pub(crate) fn first_charge() -> Seen {
    seen(201, &[("location", "/payments/1")], "charge 1")
}

pub(crate) fn status(status: u16) -> Response<Steps> {
    let mut response = Response::new(Steps::from("text"));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

pub(crate) fn key() -> ScopedKey {
    let (principal, route) = (Principal::new("alice").unwrap(), Route::new("payments").unwrap());
    ScopedKey::new(principal, route, IdempotencyKey::parse(KEY).unwrap())
}

// ---- the store

/// A memory store that fails on request.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) memory: Arc<MemoryStore<ManualClock>>,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    insert: Mutex<VecDeque<Fault>>,
    replace: Mutex<VecDeque<Fault>>,
    find: Mutex<VecDeque<Fault>>,
    down: Mutex<Option<Fault>>,
    unreadable: AtomicBool,
    calls: AtomicUsize,
}

#[derive(Clone)]
pub(crate) enum Fault {
    /// Certainly nothing was written.
    Refused(StoreErrorKind),
    /// Nothing was written, and nobody knows.
    Lost,
    /// It was written, and nobody knows.
    LostReply,
    /// The call says that it has begun, and goes on once it is let.
    Held(Arc<Held>),
    None,
}

#[derive(Default)]
pub(crate) struct Held {
    pub(crate) begun: Notify,
    pub(crate) go_on: Notify,
}

impl Store {
    pub(crate) fn next_insert(&self, faults: impl IntoIterator<Item = Fault>) {
        self.script.insert.lock().unwrap().extend(faults);
    }

    pub(crate) fn next_replace(&self, faults: impl IntoIterator<Item = Fault>) {
        self.script.replace.lock().unwrap().extend(faults);
    }

    pub(crate) fn set_down(&self, fault: Option<Fault>) {
        *self.script.down.lock().unwrap() = fault;
    }

    /// From now on, whatever is there cannot be read.
    pub(crate) fn corrupt(&self) {
        self.script.unreadable.store(true, Ordering::SeqCst);
    }

    fn read(&self, mut found: Found) -> Found {
        if self.script.unreadable.load(Ordering::SeqCst) {
            found.content = Content::Unreadable(Unreadable::Corrupt);
        }
        found
    }

    pub(crate) fn calls(&self) -> usize {
        self.script.calls.load(Ordering::SeqCst)
    }

    async fn through<R>(
        &self,
        faults: &Mutex<VecDeque<Fault>>,
        call: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        self.script.calls.fetch_add(1, Ordering::SeqCst);
        let fault = faults.lock().unwrap().pop_front();
        let fault = fault.or_else(|| self.script.down.lock().unwrap().clone()).unwrap_or(Fault::None);
        match fault {
            Fault::None => call.await,
            Fault::Refused(kind) => Err(StoreError::not_written(kind, Broken)),
            Fault::Lost => Err(StoreError::unknown(StoreErrorKind::Unavailable, Broken)),
            Fault::LostReply => {
                call.await?;
                Err(StoreError::unknown(StoreErrorKind::Unavailable, Broken))
            }
            Fault::Held(held) => {
                held.begun.notify_one();
                held.go_on.notified().await;
                call.await
            }
        }
    }
}

#[async_trait]
impl KeyStore for Store {
    async fn insert(&self, key: &ScopedKey, record: &NewRecord) -> Result<Inserted, StoreError> {
        Ok(match self.through(&self.script.insert, self.memory.insert(key, record)).await? {
            Inserted::Occupied(found) => Inserted::Occupied(self.read(found)),
            done @ Inserted::Done(_) => done,
        })
    }

    async fn replace(&self, key: &ScopedKey, guard: Guard, change: &Change) -> Result<Replaced, StoreError> {
        self.through(&self.script.replace, self.memory.replace(key, guard, change)).await
    }

    async fn find(&self, key: &ScopedKey) -> Result<Option<Found>, StoreError> {
        Ok(self.through(&self.script.find, self.memory.find(key)).await?.map(|found| self.read(found)))
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<Swept, StoreError> {
        self.memory.sweep(limit).await
    }

    async fn stats(&self) -> Result<StoreStats, StoreError> {
        self.memory.stats().await
    }
}
