//! The clients of a UDP socket: each has a flow of its own, with a stream that opens it and ends it. Its
//! datagrams go to the peer, and others come back.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use strandline::{Association, Stream};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::config::FlowTimes;
use crate::first_message::reply;
use crate::flows::{self, Flows, Target, buffer, idle};
use crate::protocol::{Opening, Reason};
use crate::registry::{CloseReason, ConnectionGuard};

/// Clients of one socket.
const CLIENTS_MAX: usize = 4096;
/// Datagrams of a client that wait for its flow.
const WAITING: usize = 64;

/// Once a client can send no more, because nothing new is taken, its flow ends after this time, or twice of it.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A client that has sent its first datagram.
pub(crate) struct NewClient {
    pub(crate) address: SocketAddr,
    pub(crate) first: Bytes,
    /// The following ones, until the socket is not served any more.
    pub(crate) following: mpsc::Receiver<Bytes>,
}

/// Passes the datagrams of clients to their flows, for ever. `begin` starts the flow of a new client, and returns
/// whether there is one.
pub(crate) async fn serve(socket: &UdpSocket, mut begin: impl FnMut(NewClient) -> bool) {
    let mut clients: HashMap<SocketAddr, mpsc::Sender<Bytes>> = HashMap::new();
    let mut room = buffer();
    loop {
        // Errors are those of earlier datagrams: their clients are gone.
        let Ok((len, client)) = socket.recv_from(&mut room).await else { continue };
        let datagram = Bytes::copy_from_slice(room.get(..len).unwrap_or_default());
        let datagram = match clients.get(&client).map(|flow| flow.try_send(datagram.clone())) {
            // If the queue is full, the datagram is lost.
            Some(Ok(()) | Err(mpsc::error::TrySendError::Full(_))) => continue,
            Some(Err(mpsc::error::TrySendError::Closed(_))) | None => datagram,
        };
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, flow| !flow.is_closed());
            if clients.len() >= CLIENTS_MAX {
                continue;
            }
        }
        let (queue, following) = mpsc::channel(WAITING);
        if begin(NewClient { address: client, first: datagram, following }) {
            clients.insert(client, queue);
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
