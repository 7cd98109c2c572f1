//! Serves HTTP connections: limits on their number and duration, and their requests.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use strandline_tls::{AcceptErrors, is_fatal};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Network, is_silent_since};

use super::hosts::Hosts;
use super::places::{AGE_MIN, Place, Places};
use super::request::Request;
use super::{Answer, Handler, Reply};

/// Time for receiving the head of a request, and for sending a response.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the read buffer, in bytes, which limits the head of a request.
const HEAD_MAX: usize = 8192;
const HEADERS_MAX: usize = 64;
/// How long descriptors count as exhausted after none was left.
const EXHAUSTED: Duration = Duration::from_secs(1);

/// The connections of a listening socket.
#[derive(Default)]
struct Open {
    places: RefCell<Places>,
    /// A spare descriptor, for accepting a connection when no others are left.
    reserve: RefCell<Option<File>>,
}

impl Open {
    fn keep_reserve(&self) {
        let mut reserve = self.reserve.borrow_mut();
        if reserve.is_none() {
            *reserve = File::open("/dev/null").ok();
        }
    }
}

/// Serves connections until the task is ended.
pub(super) async fn serve(mut listener: TcpListener, hosts: Rc<Hosts>, handler: Handler) {
    let at = listener.local_addr();
    let open = Rc::new(Open::default());
    open.keep_reserve();
    let mut errors = AcceptErrors::default();
    let mut exhausted: Option<Instant> = None;
    loop {
        match listener.accept().await {
            // Of many that wait to be accepted, those without a request would take the last descriptors in turn.
            Ok((stream, _))
                if exhausted.is_some_and(|at| at.elapsed() < EXHAUSTED)
                    && is_silent_since(&stream, AGE_MIN) => {}
            Ok((stream, peer)) => {
                let taken = open.places.borrow_mut().take(Network::of(peer.ip()), Instant::now());
                let Some(place) = taken else { continue };
                let (open, hosts, handler) = (Rc::clone(&open), Rc::clone(&hosts), Rc::clone(&handler));
                tokio::task::spawn_local(async move {
                    answer(stream, &place, &open, &hosts, &handler).await;
                    open.places.borrow_mut().leave(&place);
                    open.keep_reserve();
                });
            }
            Err(error) if is_fatal(&error) => {
                let (Ok(at), Ok(socket)) = (&at, listener.into_std()) else { return };
                let register = |socket: &std::net::TcpListener| TcpListener::from_std(socket.try_clone()?);
                listener = errors.listen_again(&error, socket, *at, register).await;
            }
            Err(error) => {
                let found = errors.on_error(&error);
                if let Some(unlogged) = found.log {
                    tracing::warn!(%error, unlogged, "accepting an HTTP connection failed");
                }
                if found.is_exhausted {
                    exhausted = Some(Instant::now());
                    open.places.borrow_mut().evict_oldest(Instant::now());
                    if open.reserve.borrow_mut().take().is_some() {
                        continue;
                    }
                }
                tokio::time::sleep(found.pause).await;
            }
        }
    }
}

/// Answers one request. The connection is closed early if another one needs its place.
async fn answer(stream: TcpStream, place: &Place, open: &Open, hosts: &Hosts, handler: &Handler) {
    let answered = Notify::new();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        open.places.borrow_mut().on_request(place);
        let answered = &answered;
        async move {
            let answer = reply(&request, hosts, handler).await;
            answered.notify_one();
            Ok::<_, Infallible>(answer.into_response())
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .keep_alive(false)
        .half_close(true)
        .title_case_headers(true)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let is_late = async {
        answered.notified().await;
        tokio::time::sleep(TIMEOUT).await;
    };
    tokio::select! {
        // A client that disconnects early doesn't need the response.
        _ = connection => {}
        () = place.evicted() => {}
        () = is_late => {}
    }
}

async fn reply(request: &hyper::Request<Incoming>, hosts: &Hosts, handler: &Handler) -> Answer {
    if let Err(refusal) = hosts.check(request.version(), request.uri(), request.headers()) {
        return refusal;
    }
    let reply = match Request::of(request.method(), request.uri(), request.headers()) {
        Ok(request) => handler(&request),
        Err(what) => Answer::error(400, what, "").into(),
    };
    match reply {
        Reply::Now(answer) => answer,
        Reply::Later(answer) => answer.await,
    }
}

impl Answer {
    fn into_response(self) -> hyper::Response<Full<Bytes>> {
        let (status, headers, body) = self.into_parts();
        let mut response = hyper::Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() =
            hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in headers {
            if let Ok(value) = hyper::header::HeaderValue::from_str(&value) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests;
