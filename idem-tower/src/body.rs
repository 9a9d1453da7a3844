//! The body that goes in and comes out: passed through, kept, or kept at its start and streaming after that.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of the requests that the inner service gets, and of the responses that the layer gives.
    ///
    /// It passes `B` through untouched, or replays bytes and trailers that were read before. Data always comes as
    /// [`Bytes`], without a copy where `B` has [`Bytes`] too; errors are those of `B`.
    pub struct Body<B>
    where
        B: http_body::Body,
    {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<B>
    where
        B: http_body::Body,
    {
        Through { #[pin] body: B },
        Kept { data: Bytes, trailers: Option<HeaderMap> },
        Resumed { start: Start, rest: Rest<B> },
    }
}

/// What was read of a body before the reader gave up.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) chunks: VecDeque<Bytes>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// What comes after the start.
pub(crate) enum Rest<B: http_body::Body> {
    /// The body itself, in the state in which its reader left it.
    Live(Pin<Box<B>>),
    /// The error that ended it.
    Broken(B::Error),
    /// Nothing any more.
    Over,
}

impl<B: http_body::Body> Body<B> {
    /// Passes a body through untouched.
    pub const fn through(body: B) -> Self {
        Self { state: State::Through { body } }
    }

    /// Replays bytes and trailers.
    pub const fn kept(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { state: State::Kept { data, trailers } }
    }

    /// Replays what was read already, and goes on from there.
    pub(crate) const fn resumed(start: Start, rest: Rest<B>) -> Self {
        Self { state: State::Resumed { start, rest } }
    }
}

impl<B: http_body::Body> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project().state.project() {
            StateProjection::Through { body } => poll_bytes(body, context),
            StateProjection::Kept { data, trailers } => {
                if !data.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(core::mem::take(data)))));
                }
                Poll::Ready(trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            StateProjection::Resumed { start, rest } => {
                if let Some(chunk) = start.chunks.pop_front() {
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                if let Some(trailers) = start.trailers.take() {
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                match rest {
                    Rest::Live(body) => poll_bytes(body.as_mut(), context),
                    Rest::Broken(_) | Rest::Over => match core::mem::replace(rest, Rest::Over) {
                        Rest::Broken(error) => Poll::Ready(Some(Err(error))),
                        Rest::Live(_) | Rest::Over => Poll::Ready(None),
                    },
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Through { body } => body.is_end_stream(),
            State::Kept { data, trailers } => data.is_empty() && trailers.is_none(),
            State::Resumed { start, rest } => {
                let rest_is_over = match rest {
                    Rest::Live(body) => body.is_end_stream(),
                    Rest::Broken(_) => false,
                    Rest::Over => true,
                };
                start.chunks.is_empty() && start.trailers.is_none() && rest_is_over
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Through { body } => body.size_hint(),
            State::Kept { data, trailers: None } => SizeHint::with_exact(length(data)),
            // An exact size would become a Content-Length, and HTTP/1.1 sends no trailers behind one.
            State::Kept { data, trailers: Some(_) } => at_least(length(data)),
            State::Resumed { start, rest } => {
                let start = start.chunks.iter().map(length).sum::<u64>();
                match rest {
                    Rest::Live(body) => {
                        let rest = body.size_hint();
                        let mut hint = at_least(start.saturating_add(rest.lower()));
                        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(start)) {
                            hint.set_upper(upper);
                        }
                        hint
                    }
                    Rest::Broken(_) | Rest::Over => at_least(start),
                }
            }
        }
    }
}

fn length(data: &Bytes) -> u64 {
    data.len() as u64
}

fn at_least(lower: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(lower);
    hint
}

/// Polls any body for frames of [`Bytes`]. Where its data is [`Bytes`] already, nothing is copied.
pub(crate) fn poll_bytes<B: http_body::Body>(
    body: Pin<&mut B>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
    let frame = ready!(body.poll_frame(context));
    Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))))
}

impl<B: http_body::Body> Default for Body<B> {
    /// The empty body.
    fn default() -> Self {
        Self::kept(Bytes::new(), None)
    }
}

impl<B: http_body::Body> fmt::Debug for Body<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Through { .. } => "through",
            State::Kept { .. } => "kept",
            State::Resumed { .. } => "resumed",
        };
        f.debug_tuple("Body").field(&state).finish()
    }
}
