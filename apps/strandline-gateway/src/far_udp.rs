//! UDP for a peer: flows to destinations here, and sockets on which it has this side listen.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use strandline::{Association, RecvStream, SendStream};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::client_socket::{self, ClientSocket};
use crate::clock::{now, unix_time};
use crate::config::FlowTimes;
use crate::dial;
use crate::far_peer::{self, FarPeer, OPENING_TIMEOUT, refuse};
use crate::first_message::{CountedData, of_recv};
use crate::flows::{self, Target, Way, buffer, idle};
use crate::peer_listeners::PeerSocket;
use crate::protocol::{Destination, Opening, Reason, Reply};
use crate::registry::{CloseReason, ConnectionGuard};
use crate::udp_clients::{self, ClientFlow, LAST_ANSWERS, NewClient};

/// Of flows to destinations that the peer has chosen: it ends them sooner.
const ONWARD: FlowTimes =
    FlowTimes { lifetime: Duration::from_secs(1), idle_timeout: Duration::from_secs(120) };
/// Of flows of clients here. The peer ends those that it knows to be idle.
const ARRIVED: FlowTimes =
    FlowTimes { lifetime: Duration::from_secs(1), idle_timeout: Duration::from_secs(60) };

/// The tokens of flows that the listening side opens have this bit, those of the other side don't.
const ARRIVED_TOKEN: u32 = 1 << 31;

type Streams = (RecvStream, SendStream);

/// Passes datagrams to a destination that the peer may reach, and back, until the peer ends the flow or nothing passes.
pub(crate) async fn flow(
    association: Association,
    peer: Arc<FarPeer>,
    (to, token): (Destination, u32),
    first: CountedData<'_>,
    streams: Streams,
    tracked: &ConnectionGuard,
) -> CloseReason {
    let limit = peer.gateway.settings().limits.connect_timeout;
    let lookups = peer.gateway.limits.lookups(peer.who, now());
    let opened = match peer.gateway.access(peer.who) {
        None => Err((Reason::NotAllowed, "no entry of [[access]] is for this peer".to_owned())),
        Some(access) => dial::connect_udp(&to, Some(&access.allow_udp), limit, &lookups).await,
    };
    pass(association, peer, (opened, &to, token), ONWARD, first, streams, tracked).await
}

/// As [`flow`], to the destination of a reverse forward.
pub(crate) async fn flow_of(
    association: Association,
    peer: Arc<FarPeer>,
    (to, token): (Destination, u32),
    times: FlowTimes,
    first: CountedData<'_>,
    streams: Streams,
    tracked: &ConnectionGuard,
) -> CloseReason {
    let limit = peer.gateway.settings().limits.connect_timeout;
    let lookups = peer.gateway.limits.lookups(peer.who, now());
    let opened = dial::connect_udp(&to, None, limit, &lookups).await;
    pass(association, peer, (opened, &to, token), times, first, streams, tracked).await
}

async fn pass(
    association: Association,
    peer: Arc<FarPeer>,
    (opened, to, token): (Result<UdpSocket, (Reason, String)>, &Destination, u32),
    times: FlowTimes,
    mut first: CountedData<'_>,
    (mut recv, mut send): Streams,
    tracked: &ConnectionGuard,
) -> CloseReason {
    let socket = match opened {
        Ok(socket) => Arc::new(socket),
        Err((reason, text)) => {
            tracing::debug!(peer = %peer.name, destination = %to, %reason, %text, "no UDP flow");
            refuse(send, reason, text).await;
            return CloseReason::Failed(reason);
        }
    };
    let entry = &tracked.entry;
    let target = Target { way: Way::Server(Arc::clone(&socket)), entry: Arc::clone(entry) };
    let Some(routed) = peer.flows.add(token, target.clone()) else {
        refuse(send, Reason::Other, "the token is in use".to_owned()).await;
        return CloseReason::Failed(Reason::Other);
    };
    match timeout(OPENING_TIMEOUT, first.complete(&mut recv)).await {
        Ok(Ok(())) => target.deliver(first.bytes()),
        Ok(Err(end)) => return refuse_datagram(send, end).await,
        Err(_) => return refuse_datagram(send, CloseReason::Malformed).await,
    }
    drop(first);
    let done = Reply::Done { at: socket.local_addr().ok() };
    if let Err(error) = send.send(done.encode().into()).await {
        return CloseReason::of_send(&error);
    }
    entry.set_connected();
    let passing = async {
        let mut room = buffer();
        while let Some(len) = flows::receive(&socket, &mut room).await {
            let datagram = room.get(..len).unwrap_or_default();
            flows::send(&association, token, datagram, times.lifetime, entry);
        }
    };
    let end = tokio::select! {
        () = passing => CloseReason::ResetHere,
        ended = recv.recv() => ended.map_or_else(of_recv, |_| CloseReason::Complete),
        () = idle(entry, times.idle_timeout) => CloseReason::Complete,
    };
    if end == CloseReason::Complete {
        let _ = send.finish();
    }
    // Otherwise the peer gets a reset.
    drop((routed, send));
    end
}

