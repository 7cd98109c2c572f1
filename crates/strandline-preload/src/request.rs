//! What the library says to the gateway, and the gateway's answer.
//!
//! ```text
//!  0               4       5       6               8
//! +---------------+-------+-------+---------------+
//! | "SLp1"        | kind  | 4 or 6| port          |   kind 1: connect; 2: what became of a socket's connection
//! +---------------+-------+-------+---------------+
//! | address of the destination, 16 bytes          |   IPv4 in the first four
//! |                                               |
//! +-----------------------------------------------+
//! | cookie of the socket (SO_COOKIE) XOR secret   |   the secret of `strandline run`
//! +---------------+-------------------------------+
//! | padding behind|                                   bytes; 0 with kind 2
//! +---------------+
//! ```
//!
//! The answer to kind 2 has the first three rows, without the padding. Its kind is 0 if nothing is known, 1
//! while the connection is under way, 2 if it exists, and 3 if it failed; in place of the key it has
//! errno, in 8 bytes. Numbers are in network byte order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::c_int;

use crate::system::{self, Raw};

const MAGIC: [u8; 4] = *b"SLp1";
const CONNECT: u8 = 1;
const ASK: u8 = 2;
const FAILED: u8 = 3;
/// Bytes of a request.
pub(crate) const REQUEST: usize = 36;
/// Bytes of an answer.
const ANSWER: usize = 32;
/// Bytes of padding: far more than the gateway's receive window takes, which is some 2 KiB with what the
/// kernel sends to probe it.
pub(crate) const PADDING: usize = 8192 - REQUEST;
/// Time for the gateway to take a question, and to answer it.
const PATIENCE: libc::timeval = libc::timeval { tv_sec: 1, tv_usec: 0 };

/// What became of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) destination: Option<SocketAddr>,
    /// Errno, if it failed.
    pub(crate) error: Option<c_int>,
}

/// Returns the request for a connection.
pub(crate) fn connect(destination: SocketAddr, key: u64) -> [u8; REQUEST] {
    encode(CONNECT, destination, key, PADDING as u32)
}

fn encode(kind: u8, address: SocketAddr, key: u64, padding: u32) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let (family, octets) = match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&ip.octets());
            (4, octets)
        }
        IpAddr::V6(ip) => (6, ip.octets()),
    };
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = kind;
    bytes[5] = family;
    bytes[6..8].copy_from_slice(&address.port().to_be_bytes());
    bytes[8..24].copy_from_slice(&octets);
    bytes[24..32].copy_from_slice(&key.to_be_bytes());
    bytes[32..].copy_from_slice(&padding.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8; ANSWER]) -> Option<Answer> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let ([kind, family], rest) = rest.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let (octets, rest) = rest.split_first_chunk::<16>()?;
    let error = u64::from_be_bytes(*rest.first_chunk::<8>()?);
    if *magic != MAGIC {
        return None;
    }
    let ip = match family {
        4 => Some(IpAddr::V4(Ipv4Addr::from(*octets.first_chunk::<4>()?))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(*octets))),
        _ => None,
    };
    let error = c_int::try_from(error).ok().filter(|error| *kind == FAILED && *error != 0);
    Some(Answer { destination: ip.map(|ip| SocketAddr::new(ip, u16::from_be_bytes(*port))), error })
}

/// Asks the gateway what became of the connection of a socket, by a connection of its own.
pub(crate) fn send(gateway: SocketAddr, key: Option<u64>) -> Option<Answer> {
    let request = encode(ASK, gateway, key?, 0);
    let fd = system::open(gateway.is_ipv6()).ok()?;
    let answer = exchange(fd, gateway, &request);
    system::close(fd);
    decode(&answer?)
}

fn exchange(fd: c_int, gateway: SocketAddr, request: &[u8]) -> Option<[u8; ANSWER]> {
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        system::set_option(fd, libc::SOL_SOCKET, name, &PATIENCE).ok()?;
    }
    let address = Raw::of(gateway, gateway.is_ipv6());
    match system::connect_at_kernel(fd, &address) {
        Ok(()) => {}
        // By a signal: it goes on.
        Err(libc::EINTR) if system::wait_for(fd, libc::POLLOUT, 1000) == libc::POLLOUT => {}
        Err(_) => return None,
    }
    let sent = system::send_at_once(fd, &[request, &[]], 0).ok()?;
    let mut answer = [0; ANSWER];
    let mut len = 0;
    // Signals interrupt it; a handful of them leaves time for the answer.
    for _ in 0..8 {
        match system::receive(fd, answer.get_mut(len..)?) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(libc::EINTR) => {}
            Err(_) => return None,
        }
        if len == ANSWER {
            break;
        }
    }
    (sent == request.len() && len == ANSWER).then_some(answer)
}
