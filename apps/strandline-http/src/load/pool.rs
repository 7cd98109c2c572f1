//! The connections of a session or a loop, and which of them a request takes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::{Request, Response};
use tokio::sync::Semaphore;

use super::failure::Failure;
use super::link::{Carrier, Dial, Http1, Http2, Link, Server, on_stream};
use crate::streams::ConnectionError;

/// Associations that a request tries, if those before shut down or have no stream left.
const ATTEMPTS: usize = 3;

/// Connections to one server, each with places for requests: one on HTTP/1.1 over TCP, and several on an
/// association or with HTTP/2. A request without a free place waits.
#[derive(Debug)]
pub(super) struct Pool {
    server: Arc<Server>,
    /// Free places.
    permits: Semaphore,
    table: Mutex<Table>,
    shared: Vec<Shared>,
    /// The first failure of a session, after which it sends no request.
    failed: OnceLock<Failure>,
}

/// The places of all connections.
#[derive(Debug)]
struct Table {
    usage: Vec<Usage>,
    /// Connections with a free place, in the order in which they are taken.
    free: VecDeque<usize>,
    /// Places that no longer exist, but were taken when they went.
    debt: usize,
}

/// The places of one connection.
#[derive(Debug)]
struct Usage {
    places: usize,
    taken: usize,
    /// Requests that wait for a free stream.
    waiting: usize,
    /// HTTP/1.1 connections, over TCP or on a stream, that wait for a request.
    idle: Vec<(Http1, Arc<Link>)>,
}

/// An association or HTTP/2 connection that several requests share.
#[derive(Debug, Default)]
struct Shared {
    attempts: AtomicU64,
    link: tokio::sync::Mutex<Option<Result<Arc<Link>, Failure>>>,
}

/// A place that a request has taken.
#[derive(Debug)]
pub(super) struct Lane {
    connection: usize,
    pub(super) link: Arc<Link>,
    sender: Sender,
}

#[derive(Debug)]
enum Sender {
    Http1(Http1),
    Http2(Http2),
}

impl Lane {
    /// Sends a request, and waits for the head of the response. The error has the request if it wasn't sent.
    pub(super) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Empty<Bytes>>>> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}

impl Pool {
    /// Creates a pool of `connections` connections with `places` places each. They are set up when they are
    /// needed.
    pub(super) fn new(server: Arc<Server>, connections: usize, places: u16) -> Self {
        let places = usize::from(places);
        let usage =
            (0..connections).map(|_| Usage { places, taken: 0, waiting: 0, idle: Vec::new() }).collect();
        Self {
            server,
            permits: Semaphore::new((connections * places).min(Semaphore::MAX_PERMITS)),
            table: Mutex::new(Table { usage, free: (0..connections).collect(), debt: 0 }),
            shared: (0..connections).map(|_| Shared::default()).collect(),
            failed: OnceLock::new(),
        }
    }

