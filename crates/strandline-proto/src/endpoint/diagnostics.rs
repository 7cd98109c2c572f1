//! Log events of packets, and of answers to packets that belong to no association.

use strandline_wire::cause::Causes;
use strandline_wire::print;
use tracing::Level;

use crate::association::context::{PacketQueue, Route};
use crate::association::{AnswerPorts, abort_packet};
use crate::diagnostics::{PACKET, wants};
use crate::event::{Datagram, Transmit};

/// Logs a received packet.
#[inline(always)]
pub(super) fn received(datagram: &Datagram<'_>) {
    if wants(Level::TRACE) {
        log_received(datagram);
    }
}

#[cold]
#[inline(never)]
fn log_received(datagram: &Datagram<'_>) {
    let Datagram { source, destination, bytes, ecn } = *datagram;
    let packet = print::line(bytes);
    tracing::trace!(target: PACKET, %source, ?destination, ecn, %packet, "received");
}

/// Logs the packets of a burst in the caller's buffer.
#[inline(always)]
pub(super) fn sent(transmit: &Transmit, buffer: &[u8]) {
    if wants(Level::TRACE) {
        log_sent(transmit, buffer);
    }
}

#[cold]
#[inline(never)]
fn log_sent(transmit: &Transmit, buffer: &[u8]) {
    let Transmit { destination, source, .. } = transmit;
    let burst = buffer.get(..transmit.len).unwrap_or_default();
    for packet in burst.chunks(transmit.segment_size.max(1)).map(print::line) {
        tracing::trace!(target: PACKET, %destination, ?source, %packet, "sent");
    }
}

/// Logs a packet that is discarded, or of which the rest is.
#[inline]
pub(super) fn discarded(datagram: &Datagram<'_>, reason: &'static str) {
    if wants(Level::DEBUG) {
        log_discarded(datagram, reason);
    }
}

#[cold]
#[inline(never)]
fn log_discarded(datagram: &Datagram<'_>, reason: &'static str) {
    let Datagram { source, destination, bytes, .. } = *datagram;
    let packet = print::line(bytes);
    tracing::debug!(target: PACKET, reason, %source, ?destination, %packet, "packet discarded");
}

/// Logs a packet that is discarded unread: it is for another process, or one of a flood.
#[inline]
pub(super) fn ignored(datagram: &Datagram<'_>, reason: &'static str) {
    if wants(Level::TRACE) {
        log_ignored(datagram, reason);
    }
}

#[cold]
#[inline(never)]
fn log_ignored(datagram: &Datagram<'_>, reason: &'static str) {
    let Datagram { source, destination, .. } = *datagram;
    tracing::trace!(target: PACKET, reason, %source, ?destination, "packet discarded");
}

/// Queues an ABORT with encoded causes, in answer to a packet that belongs to no association or would replace one.
pub(super) fn abort_reply(
    replies: &mut PacketQueue,
    route: Route,
    ports: AnswerPorts,
    causes: &[u8],
    reflected: bool,
) {
    abort_replied(route, ports, causes, reflected);
    abort_packet(replies, route, ports, causes, reflected);
}

/// Logs an ABORT in answer to a packet that makes no association.
#[inline]
pub(super) fn abort_replied(route: Route, ports: AnswerPorts, causes: &[u8], reflected: bool) {
    if wants(Level::DEBUG) {
        log_abort_reply(route, ports, causes, reflected);
    }
}

#[cold]
#[inline(never)]
fn log_abort_reply(route: Route, ports: AnswerPorts, causes: &[u8], tag_reflected: bool) {
    tracing::debug!(
        target: PACKET,
        destination = %route.destination,
        source_port = ports.source,
        destination_port = ports.destination,
        tag = %ports.tag,
        tag_reflected,
        causes = %print::causes(Causes::new(causes)),
        "ABORT sent"
    );
}
