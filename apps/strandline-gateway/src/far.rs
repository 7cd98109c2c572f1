//! Streams that the peer opens: connect onward, or listen for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use strandline::{Association, OpenStreamError, RecvStream, SendStream, Stream, TakenBytes};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::accept_queue::{self, AcceptQueue};
use crate::clock::now;
use crate::config::{self, Reverse};
use crate::dial;
use crate::fair_sharing::ClientShare;
use crate::far_peer::{self, FarPeer, LISTENERS_MAX, OPENING_TIMEOUT, refuse};
use crate::far_udp;
use crate::first_message::{CountedData, FirstData, beginning};
use crate::health;
use crate::limits::Permit;
use crate::loss_meter::LossMeter;
use crate::peer_listeners::PeerSocket;
use crate::peer_rate::Direction;
use crate::protocol::{Destination, Opening, Reason, Reply};
use crate::proxy_protocol;
use crate::registry::{CloseReason, Coming, ConnectionGuard};
use crate::relay::{self, Preamble, arrived, prepare, reset};

/// Interval of reports about the loss and the window of what this side sends.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// Why streams are refused at the end.
const ENDING: &str = "this process ends";

/// Accepts streams until the association ends.
pub(crate) async fn accept_streams(association: &Association, peer: &Arc<FarPeer>) -> OpenStreamError {
    loop {
        let stream = match association.accept_stream().await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        let coming = peer.gateway.registry.coming();
        tokio::spawn(serve(association.clone(), stream, Arc::clone(peer), coming));
    }
}

/// Serves one stream.
async fn serve(association: Association, stream: Stream, peer: Arc<FarPeer>, coming: Coming) {
    let number = stream.id().0;
    let (mut recv, send) = stream.into_split();
    let begun = match timeout(OPENING_TIMEOUT, beginning(&mut recv)).await {
        Ok(Ok(begun)) => begun,
        // The peer has ended it.
        Ok(Err(_)) => return,
        Err(_) => {
            note_no_request(&peer, number, CloseReason::Malformed);
            let text = format!("no request within {} s", OPENING_TIMEOUT.as_secs());
            return refuse(send, Reason::TimedOut, text).await;
        }
    };
    let opening = match Opening::decode(&begun.header) {
        Ok((opening, _)) => opening,
        Err(error) => {
            drop(begun);
            tracing::debug!(%error, peer = %peer.name, "a stream begins with something unknown");
            note_no_request(&peer, number, CloseReason::Failed(Reason::NotSupported));
            return refuse(send, Reason::NotSupported, error.to_string()).await;
        }
    };
    let Some((listener, source, destination)) = connection_of(&peer, &opening) else {
        drop((coming, begun));
        return serve_long(association, peer, opening, (recv, send)).await;
    };
    let mut tracked = peer.track(listener, source, destination, number);
    let (services, unread) = (Arc::clone(&peer), peer.gateway.unread());
    let (place, data) = match admit(&services, &opening, begun.data, &unread) {
        Ok(admitted) => admitted,
        Err((reason, text)) => {
            let end = CloseReason::Failed(reason);
            tracked.set_end(if opening.is_flow() { end.of_flow() } else { end });
            // Counted before the peer learns of it.
            drop(tracked);
            return refuse(send, reason, text).await;
        }
    };
    match opening {
        Opening::Connect { to, .. } => {
            connect(peer, to, source, true, data, (recv, send), (tracked, place)).await;
        }
        Opening::Flow { to, token, .. } => {
            let end = far_udp::flow(association, peer, (to, token), data, (recv, send), &tracked).await;
            tracked.set_end(end.of_flow());
            drop(place);
        }
        Opening::AcceptedFlow { listener, token, .. } => {
            let Some(Reverse { to, udp: Some(times), .. }) = reverse(&peer, listener) else { return };
            let (to, streams) = ((to, token), (recv, send));
            let end = far_udp::flow_of(association, peer, to, times, data, streams, &tracked).await;
            tracked.set_end(end.of_flow());
            drop(place);
        }
        Opening::Accepted { token, .. } => {
            let Some(Reverse { to, .. }) = reverse(&peer, token) else { return };
            connect(peer, to, source, false, data, (recv, send), (tracked, place)).await;
        }
        Opening::Listen { .. } | Opening::ListenUdp { .. } | Opening::Report | Opening::GoAway => {}
    }
}