    /// Sends no further requests.
    pub(super) fn fail(&self, failure: &Failure) {
        // Only the first one is of interest.
        let _ = self.failed.set(Failure { is_counted: true, ..failure.clone() });
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, and waits until there is one. Every lane has to be released.
    pub(super) async fn acquire(&self) -> Result<Lane, Failure> {
        if let Ok(permit) = self.permits.acquire().await {
            if let Some(failure) = self.failed.get() {
                return Err(failure.clone());
            }
            permit.forget();
        }
        let connection = self.table().take();
        let lane = self.lane(connection).await;
        if lane.is_err() {
            self.give_back(connection, None);
        }
        lane
    }

    /// Gives a place back. A reusable one serves further requests.
    pub(super) fn release(&self, lane: Lane, is_reusable: bool) {
        let Lane { connection, link, sender } = lane;
        let idle = match sender {
            Sender::Http1(sender) if is_reusable && self.server.keeps_alive && !sender.is_closed() => {
                Some((sender, link))
            }
            _ => None,
        };
        self.give_back(connection, idle);
    }

    fn give_back(&self, connection: usize, idle: Option<(Http1, Arc<Link>)>) {
        let has_place = self.table().give_back(connection, idle);
        if has_place {
            self.permits.add_permits(1);
        }
    }

    /// Returns an idle HTTP/1.1 connection, or sets up a new one.
    async fn lane(&self, connection: usize) -> Result<Lane, Failure> {
        loop {
            let idle = self.table().pop_idle(connection);
            let Some((mut sender, link)) = idle else { break };
            if sender.ready().await.is_ok() {
                return Ok(Lane { connection, link, sender: Sender::Http1(sender) });
            }
        }
        if matches!(self.server.dial, Dial::Http1) {
            let (link, sender) = Link::http1(&self.server).await?;
            return Ok(Lane { connection, link, sender: Sender::Http1(sender) });
        }
        let mut attempt = 1;
        loop {
            let link = self.shared_link(connection).await?;
            let sender = match &link.carrier {
                Carrier::Http2(sender) => Ok(Sender::Http2(sender.clone())),
                _ => self.open(connection, &link).await?.map(Sender::Http1),
            };
            match sender {
                Ok(sender) => return Ok(Lane { connection, link, sender }),
                Err(ConnectionError::StreamsUsedUp | ConnectionError::ShuttingDown) if attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(Failure::opening(&error)),
            }
        }
    }

    /// Opens a connection on a stream of an association.
    async fn open(&self, connection: usize, link: &Link) -> Result<Result<Http1, ConnectionError>, Failure> {
        let Carrier::Sctp(association, _) = &link.carrier else {
            return Ok(Err(ConnectionError::StreamsUsedUp));
        };
        self.table().wait(connection, true);
        let opened = association.open().await;
        self.table().wait(connection, false);
        match opened {
            Ok(stream) => {
                if let Some(streams) = link.streams() {
                    self.limit(connection, streams.into());
                }
                Ok(Ok(on_stream(stream).await?))
            }
            Err(error) => {
                link.connected().await?;
                Ok(Err(error))
            }
        }
    }

    /// Returns the association or HTTP/2 connection, in use or new. Requests that waited for one attempt share
    /// its failure.
    async fn shared_link(&self, connection: usize) -> Result<Arc<Link>, Failure> {
        // Every connection of the table has its place.
        let Some(shared) = self.shared.get(connection) else { return Err(Failure::timeout()) };
        let before = shared.attempts.load(Ordering::Relaxed);
        let mut current = shared.link.lock().await;
        match &*current {
            Some(Ok(link)) if link.is_usable() => return Ok(Arc::clone(link)),
            Some(Err(failure)) if shared.attempts.load(Ordering::Relaxed) > before => {
                return Err(failure.clone());
            }
            _ => {}
        }
        let link = match &self.server.dial {
            Dial::Sctp { stack, encapsulation_port, host } => {
                Link::sctp(&self.server, stack, *encapsulation_port, host)
            }
            Dial::Http1 | Dial::Http2 => Link::http2(&self.server).await,
        };
        shared.attempts.fetch_add(1, Ordering::Relaxed);
        *current = Some(link.clone());
        link
    }

    /// Reduces the places of a connection to the streams that the association has.
    fn limit(&self, connection: usize, places: usize) {
        let mut table = self.table();
        let Some(usage) = table.usage.get_mut(connection).filter(|usage| usage.places > places) else {
            return;
        };
        let fewer = usage.places - places;
        usage.places = places;
        table.debt += fewer;
        table.debt -= self.permits.forget_permits(table.debt);
        let is_full = table.is_full(connection);
        table.free.retain(|free| *free != connection || !is_full);
    }
}

impl Table {
    /// Takes a place of the next connection that has a free one.
    fn take(&mut self) -> usize {
        // A permit was acquired, so that there is one.
        let connection = self.free.pop_front().unwrap_or(0);
        if let Some(usage) = self.usage.get_mut(connection) {
            usage.taken += 1;
        }
        if !self.is_full(connection) {
            self.free.push_back(connection);
        }
        connection
    }

    /// Gives a place back. Returns whether it is free for another request.
    fn give_back(&mut self, connection: usize, idle: Option<(Http1, Arc<Link>)>) -> bool {
        let was_full = self.is_full(connection);
        if let Some(usage) = self.usage.get_mut(connection) {
            usage.taken -= 1;
            // A stream that idles is none for those who wait for one.
            if usage.waiting == 0 {
                usage.idle.extend(idle);
            }
            match usage.places {
                _ if !was_full || usage.taken >= usage.places => {}
                // Few connections are better than many that idle.
                1 => self.free.push_front(connection),
                _ => self.free.push_back(connection),
            }
        }
        if self.debt > 0 {
            self.debt -= 1;
            return false;
        }
        true
    }

    fn is_full(&self, connection: usize) -> bool {
        self.usage.get(connection).is_none_or(|usage| usage.taken >= usage.places)
    }

    fn pop_idle(&mut self, connection: usize) -> Option<(Http1, Arc<Link>)> {
        self.usage.get_mut(connection)?.idle.pop()
    }

    fn wait(&mut self, connection: usize, begins: bool) {
        if let Some(usage) = self.usage.get_mut(connection) {
            usage.waiting = if begins { usage.waiting + 1 } else { usage.waiting - 1 };
        }
    }
}
