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
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::now;
use crate::config::FlowTimes;
use crate::first_message::reply;
use crate::flows::{self, Flows, Target, buffer, idle};
use crate::peer_rate::Direction;
use crate::protocol::{Opening, Reason};
use crate::registry::{CloseReason, ConnectionGuard, Entry};

/// Clients of one socket.
const CLIENTS_MAX: usize = 4096;
/// Datagrams of a client that wait for its flow.
const WAITING: usize = 64;
/// A client that was answered keeps its place for this time after each of its datagrams.
const KEPT: Duration = Duration::from_secs(10);
/// Share of the connections per second that new clients of one socket may be: anybody may send datagrams from
/// any address.
const NEW_SHARE: f64 = 0.5;

/// Once a client can send no more, because nothing new is taken, its flow ends after this time, or twice of it.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A client that has sent its first datagram.
pub(crate) struct NewClient {
    pub(crate) address: SocketAddr,
    pub(crate) first: Bytes,
    /// The following ones, until the socket is not served any more.
    pub(crate) following: mpsc::Receiver<Bytes>,
    /// Has a value once another client has taken its place.
    displaced: Option<oneshot::Receiver<()>>,
}

impl NewClient {
    /// Runs its flow to the end, or until another client takes its place.
    pub(crate) async fn run<F>(mut self, flow: impl FnOnce(Self) -> F) -> Result<(), CloseReason>
    where
        F: Future<Output = Result<(), CloseReason>>,
    {
        let displaced = self.displaced.take();
        let displaced = async move {
            let is_displaced = match displaced {
                Some(displaced) => displaced.await.is_ok(),
                None => false,
            };
            if !is_displaced {
                std::future::pending().await
            }
        };
        tokio::select! {
            // First: the queue of a client without a place has ended, too.
            biased;
            () = displaced => Err(CloseReason::Failed(Reason::Limit)),
            ended = flow(self) => ended,
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
}

/// The clients of a socket.
#[derive(Default)]
struct Clients {
    all: HashMap<SocketAddr, Client>,
    /// New clients that may come at once, and when that was counted.
    tokens: Option<(f64, Instant)>,
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

    /// Returns whether one more client may come: so many per second.
    fn may_come(&mut self, per_sec: u32, now: Instant) -> bool {
        let rate = (f64::from(per_sec) * NEW_SHARE).max(1.0);
        let (tokens, filled) = self.tokens.unwrap_or((rate, now));
        let passed = now.saturating_duration_since(filled).as_secs_f64();
        let tokens = (tokens + passed * rate).min(rate);
        let may = tokens >= 1.0;
        self.tokens = Some((tokens - f64::from(u8::from(may)), now));
        may
    }

    /// Makes room for one more client, in the place of one that was never answered, as those with a forged
    /// address are, or of the one that was silent for the longest time. Returns false if all of them are in
    /// use.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.all.len() < CLIENTS_MAX {
            return true;
        }
        self.all.retain(|_, client| !client.queue.is_closed());
        if self.all.len() < CLIENTS_MAX {
            return true;
        }
        let oldest = self.all.iter().min_by_key(|(_, client)| (client.entry.is_answered(), client.seen));
        let Some((address, client)) = oldest else { return false };
        if client.entry.is_answered() && now.saturating_duration_since(client.seen) < KEPT {
            return false;
        }
        let address = *address;
        if let Some(client) = self.all.remove(&address) {
            // Its flow may have ended meanwhile.
            let _ = client.displaces.send(());
        }
        true
    }
}

/// Passes the datagrams of clients to their flows, for ever. `may_serve` says who may be a client, and `begin`
/// starts the flow of a new one, and returns its entry if there is one. `per_sec` returns the limit of
/// connections per second. Datagrams beyond a limit are lost, and counted.
pub(crate) async fn serve(
    socket: &UdpSocket,
    per_sec: impl Fn() -> u32,
    lost: &AtomicU64,
    may_serve: impl Fn(SocketAddr) -> bool,
    mut begin: impl FnMut(NewClient) -> Option<Arc<Entry>>,
) {
    let mut clients = Clients::default();
    let mut room = buffer();
    loop {
        // Errors are those of earlier datagrams: their clients are gone.
        let Ok((len, address)) = socket.recv_from(&mut room).await else { continue };
        let (datagram, now) = (Bytes::copy_from_slice(room.get(..len).unwrap_or_default()), now());
        let Some(first) = clients.pass(address, datagram, now) else { continue };
        if !may_serve(address) {
            continue;
        }
        let begun = if clients.may_come(per_sec(), now) && clients.make_room(now) {
            let ((queue, following), (displaces, displaced)) = (mpsc::channel(WAITING), oneshot::channel());
            let client = NewClient { address, first, following, displaced: Some(displaced) };
            begin(client).map(|entry| (queue, entry, displaces))
        } else {
            None
        };
        match begun {
            Some((queue, entry, displaces)) => {
                clients.all.insert(address, Client { queue, entry, seen: now, displaces });
            }
            None => drop(lost.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// The flow of a client.
pub(crate) struct ClientFlow {
    pub(crate) association: Association,
    /// Those of the association.
    pub(crate) flows: Arc<Flows>,
    pub(crate) token: u32,
    pub(crate) socket: Arc<UdpSocket>,
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
        let target = Target { socket, to: Some(client.address), entry: Arc::clone(&tracked.entry) };
        let routed = flows.add(token, target).ok_or(CloseReason::Failed(Reason::Other))?;
        if !tracked.entry.admits(Direction::Sent, client.first.len()) {
            return Err(CloseReason::Failed(Reason::Limit));
        }
        let sent = send.send(opening.encode(&client.first).into()).await;
        sent.map_err(|_| CloseReason::Failed(Reason::NoAssociation))?;
        tracked.entry.add_sent(client.first.len());
        let answered = async {
            reply(&mut recv).await?;
            tracked.entry.set_connected();
            // The far side ends the flow, or the association ends.
            let _ = recv.recv().await;
            Ok::<(), CloseReason>(())
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