/// Counts and logs a stream without a request that this side knows, before the peer learns of it.
fn note_no_request(peer: &FarPeer, stream: u16, end: CloseReason) {
    peer.track("onward", None, String::new(), stream).set_end(end);
}

/// Returns how a connection or flow comes, its client, and where it goes; `None` if a stream is for something else.
fn connection_of(peer: &FarPeer, opening: &Opening) -> Option<(&'static str, Option<SocketAddr>, String)> {
    let unknown = |token| format!("reverse {token}");
    let to_of = |token| reverse(peer, token).map_or_else(|| unknown(token), |reverse| reverse.to.to_string());
    match opening {
        Opening::Connect { to, source } => Some(("onward", *source, to.to_string())),
        Opening::Flow { to, source, .. } => Some(("onward_udp", *source, to.to_string())),
        Opening::Accepted { token, source } => Some(("reverse", *source, to_of(*token))),
        Opening::AcceptedFlow { listener, source, .. } => Some(("reverse_udp", *source, to_of(*listener))),
        Opening::Listen { .. } | Opening::ListenUdp { .. } | Opening::Report | Opening::GoAway => None,
    }
}

/// Lets a connection or flow count from now on. The data of a stream that is refused is dropped at once.
///
/// # Errors
/// Why it is refused.
fn admit<'a>(
    peer: &'a FarPeer,
    opening: &Opening,
    data: FirstData,
    unread: &'a TakenBytes,
) -> Result<(Permit, CountedData<'a>), (Reason, String)> {
    let limits = &peer.gateway.limits;
    let (permit, too_many) = if opening.is_flow() {
        (limits.take_flow(peer.who, now()), "too many UDP flows")
    } else {
        (limits.take(peer.who, now()), "too many connections")
    };
    let permit = permit.ok_or_else(|| (Reason::Limit, too_many.to_owned()))?;
    if peer.gateway.refuses_streams() {
        return Err((Reason::Ending, ENDING.to_owned()));
    }
    let is_known = match opening {
        Opening::Accepted { token, .. } => reverse(peer, *token).is_some_and(|reverse| reverse.udp.is_none()),
        Opening::AcceptedFlow { listener, .. } => {
            reverse(peer, *listener).is_some_and(|reverse| reverse.udp.is_some())
        }
        _ => true,
    };
    if !is_known {
        return Err((Reason::NotAllowed, "no such reverse forward".to_owned()));
    }
    let held = peer.services.waiting.hold(data, unread);
    let held = held.ok_or_else(|| (Reason::Limit, "too much data before connections are made".to_owned()))?;
    Ok((permit, held))
}

/// Serves a notice, or a long-lived request of the peer: to listen here, or to report. These do not count as
/// connections: they hold little memory and have limits of their own, and what comes to a listener counts by itself.
async fn serve_long(
    association: Association,
    peer: Arc<FarPeer>,
    opening: Opening,
    (recv, send): (RecvStream, SendStream),
) {
    if opening == Opening::GoAway {
        return peer.moved.notify_one();
    }
    if peer.gateway.refuses_streams() {
        return refuse(send, Reason::Ending, ENDING.to_owned()).await;
    }
    let services = Arc::clone(&peer);
    if opening == Opening::Report {
        let Ok(_held) = services.services.reports.try_acquire() else {
            return refuse(send, Reason::Limit, "a second report".to_owned()).await;
        };
        return report(association, recv, send).await;
    }
    let Ok(_held) = services.services.listeners.try_acquire() else {
        return refuse(send, Reason::Limit, format!("more than {LISTENERS_MAX} listeners")).await;
    };
    match opening {
        Opening::Listen { at, token, has_states } => {
            listen(association, peer, (at, token, has_states), recv, send).await
        }
        Opening::ListenUdp { at, token, has_states } => {
            far_udp::listen(association, peer, (at, token, has_states), (recv, send)).await
        }
        _ => {}
    }
}

