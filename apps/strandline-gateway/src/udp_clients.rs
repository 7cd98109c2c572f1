//! The clients of a UDP socket: each has a flow of its own, with a stream that opens it and ends it. Its
//! datagrams go to the peer, and others come back.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use strandline::{Association, Stream};
use strandline_tls::AcceptErrors;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::client_socket::ClientSocket;
use crate::clock::now;
use crate::config::FlowTimes;
use crate::first_message::{of_recv, reply};
use crate::flow_limit::{FlowLimit, FlowPermit, FlowsMax, Slot};
use crate::flows::{self, Flows, Target, Way, buffer, idle};
use crate::peer_rate::Direction;
use crate::protocol::{Opening, Reason};
use crate::recent::Recent;
use crate::registry::{CloseReason, ConnectionGuard, Entry};

/// Clients of one socket, if the peer's limit of flows leaves as many.
const CLIENTS_MAX: usize = 4096;
/// Datagrams of a client that wait for its flow.
const WAITING: usize = 64;
/// A client that was answered keeps its place for this time after each of its datagrams.
const KEPT: Duration = Duration::from_secs(10);
/// Minimum time between two searches for a place that find none: a flood must not make one for each datagram.
const SEARCH_EVERY: Duration = Duration::from_millis(100);

/// Once a client can send no more, because nothing new is taken, its flow ends after this time, or twice of it.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A client that has sent its first datagram.
pub(crate) struct NewClient {
    pub(crate) address: SocketAddr,
    pub(crate) first: Bytes,
    /// The following ones, until the socket is not served any more.
    pub(crate) following: mpsc::Receiver<Bytes>,
    place: Option<Place>,
}

/// The place of a client among the flows.
struct Place {
    /// Has a value once another client has taken the place.
    displaced: oneshot::Receiver<()>,
    _permit: FlowPermit,
}

impl NewClient {
    /// Runs its flow to the end, or until another client takes its place.
    ///
    /// # Errors
    /// How it ended, if not by itself.
    pub(crate) async fn run<F>(mut self, flow: impl FnOnce(Self) -> F) -> Result<(), CloseReason>
    where
        F: Future<Output = Result<(), CloseReason>>,
    {
        let mut place = self.place.take();
        let displaced = async {
            let is_displaced = match &mut place {
                Some(Place { displaced, .. }) => displaced.await.is_ok(),
                None => false,
            };
            if !is_displaced {
                std::future::pending().await
            }
        };
        tokio::select! {
            // First: the queue of a client without a place has ended, too.
            biased;
            () = displaced => Err(CloseReason::FlowLimit),
            ended = flow(self) => ended.map_err(CloseReason::of_flow),
        }
    }
}

/// A client of a socket.
struct Client {
    queue: mpsc::Sender<Bytes>,
    entry: Arc<Entry>,
    /// When its latest datagram came.
    seen: Instant,
    displaces: oneshot::Sender<()>,
    slot: Arc<Slot>,
}

/// The clients of a socket.
#[derive(Default)]
struct Clients {
    all: HashMap<SocketAddr, Client>,
    /// Those that came lately.
    recent: Recent,
    /// When a search last found that all places are in use.
    found_full: Option<Instant>,
}

impl Clients {
    /// Passes a datagram to the flow of its client. Returns it if there is none.
    fn pass(&mut self, client: SocketAddr, datagram: Bytes, now: Instant) -> Option<Bytes> {
        let Some(known) = self.all.get_mut(&client) else { return Some(datagram) };
        known.seen = now;
        match known.queue.try_send(datagram) {
            // If the queue is full, the datagram is lost.
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => None,
            Err(mpsc::error::TrySendError::Closed(datagram)) => Some(datagram),
        }
    }

    /// Returns a place for one more client, if it may come in this second.
    fn admit(&mut self, limit: &Arc<FlowLimit>, most: FlowsMax, now: Instant) -> Option<FlowPermit> {
        if !limit.may_come_beside(&mut self.recent, most, now) {
            return None;
        }
        let permit = self.place(limit, most, now)?;
        limit.has_come(&mut self.recent, most, now);
        Some(permit)
    }

