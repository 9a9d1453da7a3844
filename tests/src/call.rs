use core::convert::Infallible;
use core::fmt;
use core::pin::pin;
use core::time::Duration;
use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::Answer;

/// One request, ready to be sent as often as needed.
#[derive(Clone, Debug)]
pub struct Call {
    address: SocketAddr,
    method: Method,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    without_length: bool,
}

/// The connection ended before there was an answer.
#[derive(Debug)]
pub struct BrokenOff(String);

/// After this long, an answer does not come.
const PATIENCE: Duration = Duration::from_secs(40);

impl Call {
    pub(crate) fn new(address: SocketAddr, method: Method, path: &str) -> Self {
        Self { address, method, path: path.to_owned(), headers: Vec::new(), body: Bytes::new(), without_length: false }
    }

    /// Adds one header line.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.headers.push((HeaderName::from_static(name), value));
        self
    }

    /// Adds the idempotency key.
    #[must_use]
    pub fn key(self, key: impl AsRef<[u8]>) -> Self {
        self.header("idempotency-key", key)
    }

    /// Directs the bank.
    #[must_use]
    pub fn bank(self, directives: impl AsRef<[u8]>) -> Self {
        self.header("x-bank", directives)
    }

    /// Sets the body, as JSON.
    #[must_use]
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        self.body("application/json", body)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// Sends the body in chunks, without saying how long it is.
    #[must_use]
    pub fn without_length(mut self) -> Self {
        self.without_length = true;
        self
    }

    /// Sends it, and takes the answer.
    pub async fn send(&self) -> Answer {
        self.try_send().await.unwrap_or_else(|broken_off| panic!("{broken_off}: {self:?}"))
    }

    /// Sends it on a connection of its own, and takes the answer. Dropped on the way, it closes the connection.
    ///
    /// # Errors
    ///
    /// [`BrokenOff`] where the server ends the connection without an answer.
    pub async fn try_send(&self) -> Result<Answer, BrokenOff> {
        let exchange = async {
            let stream = TcpStream::connect(self.address).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let answer = pin!(async move { whole(sender.send_request(self.request()).await?).await });
            match select(answer, pin!(connection)).await {
                Either::Left((answer, _)) => answer,
                // The connection has come to its end; what was read from it is still there.
                Either::Right((_, answer)) => answer.await,
            }
        };
        patiently(exchange).await
    }

    /// Sends it, but hangs up if the answer is not there after this long.
    pub async fn send_or_hang_up_after(&self, patience: Duration) -> Option<Answer> {
        tokio::time::timeout(patience, self.send()).await.ok()
    }

    /// Sends it, and hangs up once this has happened; it must not be answered before.
    pub async fn hang_up_once(&self, this_has_happened: impl Future<Output = ()>) {
        tokio::select! {
            answer = self.send() => panic!("it should have taken longer: {answer:?}"),
            () = this_has_happened => {}
        }
    }

    /// Sends the first bytes of it and hangs up.
    pub async fn send_only(&self, bytes: u64) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        self.send_only_over(&mut stream, bytes).await;
    }

    /// Sends the first bytes of it over a connection that somebody else holds.
    pub async fn send_only_over(&self, stream: &mut TcpStream, bytes: u64) {
        let wire = self.wire();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(wire.len());
        stream.write_all(&wire[..bytes]).await.unwrap();
    }

    /// How many bytes the request has on the wire.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.wire().len() as u64
    }

    fn wire(&self) -> Vec<u8> {
        let mut wire = format!("{} {} HTTP/1.1\r\nhost: {}\r\n", self.method, self.path, self.address).into_bytes();
        for (name, value) in &self.headers {
            wire.extend_from_slice(name.as_str().as_bytes());
            wire.extend_from_slice(b": ");
            wire.extend_from_slice(value.as_bytes());
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
        wire.extend_from_slice(&self.body);
        wire
    }

    fn request(&self) -> Request<BoxBody<Bytes, Infallible>> {
        let body = if self.without_length {
            let chunks: Vec<_> =
                self.body.chunks(4096).map(|chunk| Ok(Frame::data(self.body.slice_ref(chunk)))).collect();
            StreamBody::new(futures_util::stream::iter(chunks)).boxed()
        } else {
            Full::new(self.body.clone()).boxed()
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = format!("http://{}{}", self.address, self.path).parse().unwrap();
        request.headers_mut().insert(header::HOST, self.address.to_string().parse().unwrap());
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        request
    }
}

/// A few connections that carry many requests at once (HTTP/2), so that a thousand clients need no thousand sockets.
#[derive(Debug)]
pub struct Multiplexed {
    connections: Vec<hyper::client::conn::http2::SendRequest<BoxBody<Bytes, Infallible>>>,
}

impl Multiplexed {
    /// Opens the connections.
    pub async fn open(address: SocketAddr, connections: usize) -> Self {
        let mut opened = Vec::with_capacity(connections);
        for _ in 0..connections {
            let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
            let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            opened.push(sender);
        }
        Self { connections: opened }
    }

    /// Sends the same request this often, all at once, and takes the answers.
    pub async fn send(&self, call: &Call, times: usize) -> Vec<Answer> {
        let exchanges = (0..times).map(|time| {
            let mut sender = self.connections[time % self.connections.len()].clone();
            let mut request = call.request();
            request.headers_mut().remove(header::HOST);
            tokio::spawn(patiently(async move { whole(sender.send_request(request).await?).await }))
        });
        let exchanges: Vec<_> = exchanges.collect();
        let mut answers = Vec::with_capacity(times);
        for exchange in exchanges {
            answers.push(exchange.await.unwrap().unwrap());
        }
        answers
    }
}

async fn whole(response: Response<Incoming>) -> Result<Answer, BrokenOff> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}

async fn patiently(exchange: impl Future<Output = Result<Answer, BrokenOff>>) -> Result<Answer, BrokenOff> {
    let answer = tokio::time::timeout(PATIENCE, exchange).await;
    answer.unwrap_or_else(|_| panic!("no answer for {PATIENCE:?}"))
}

impl<E: core::error::Error> From<E> for BrokenOff {
    fn from(error: E) -> Self {
        Self(format!("{error:?}"))
    }
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection broke off: {}", self.0)
    }
}
