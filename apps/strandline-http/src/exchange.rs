//! What a connection of HTTP/1 is doing, for what lies below hyper.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper::body::{Body, Frame, SizeHint};
use hyper::{Method, Request, Response, StatusCode};

/// The requests of a connection that are being answered. The service of the connection notes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchange(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Requests whose responses hyper has not taken to their end.
    in_progress: usize,
    /// A request was passed to the service, and its response has not been written completely.
    is_responding: bool,
    is_tunnel: bool,
    /// Requests that were passed to the service.
    requests: u64,
    /// Requests to come that are about the whole server.
    about_server: VecDeque<u64>,
    /// The task that waits to read until nothing is in progress.
    reader: Option<Waker>,
}

/// An extension of requests that are about the whole server, although hyper has given them a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AboutServer;

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and lets the reader look at it again.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let reader = if state.is_responding && !state.is_tunnel { None } else { state.reader.take() };
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Notes that the service gets a request. It is in progress until the returned value, or the body of the
    /// [response](Answering::respond), is dropped.
    pub(crate) fn begin<B>(&self, request: &mut Request<B>) -> Answering {
        let mut is_about_server = false;
        self.change(|state| {
            state.in_progress += 1;
            state.is_responding = true;
            is_about_server = state.about_server.front() == Some(&state.requests);
            if is_about_server {
                state.about_server.pop_front();
            }
            state.requests += 1;
        });
        if is_about_server {
            request.extensions_mut().insert(AboutServer);
        }
        Answering { exchange: self.clone(), is_connect: request.method() == Method::CONNECT }
    }

    /// Notes that the request with this number, from 0, is about the whole server.
    pub(crate) fn note_about_server(&self, number: u64) {
        self.lock().about_server.push_back(number);
    }

    /// Returns whether the connection has become a tunnel, whose bytes aren't HTTP.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.lock().is_tunnel
    }

    /// Returns whether no request is in progress, and all responses are written.
    pub(crate) fn is_idle(&self) -> bool {
        !self.lock().is_responding
    }

    /// Wakes the task of the context once the connection is idle or has become a tunnel.
    pub(crate) fn wake_later(&self, cx: &Context<'_>) {
        let mut state = self.lock();
        if state.is_responding && !state.is_tunnel {
            state.reader = Some(cx.waker().clone());
        } else {
            drop(state);
            cx.waker().wake_by_ref();
        }
    }

    /// Returns whether what hyper writes now is its own, not a response of the service.
    pub(crate) fn is_hypers_own(&self) -> bool {
        let state = self.lock();
        !state.is_responding && !state.is_tunnel
    }

    /// Notes that hyper has written all that it had.
    pub(crate) fn on_flush(&self) {
        let state = self.lock();
        if state.is_responding && state.in_progress == 0 {
            drop(state);
            self.change(|state| state.is_responding = false);
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering {
    exchange: Exchange,
    is_connect: bool,
}

impl Answering {
    /// Takes the response of the service.
    pub(crate) fn respond<B>(self, response: Response<B>) -> Response<Answered<B>> {
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS || (self.is_connect && status.is_success()) {
            self.exchange.change(|state| state.is_tunnel = true);
        }
        response.map(|inner| Answered { inner, _answering: self })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.exchange.change(|state| state.in_progress -= 1);
    }
}

/// The body of a response that is in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct Answered<B> {
    inner: B,
    _answering: Answering,
}

impl<B: Body + Unpin> Body for Answered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
