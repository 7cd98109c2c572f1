//! Messages between the workers of a server: to be sent over another worker's connection, or received by the
//! wrong worker.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use strandline_ipc::{Inbox, Outbox};

use crate::transaction::{ClientId, Flow, Numbers, Protocol, worker_of};

/// The size of a length field, in bytes.
const LEN_BYTES: usize = size_of::<u32>();
/// Maximum size of a letter, in bytes: a message of maximum size fits.
const LETTERS_MAX: usize = 256 << 10;

/// A letter from one worker to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Letter<'a> {
    /// A message to send over a connection of the receiver. A request has its transaction, which is notified
    /// if sending fails.
    Send { from: u8, flow: Flow, client: Option<ClientId>, bytes: &'a [u8] },
    /// The request of this transaction could not be sent.
    Failed { client: ClientId },
    /// This response could not be sent.
    Unsent { flow: Flow, bytes: &'a [u8] },
    /// A message for the receiver, and the worker at which it arrived first.
    Misdirected { first: u8, flow: Flow, bytes: &'a [u8] },
    /// A connection of the receiver is to be closed.
    Close { flow: Flow },
    /// A connection over which the receiver has sent a request has ended.
    Closed { connection: u64 },
}

impl<'a> Letter<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[0; LEN_BYTES]);
        match self {
            Self::Send { from, flow, client, bytes } => {
                out.extend_from_slice(&[0, *from, u8::from(client.is_some())]);
                put_client(client.unwrap_or(ClientId { slot: 0, nonce: 0 }), out);
                put_flow(flow, out);
                out.extend_from_slice(bytes);
            }
            Self::Failed { client } => {
                out.push(1);
                put_client(*client, out);
            }
            Self::Unsent { flow, bytes } => {
                out.push(2);
                put_flow(flow, out);
                out.extend_from_slice(bytes);
            }
            Self::Misdirected { first, flow, bytes } => {
                out.extend_from_slice(&[3, *first]);
                put_flow(flow, out);
                out.extend_from_slice(bytes);
            }
            Self::Close { flow } => {
                out.push(4);
                put_flow(flow, out);
            }
            Self::Closed { connection } => {
                out.push(5);
                out.extend_from_slice(&connection.to_le_bytes());
            }
        }
        let len = (out.len() - at - LEN_BYTES) as u32;
        if let Some(place) = out.get_mut(at..at + LEN_BYTES) {
            place.copy_from_slice(&len.to_le_bytes());
        }
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        Some(match kind {
            0 => {
                let [from, has_client] = take(rest)?;
                let client = take_client(rest)?;
                let flow = take_flow(rest)?;
                Self::Send { from, flow, client: Some(client).filter(|_| has_client == 1), bytes: rest }
            }
            1 => Self::Failed { client: take_client(rest)? },
            2 => Self::Unsent { flow: take_flow(rest)?, bytes: rest },
            3 => {
                let [first] = take(rest)?;
                Self::Misdirected { first, flow: take_flow(rest)?, bytes: rest }
            }
            4 => Self::Close { flow: take_flow(rest)? },
            5 => Self::Closed { connection: u64::from_le_bytes(take(rest)?) },
            _ => return None,
        })
    }
}

fn put_client(client: ClientId, out: &mut Vec<u8>) {
    out.extend_from_slice(&client.slot.to_le_bytes());
    out.extend_from_slice(&client.nonce.to_le_bytes());
}