/// Returns the reverse forward with a token.
fn reverse(peer: &FarPeer, token: u32) -> Option<Reverse> {
    peer.reverses.get(usize::try_from(token).ok()?).cloned()
}

/// Connects to a destination, answers, and moves the data.
async fn connect(
    peer: Arc<FarPeer>,
    to: Destination,
    source: Option<SocketAddr>,
    is_ruled: bool,
    data: CountedData<'_>,
    (recv, mut send): (RecvStream, SendStream),
    (mut tracked, place): (ConnectionGuard, Permit),
) {
    let access = peer.gateway.access(peer.who);
    let settings = peer.gateway.settings();
    let (limit, mark) = (settings.limits.connect_timeout, settings.own_mark());
    let lookups = peer.gateway.limits.lookups(peer.who, now());
    let connected = match (&access, is_ruled) {
        (None, true) => Err((Reason::NotAllowed, "no entry of [[access]] is for this peer".to_owned())),
        (Some(access), true) => dial::connect(&to, Some(&access.allow), limit, mark, &lookups).await,
        (_, false) => dial::connect(&to, None, limit, mark, &lookups).await,
    };
    let connected = connected.and_then(|tcp| {
        prepare(&tcp, &settings.limits).map_err(|error| (Reason::of(&error), error.to_string()))?;
        Ok(tcp)
    });
    let tcp = match connected {
        Ok(tcp) => tcp,
        Err((reason, text)) => {
            tracing::debug!(peer = %peer.name, destination = %to, %reason, %text, "no connection");
            tracked.set_end(CloseReason::Failed(reason));
            return refuse(send, reason, text).await;
        }
    };
    let mut share = share_of(&peer, source, &send, &to);
    let done = Reply::Done { at: dial::local(&tcp) };
    if let Err(error) = share.send(&mut send, done.encode().into()).await {
        return tracked.set_end(CloseReason::of_send(&error));
    }
    let with_header = is_ruled && access.is_some_and(|access| access.proxy_protocol);
    let first = match tcp.peer_addr() {
        Ok(server) if with_header => {
            let mut bytes = proxy_protocol::header(source, server);
            bytes.extend_from_slice(data.bytes());
            Bytes::from(bytes)
        }
        _ => data.bytes().clone(),
    };
    relay::start(tcp, (recv, send, share), Preamble::Data(first), peer.gateway.unread(), tracked, place);
}

/// Returns the share of a stream: its client's if it is known, otherwise the peer's.
fn share_of(peer: &FarPeer, source: Option<SocketAddr>, send: &SendStream, to: &Destination) -> ClientShare {
    let client = source.map_or(peer.who.address, |source| source.ip());
    let beginning = config::beginning(&peer.gateway.settings().priority, to);
    peer.sharing.add(client, send.id(), beginning)
}