/// Answers that there is no flow, if its first datagram is not taken. Returns how it ended.
async fn refuse_datagram(send: SendStream, end: CloseReason) -> CloseReason {
    match end {
        CloseReason::Failed(reason) => {
            refuse(send, reason, "too much data before flows are open".to_owned()).await
        }
        CloseReason::Malformed => {
            refuse(send, Reason::Other, "the first datagram is too large, or late".to_owned()).await
        }
        // The peer has ended it.
        _ => {}
    }
    end
}

/// Listens for the peer until it ends the stream, the association ends, or the gateway does. Each client has
/// a flow of its own.
pub(crate) async fn listen(
    association: Association,
    peer: Arc<FarPeer>,
    (at, listener, has_states): (SocketAddr, u32, bool),
    (mut recv, mut send): Streams,
) {
    let allowed =
        peer.gateway.access(peer.who).is_some_and(|access| access.allow_listen_udp.allow_listen(at));
    if !allowed {
        return refuse(send, Reason::NotAllowed, format!("listening on UDP at {at} is not allowed")).await;
    }
    if peer.gateway.is_ending() {
        return refuse(send, Reason::Ending, "the gateway ends".to_owned()).await;
    }
    let socket = match client_socket::bind(at, false) {
        Ok(socket) => socket,
        Err(error) => return refuse(send, Reason::of(&error), format!("{at}: {error}")).await,
    };
    let local = socket.local_addr().ok();
    let socket = Arc::new(ClientSocket::new(socket, local.unwrap_or(at)));
    let done = Reply::Done { at: local };
    if send.send(done.encode().into()).await.is_err() {
        return;
    }
    tracing::info!(peer = %peer.name, %at, "listening on UDP for a peer");
    let _listed = peer.list("listen_udp", local.unwrap_or(at), PeerSocket::Udp(Arc::clone(&socket)));
    let gateway = &peer.gateway;
    let flows = gateway.limits.arriving_flows(peer.who, now());
    let (limit, most) = (|| Arc::clone(&flows), || gateway.limits.flows_max());
    let begin = |client: NewClient| {
        let tracked = peer.track_arrived("listen_udp", client.address, at);
        let entry = Arc::clone(&tracked.entry);
        let served = (Arc::clone(&socket), client);
        tokio::spawn(arrive(association.clone(), Arc::clone(&peer), (listener, tracked), served));
        entry
    };
    let why = tokio::select! {
        () = udp_clients::serve(&socket, (limit, most), &gateway.udp_lost, |_| true, begin) => String::new(),
        why = far_peer::request_ended(&peer.gateway, &association, &mut recv) => why,
        never = far_peer::send_states(&mut send, socket.failures(), has_states) => match never {},
    };
    tracing::info!(peer = %peer.name, %at, why, "listening on UDP for a peer ended");
    let _ = send.finish();
}

/// Passes the datagrams of a client to the peer that asked this side to listen.
async fn arrive(
    association: Association,
    peer: Arc<FarPeer>,
    (listener, mut tracked): (u32, ConnectionGuard),
    (socket, client): (Arc<ClientSocket>, NewClient),
) {
    let passing = async |client: NewClient| {
        let stream = association.open_stream().await.map_err(|_| CloseReason::Lost)?;
        let token = token();
        let opening = Opening::AcceptedFlow { listener, source: Some(client.address), token };
        let flows = Arc::clone(&peer.flows);
        let association = association.clone();
        let flow = ClientFlow { association, flows, token, socket, times: ARRIVED };
        // The next process, or another association, can have the address only once nothing has it here.
        let last_answers = tokio::time::sleep(LAST_ANSWERS);
        flow.pass(stream, opening, client, &tracked, last_answers).await
    };
    let ended = client.run(passing).await;
    tracked.set_end(ended.map_or_else(|end| end, |()| CloseReason::Complete));
}

/// Returns the token of a flow that this side opens for a client: another one than that of the process
/// before, which the peer may still know.
fn token() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let begun = std::process::id().wrapping_mul(0x9e37_79b1) ^ unix_time().as_secs() as u32;
    next.wrapping_add(begun) | ARRIVED_TOKEN
}
