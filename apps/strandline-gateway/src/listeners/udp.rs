//! UDP forwards: a flow for each client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};

use super::{beside, closed};
use crate::config::UdpForward;
use crate::flows::{self, Target, buffer, idle};
use crate::gateway::{Gateway, Stage};
use crate::link::Link;
use crate::protocol::{Opening, Reason};
use crate::registry::{CloseReason, ConnectionGuard, ConnectionInfo};
use crate::relay::reply;

/// Clients of one socket.
const CLIENTS_MAX: usize = 4096;
/// Datagrams of a client that wait for its flow.
const WAITING: usize = 64;

/// Once a client can send no more, since this process takes nothing new, its flow ends when nothing has come for it for this time,
/// or twice of it.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Where the datagrams of new clients go. A reload may change it.
#[derive(Debug, Clone)]
pub(crate) struct UdpTarget {
    pub(crate) forward: Arc<UdpForward>,
    pub(crate) link: Arc<Link>,
}

/// Listens for a UDP forward. Sockets that are `leaving` may have its address.
pub(crate) fn bind_udp(forward: &UdpForward, leaving: &[OwnedFd]) -> Result<UdpSocket> {
    let bound = beside(forward.listen.port(), leaving, |shares_port| {
        let socket = Socket::new(Domain::for_address(forward.listen), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_port(shares_port)?;
        socket.bind(&forward.listen.into())?;
        UdpSocket::from_std(socket.into())
    });
    bound.with_context(|| format!("listening on UDP {} for forward", forward.listen))
}

/// Passes datagrams until the gateway ends, or the sender of the target is dropped.
pub(crate) async fn serve_udp(
    socket: UdpSocket,
    mut target: watch::Receiver<UdpTarget>,
    gateway: Arc<Gateway>,
) {
    let targets = target.clone();
    let socket = Arc::new(socket);
    let mut clients: HashMap<SocketAddr, mpsc::Sender<Bytes>> = HashMap::new();
    let mut room = buffer();
    let passing = async {
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
            let (queue, waiting) = mpsc::channel(WAITING);
            let UdpTarget { forward, link } = targets.borrow().clone();
            clients.insert(client, queue);
            let tracked = gateway.registry.begin(ConnectionInfo {
                way: "udp",
                peer: Arc::clone(&link.name),
                client: Some(client),
                destination: forward.to.to_string(),
                is_near: true,
            });
            let flow = Flow { socket: Arc::clone(&socket), forward, link, client };
            tokio::spawn(flow.run(datagram, waiting, tracked));
        }
    };
    tokio::select! {
        () = passing => {}
        () = closed(&mut target) => {}
        () = gateway.reached(Stage::Draining) => {}
    }
}

/// The flow of a client.
struct Flow {
    socket: Arc<UdpSocket>,
    forward: Arc<UdpForward>,
    link: Arc<Link>,
    client: SocketAddr,
}

impl Flow {
    async fn run(self, first: Bytes, waiting: mpsc::Receiver<Bytes>, mut tracked: ConnectionGuard) {
        let user = self.link.user();
        let end = self.pass(first, waiting, &tracked).await;
        tracked.set_end(end.map_or_else(|end| end, |()| CloseReason::Complete));
        drop(user);
    }

    async fn pass(
        &self,
        first: Bytes,
        mut waiting: mpsc::Receiver<Bytes>,
        tracked: &ConnectionGuard,
    ) -> Result<(), CloseReason> {
        let failed = |reason| CloseReason::Failed(reason);
        let (association, stream, _used) = self.link.open_first().await.map_err(failed)?;
        tracked.entry.set_stream(stream.id().0);
        let (mut recv, mut send) = stream.into_split();
        let entry = Arc::clone(&tracked.entry);
        let target = Target { socket: Arc::clone(&self.socket), to: Some(self.client), entry };
        let token = self.link.next_token();
        let routed = self.link.flows.add(token, target).ok_or(failed(Reason::Other))?;
        let opening = Opening::Flow { to: self.forward.to.clone(), source: Some(self.client), token };
        send.send(opening.encode(&first).into()).await.map_err(|_| failed(Reason::NoAssociation))?;
        tracked.entry.add_sent(first.len());
        let answered = async {
            reply(&mut recv).await?;
            tracked.entry.set_connected();
            // The far side ends the flow, or the association ends.
            let _ = recv.recv().await;
            Ok::<(), CloseReason>(())
        };
        let passing = async {
            while let Some(datagram) = waiting.recv().await {
                flows::send(&association, token, &datagram, self.forward.lifetime, &tracked.entry);
            }
        };
        let last_answers = async {
            passing.await;
            idle(&tracked.entry, LAST_ANSWERS).await;
        };
        tokio::select! {
            answered = answered => answered?,
            () = last_answers => {}
            () = idle(&tracked.entry, self.forward.idle_timeout) => {}
        }
        let _ = send.finish();
        drop(routed);
        Ok(())
    }
}