fn put_flow(flow: &Flow, out: &mut Vec<u8>) {
    let ip = match flow.peer.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    out.extend_from_slice(&[flow.protocol as u8, u8::from(flow.peer.is_ipv6())]);
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&flow.zone().to_le_bytes());
    out.extend_from_slice(&flow.peer.port().to_le_bytes());
    out.extend_from_slice(&flow.connection.to_le_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn take_client(rest: &mut &[u8]) -> Option<ClientId> {
    Some(ClientId { slot: u32::from_le_bytes(take(rest)?), nonce: u64::from_le_bytes(take(rest)?) })
}

fn take_flow(rest: &mut &[u8]) -> Option<Flow> {
    let [protocol, v6] = take(rest)?;
    let protocol = Protocol::ALL.into_iter().find(|known| *known as u8 == protocol)?;
    let ip = std::net::Ipv6Addr::from(take::<16>(rest)?);
    let zone = u32::from_le_bytes(take(rest)?);
    let port = u16::from_le_bytes(take(rest)?);
    let zone = if ip.is_unicast_link_local() { zone } else { 0 };
    let peer = match v6 {
        0 => SocketAddr::new(ip.to_ipv4_mapped()?.into(), port),
        _ => SocketAddrV6::new(ip, port, 0, zone).into(),
    };
    let connection = u64::from_le_bytes(take(rest)?);
    Some(Flow { connection, ..Flow::to(protocol, peer) })
}

/// Iterates over the letters of a batch, up to the first malformed one.
fn letters(bytes: &[u8]) -> impl Iterator<Item = Letter<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = u32::from_le_bytes(take(&mut rest)?) as usize;
        let (letter, after) = rest.split_at_checked(len)?;
        rest = after;
        Letter::read(letter)
    })
}

/// The sockets to and from the other workers.
pub(in crate::server) struct Mail {
    own: u8,
    from: Inbox,
    to: Vec<Option<Rc<Outbox>>>,
    /// For each connection of this worker over which other workers have sent requests, a bit set of these
    /// workers.
    used: RefCell<HashMap<u64, u64, Numbers>>,
}

impl Mail {
    /// Creates the mail of a worker from a socket for each worker, including its own.
    pub(in crate::server) fn new(own: u8, from: OwnedFd, to: Vec<OwnedFd>) -> io::Result<Rc<Self>> {
        let ways = (0u8..).zip(to).map(|(worker, socket)| match worker == own {
            true => Ok(None),
            false => Outbox::new(socket).map(Some),
        });
        let to: Vec<Option<Rc<Outbox>>> = ways.collect::<io::Result<_>>()?;
        for way in to.iter().flatten() {
            tokio::task::spawn_local(Rc::clone(way).run());
        }
        Ok(Rc::new(Self { own, from: Inbox::new(from, LETTERS_MAX)?, to, used: RefCell::default() }))
    }

    /// The number of this worker.
    pub(in crate::server) const fn own(&self) -> u8 {
        self.own
    }

    /// The worker that owns a connection, if it is another one.
    pub(in crate::server) fn other(&self, flow: &Flow) -> Option<u8> {
        let worker = worker_of(flow.connection);
        (flow.connection != 0 && flow.protocol != Protocol::Udp && worker != self.own).then_some(worker)
    }

    /// Posts a letter, to be sent by the next [`flush`](Self::flush). Returns false if the worker doesn't
    /// exist or doesn't read.
    pub(in crate::server) fn post(&self, worker: u8, letter: &Letter<'_>) -> bool {
        let Some(Some(way)) = self.to.get(usize::from(worker)) else { return false };
        let mut one = Vec::new();
        letter.write(&mut one);
        way.push(&one)
    }

    /// Sends the posted letters.
    pub(in crate::server) fn flush(&self) {
        self.to.iter().flatten().for_each(|way| way.flush());
    }

    /// Waits until letters arrive.
    pub(in crate::server) async fn readable(&self) -> io::Result<()> {
        self.from.readable().await
    }

    /// Takes the letters that have arrived, up to a limit. Returns whether more may be available.
    pub(in crate::server) fn take(&self, mut each: impl FnMut(Letter<'_>)) -> bool {
        self.from.take(|batch| letters(batch).for_each(&mut each))
    }

    /// Records that a worker has sent a request over a connection of this worker. It will be notified when
    /// the connection ends.
    pub(in crate::server) fn uses(&self, connection: u64, worker: u8) {
        *self.used.borrow_mut().entry(connection).or_default() |= 1 << (worker % 64);
    }

    /// Notifies the workers that used a connection of its end.
    pub(in crate::server) fn closed(&self, connection: u64) {
        let users = self.used.borrow_mut().remove(&connection).unwrap_or_default();
        for worker in (0..64).filter(|worker| users >> worker & 1 == 1) {
            self.post(worker, &Letter::Closed { connection });
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::server) mod fuzzing;
#[cfg(test)]
mod tests;
