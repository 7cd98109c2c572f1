//! What carries packets, under one face: the network in memory, UDP encapsulation, raw IP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use strandline_proto::event::{Datagram, Transmit};

use crate::memory;

/// A carrier of any kind. Sending doesn't block and needs no task; receiving is for one task, the driver.
#[derive(Debug)]
pub(crate) enum Carrier {
    Memory(memory::Socket),
}

/// What one call received.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    memory: Vec<memory::Arrival>,
}

impl Carrier {
    /// Receives what has arrived, at least one datagram.
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        match self {
            Self::Memory(socket) => socket.poll_recv(cx, &mut batch.memory),
        }
    }

    /// Sends a burst. `WouldBlock`: try again once [`poll_send_ready`](Self::poll_send_ready) says so.
    pub(crate) fn try_send(&self, transmit: &Transmit, buffer: &[u8]) -> io::Result<()> {
        let bytes = buffer.get(..transmit.len).unwrap_or(buffer);
        match self {
            Self::Memory(socket) => {
                for packet in bytes.chunks(transmit.segment_size.max(1)) {
                    socket.send(transmit.destination, transmit.source, packet);
                }
                Ok(())
            }
        }
    }

    /// Whether a burst could be sent after `WouldBlock`.
    pub(crate) fn poll_send_ready(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Memory(_) => Poll::Ready(Ok(())),
        }
    }

    /// Packets that a burst may have.
    pub(crate) fn segments_max(&self) -> usize {
        match self {
            Self::Memory(_) => 16,
        }
    }

    /// The local address: IP address and encapsulation port.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Memory(socket) => socket.local_address(),
        }
    }
}

impl Batch {
    /// Calls `each` for every packet, in the order of arrival.
    pub(crate) fn for_each(&self, mut each: impl FnMut(Datagram<'_>)) {
        for arrival in &self.memory {
            let destination: Option<IpAddr> = Some(arrival.destination);
            each(Datagram { source: arrival.source, destination, bytes: &arrival.bytes });
        }
    }
}