/// Listens for the peer until it ends the stream, the association ends, or the gateway does.
async fn listen(
    association: Association,
    peer: Arc<FarPeer>,
    (at, token, has_states): (SocketAddr, u32, bool),
    mut recv: RecvStream,
    mut send: SendStream,
) {
    let allowed = peer.gateway.access(peer.who).is_some_and(|access| access.allow_listen.allow_listen(at));
    if !allowed {
        return refuse(send, Reason::NotAllowed, format!("listening at {at} is not allowed")).await;
    }
    if peer.gateway.is_ending() {
        return refuse(send, Reason::Ending, "the gateway ends".to_owned()).await;
    }
    let queue = match accept_queue::listen(at, false).and_then(AcceptQueue::new) {
        Ok(queue) => queue,
        Err(error) => return refuse(send, Reason::of(&error), format!("{at}: {error}")).await,
    };
    let local = queue.listener.local_addr().ok();
    if send.send(Reply::Done { at: local }.encode().into()).await.is_err() {
        return;
    }
    tracing::info!(peer = %peer.name, %at, "listening for a peer");
    let has_failed = watch::Sender::new(false);
    let _listed = peer.list("listen", local.unwrap_or(at), PeerSocket::Tcp(has_failed.subscribe()));
    let begin = |tcp: TcpStream, source: SocketAddr| {
        let mut tracked = peer.track_arrived("listen", source, at);
        let Some(place) = peer.gateway.limits.take(peer.who, now()) else {
            tracked.set_end(CloseReason::Failed(Reason::Limit));
            // Counted before the client learns of it.
            drop(tracked);
            return reset(tcp);
        };
        let (association, peer) = (association.clone(), Arc::clone(&peer));
        let coming = peer.gateway.registry.coming();
        tokio::spawn(async move {
            arrive(association, peer, (at, token), tcp, source, (tracked, place)).await;
            drop(coming);
        });
    };
    let ended = far_peer::request_ended(&peer.gateway, &association, &mut recv);
    let why = tokio::select! {
        why = queue.accept_until(ended, &has_failed, begin) => why,
        never = far_peer::send_states(&mut send, has_failed.subscribe(), has_states) => match never {},
    };
    tracing::info!(peer = %peer.name, %at, why, "listening for a peer ended");
    let _ = send.finish();
}

/// Reports the loss and the window of this side's direction whenever they have changed, until the peer ends
/// the stream or the association ends.
async fn report(association: Association, mut recv: RecvStream, mut send: SendStream) {
    if send.send(Reply::Done { at: None }.encode().into()).await.is_err() {
        return;
    }
    let begun = now();
    let reporting = async {
        let (mut meter, mut last) = (LossMeter::default(), None);
        loop {
            tokio::time::sleep(REPORT_EVERY).await;
            let at = now().saturating_duration_since(begun);
            let Some(seen) = health::look(&association, &mut meter, at) else { return };
            let report = health::report(&seen.flow);
            if last != Some(report) && send.send(Bytes::copy_from_slice(&report.encode())).await.is_err() {
                return;
            }
            last = Some(report);
        }
    };
    tokio::select! {
        () = reporting => {}
        _ = recv.recv() => {}
    }
    let _ = send.finish();
}

/// Hands a connection to the peer that asked this side to listen. If the association has ended, it is reset.
async fn arrive(
    association: Association,
    peer: Arc<FarPeer>,
    (at, token): (SocketAddr, u32),
    tcp: TcpStream,
    source: SocketAddr,
    (mut tracked, place): (ConnectionGuard, Permit),
) {
    if prepare(&tcp, &peer.gateway.settings().limits).is_err() {
        return tracked.set_end(CloseReason::ResetHere);
    }
    let Ok(stream) = association.open_stream().await else { return };
    tracked.entry.set_stream(stream.id().0);
    let (recv, mut send) = stream.into_split();
    let first = arrived(&tcp);
    tracked.entry.keep_rate(Direction::Sent, first.len()).await;
    let opening = Opening::Accepted { token, source: Some(source) };
    let mut share = share_of(&peer, Some(source), &send, &Destination::of(at));
    if let Err(error) = share.send(&mut send, opening.encode(&first).into()).await {
        return tracked.set_end(CloseReason::of_send(&error));
    }
    tracked.entry.add_sent(first.len());
    relay::start(tcp, (recv, send, share), Preamble::Reply, peer.gateway.unread(), tracked, place);
}
