//! Sends many datagrams with few calls.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use crate::BATCH;
use crate::sys::{self, Departure};

/// Maximum length of a datagram in a GSO batch, in bytes. Such a batch is never fragmented, so its datagrams
/// must fit into a packet: IPv6's minimum MTU (RFC 8200 section 5) less the headers of IPv6 and UDP.
const TRAIN_DATAGRAM_MAX: usize = 1280 - 40 - 8;
/// Maximum length of a GSO batch in bytes; it can't be longer than the largest datagram.
const TRAIN_BYTES_MAX: usize = 65_000;

/// A datagram: its destination, unless the socket is connected, and its bytes.
pub type ToSend<'a> = (Option<SocketAddr>, &'a [u8]);

/// Sends datagrams.
#[derive(Debug)]
pub struct Sending {
    /// Whether the kernel supports GSO, as far as is known.
    trains: bool,
}

impl Default for Sending {
    fn default() -> Self {
        Self::new()
    }
}

impl Sending {
    /// Returns a sender that assumes that the kernel supports GSO.
    #[must_use]
    pub fn new() -> Self {
        Self { trains: true }
    }

    /// Sends all datagrams; those to one peer are sent together and in their order. Datagrams that don't fit
    /// into the send buffer are lost.
    pub fn send<'a>(&mut self, socket: &impl AsRawFd, datagrams: impl Iterator<Item = ToSend<'a>>) {
        let socket = socket.as_raw_fd();
        let mut all: Vec<ToSend<'a>> = datagrams.collect();
        if self.trains {
            // The sort is stable, so each peer's datagrams keep their order.
            all.sort_by_key(|(peer, _)| *peer);
        }
        let (mut sent, mut at) = (0, 0);
        while let Some(rest) = all.get(at..).filter(|rest| !rest.is_empty()) {
            let len = if self.trains { train_len(rest) } else { 1 };
            if let (2.., Some(train)) = (len, rest.get(..len)) {
                // Datagrams that wait to be sent one by one may be for the same peer, so they go first.
                send_singles(socket, all.get(sent..at).unwrap_or(&[]));
                self.send_train(socket, train);
                sent = at + len;
            }
            at += len;
        }
        send_singles(socket, all.get(sent..).unwrap_or(&[]));
    }

    fn send_train(&mut self, socket: RawFd, train: &[ToSend<'_>]) {
        let Some(&(peer, first)) = train.first() else { return };
        let slices: Vec<IoSlice<'_>> = train.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
        let segment = Some(first.len() as u16);
        let departure = Departure { peer, pieces: &slices, segment };
        match sys::send(socket, std::iter::once(departure)).map_err(|error| error.raw_os_error()) {
            Ok(_) | Err(Some(libc::EAGAIN | libc::ENOBUFS)) => {}
            Err(error) => {
                // The kernel or the device doesn't support GSO. ECONNREFUSED, once, is only about a peer that
                // is gone.
                self.trains &= !matches!(error, Some(libc::EINVAL | libc::EIO | libc::EOPNOTSUPP));
                send_singles(socket, train);
            }
        }
    }
}

/// Sends bytes as datagrams of `each` bytes, of which the last may be shorter, in one call (UDP GSO).
///
/// # Errors
/// If none was sent: [`WouldBlock`](io::ErrorKind::WouldBlock) if the send buffer is full; the error of a
/// kernel or device that doesn't support GSO; or the socket's pending error, such as the ICMP error of a peer
/// that is gone.
pub fn send_train(socket: &impl AsRawFd, to: SocketAddr, bytes: &[u8], each: usize) -> io::Result<()> {
    let segment = if bytes.len() > each { u16::try_from(each).ok() } else { None };
    let departure = Departure { peer: Some(to), pieces: &[IoSlice::new(bytes)], segment };
    sys::send(socket.as_raw_fd(), std::iter::once(departure)).map(|_| ())
}

fn send_singles(socket: RawFd, datagrams: &[ToSend<'_>]) {
    let mut rest = datagrams;
    while !rest.is_empty() {
        let (batch, _) = rest.split_at(rest.len().min(BATCH));
        let slices: Vec<[IoSlice<'_>; 1]> = batch.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
        let departures =
            batch.iter().zip(&slices).map(|(&(peer, _), pieces)| Departure { peer, pieces, segment: None });
        // If the first datagram can't be sent, the others may still be.
        let done = sys::send(socket, departures).map_or(1, |sent| sent.max(1));
        rest = rest.get(done..).unwrap_or(&[]);
    }
}

/// Returns how many of the datagrams form one GSO batch: those to the same peer and as long as the first, and
/// one more that is shorter.
fn train_len(datagrams: &[ToSend<'_>]) -> usize {
    let Some((peer, first)) = datagrams.first() else { return 0 };
    let len = first.len();
    if !(1..=TRAIN_DATAGRAM_MAX).contains(&len) {
        return 1;
    }
    let most = BATCH.min(TRAIN_BYTES_MAX / len);
    let mut count = 1;
    for (to, bytes) in datagrams.iter().take(most).skip(1) {
        if to != peer || bytes.len() > len || bytes.is_empty() {
            break;
        }
        count += 1;
        if bytes.len() < len {
            break;
        }
    }
    count
}