    /// Returns a place for one more client: a free one, or that of a client that was never answered, as those with a
    /// forged address are, or of the one that was silent for the longest time. `None` if all of them are in use.
    /// Several clients give way if the socket has more than its share: other sockets have grown, or the limit was
    /// lowered. None of them does for nothing.
    fn place(&mut self, limit: &Arc<FlowLimit>, most: FlowsMax, now: Instant) -> Option<FlowPermit> {
        if let Some(free) = self.free(limit, most) {
            return Some(free);
        }
        if self.found_full.is_some_and(|at| now.saturating_duration_since(at) < SEARCH_EVERY) {
            return None;
        }
        #[cfg(test)]
        tests::SEARCHES.with(|searches| searches.set(searches.get() + 1));
        self.all.retain(|_, client| !client.queue.is_closed());
        if let Some(free) = self.free(limit, most) {
            return Some(free);
        }
        let own = self.all.len();
        let lacking = limit.lacks(own, most).max((own + 1).saturating_sub(CLIENTS_MAX));
        let yielding = |client: &Client| {
            !client.entry.is_answered() || now.saturating_duration_since(client.seen) >= KEPT
        };
        let oldest = self.all.iter().filter(|(_, client)| yielding(client));
        let mut oldest: Vec<_> =
            oldest.map(|(at, client)| (client.entry.is_answered(), client.seen, *at)).collect();
        if oldest.len() < lacking {
            self.found_full = Some(now);
            return None;
        }
        if lacking < oldest.len() {
            oldest.select_nth_unstable(lacking);
        }
        for (.., address) in oldest.into_iter().take(lacking) {
            if let Some(client) = self.all.remove(&address) {
                client.slot.release();
                // Its flow may have ended meanwhile.
                let _ = client.displaces.send(());
            }
        }
        self.free(limit, most)
    }

    fn free(&self, limit: &Arc<FlowLimit>, most: FlowsMax) -> Option<FlowPermit> {
        let own = self.all.len();
        if own < CLIENTS_MAX { limit.take_beside(own, most) } else { None }
    }
}

/// Passes datagrams of clients to their flows until it is dropped. `may_serve` returns whether an address may be a
/// client's. `begin` starts the flow of a new client, and returns its entry. `limit` returns what counts the flows with
/// the peer, and `most` how many there may be. Datagrams beyond that are lost, and counted.
pub(crate) async fn serve(
    socket: &ClientSocket,
    (limit, most): (impl Fn() -> Arc<FlowLimit>, impl Fn() -> FlowsMax),
    lost: &AtomicU64,
    may_serve: impl Fn(SocketAddr) -> bool,
    mut begin: impl FnMut(NewClient) -> Arc<Entry>,
) {
    let mut clients = Clients::default();
    let (mut room, mut errors) = (buffer(), AcceptErrors::default());
    loop {
        let (len, address) = socket.recv_from(&mut room, &mut errors).await;
        let (datagram, now) = (Bytes::copy_from_slice(room.get(..len).unwrap_or_default()), now());
        let Some(first) = clients.pass(address, datagram, now) else { continue };
        if !may_serve(address) {
            continue;
        }
        let Some(permit) = clients.admit(&limit(), most(), now) else {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let ((queue, following), (displaces, displaced)) = (mpsc::channel(WAITING), oneshot::channel());
        let slot = permit.slot();
        let place = Some(Place { displaced, _permit: permit });
        let entry = begin(NewClient { address, first, following, place });
        clients.all.insert(address, Client { queue, entry, seen: now, displaces, slot });
    }
}

/// The flow of a client.
pub(crate) struct ClientFlow {
    pub(crate) association: Association,
    /// Those of the association.
    pub(crate) flows: Arc<Flows>,
    pub(crate) token: u32,
    pub(crate) socket: Arc<ClientSocket>,
    pub(crate) times: FlowTimes,
}

impl ClientFlow {
    /// Opens the flow on a stream, and passes datagrams until the far side ends it, nothing passes for its
    /// time, or the client can send no more and `last_answers` is ready.
    ///
    /// # Errors
    /// How it ended, if the far side has none.
    pub(crate) async fn pass(
        self,
        stream: Stream,
        opening: Opening,
        mut client: NewClient,
        tracked: &ConnectionGuard,
        last_answers: impl Future<Output = ()>,
    ) -> Result<(), CloseReason> {
        let Self { association, flows, token, socket, times } = self;
        tracked.entry.set_stream(stream.id().0);
        let (mut recv, mut send) = stream.into_split();
        let target = Target { way: Way::Client(socket, client.address), entry: Arc::clone(&tracked.entry) };
        let routed = flows.add(token, target).ok_or(CloseReason::Failed(Reason::Other))?;
        if !tracked.entry.admits(Direction::Sent, client.first.len()) {
            return Err(CloseReason::Failed(Reason::Limit));
        }
        let sent = send.send(opening.encode(&client.first).into()).await;
        sent.map_err(|error| CloseReason::of_send(&error))?;
        tracked.entry.add_sent(client.first.len());
        let answered = async {
            reply(&mut recv).await?;
            tracked.entry.set_connected();
            // The far side ends the flow, or the association ends.
            recv.recv().await.map(drop).map_err(of_recv)
        };
        let passing = async {
            while let Some(datagram) = client.following.recv().await {
                flows::send(&association, token, &datagram, times.lifetime, &tracked.entry);
            }
            last_answers.await;
        };
        tokio::select! {
            answered = answered => answered?,
            () = passing => {}
            () = idle(&tracked.entry, times.idle_timeout) => {}
        }
        let _ = send.finish();
        drop(routed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
