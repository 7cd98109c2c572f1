//! The kernel's figures of a TCP connection (its `TCP_INFO`), requested by netlink (sock_diag(7)), which
//! needs no unsafe code, unlike getsockopt.

use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::protocol::Figures;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
/// Attributes of the answer, with the bit `1 << (number - 1)` in the request.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const REQUEST_BYTES: usize = 72;
/// Length of the netlink header, and of the `inet_diag_msg`, before the attributes.
const NETLINK_HEADER_BYTES: usize = 16;
const ANSWER_HEADER_BYTES: usize = NETLINK_HEADER_BYTES + 72;

/// ESTABLISHED, FIN-WAIT-1, FIN-WAIT-2, CLOSE-WAIT, LAST-ACK and CLOSING, by the kernel's numbers.
const STATES_WITH_FIGURES: [u8; 6] = [1, 4, 5, 8, 9, 11];

/// The figures of a connection, and its congestion controller.
#[derive(Debug, Clone, Default)]
pub(crate) struct TcpInfo {
    pub(crate) figures: Figures,
    pub(crate) congestion: Option<String>,
}

/// Requests the figures of one connection of this network namespace; returns `None` if the kernel doesn't
/// answer.
pub(crate) fn tcp_info(local: SocketAddr, peer: SocketAddr) -> Option<TcpInfo> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG)).ok()?;
    let request = request(local, peer);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).ok()?;
    let mut answer = [0; 4096];
    // The kernel answers within the call that sends the request, so there is nothing to wait for.
    let (length, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT).ok()?;
    parse(answer.get(..length)?)
}

/// Returns an `nlmsghdr` and an `inet_diag_req_v2`.
fn request(local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let (local_ip, peer_ip) = (local.ip().to_canonical(), peer.ip().to_canonical());
    let family = if local_ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number, port id
    let attributes = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    bytes.extend([family.as_raw() as u8, IPPROTO_TCP, attributes, 0]);
    bytes.extend(u32::MAX.to_ne_bytes()); // in any state
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(peer.port().to_be_bytes());
    for address in [local_ip, peer_ip] {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets().into_iter().chain([0; 12])),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    bytes.extend(0_u32.to_ne_bytes()); // on any interface
    bytes.extend([0xff; 8]); // no cookie
    bytes
}

fn parse(answer: &[u8]) -> Option<TcpInfo> {
    if number::<2>(answer, 4)? as u16 != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    // A connection that is nearly over has no figures any more.
    let state = answer.get(NETLINK_HEADER_BYTES + 1)?;
    if !STATES_WITH_FIGURES.contains(state) {
        return None;
    }
    let mut found = TcpInfo::default();
    // inet_diag_msg: idiag_rqueue and idiag_wqueue follow family, state, timer, socket and expiry.
    let (receive_queue, send_queue) = (number::<4>(answer, 16 + 56), number::<4>(answer, 16 + 60));
    let mut rest = answer.get(ANSWER_HEADER_BYTES..)?;
    while let (Some(length), Some(kind)) = (number::<2>(rest, 0), number::<2>(rest, 2)) {
        let length = length as usize;
        let Some(value) = rest.get(4..length) else { break };
        match kind as u16 {
            INET_DIAG_INFO => found.figures = figures(value),
            INET_DIAG_CONG => {
                let name: Vec<u8> = value.iter().copied().take_while(|&byte| byte != 0).collect();
                found.congestion = String::from_utf8(name).ok();
            }
            _ => {}
        }
        let Some(next) = rest.get(length.next_multiple_of(4)..) else { break };
        rest = next;
    }
    found.figures.receive_queue_bytes = receive_queue;
    found.figures.send_queue_bytes = send_queue;
    Some(found)
}

/// Reads fields of `struct tcp_info` by offset; later ones are missing on older kernels.
fn figures(info: &[u8]) -> Figures {
    let u32_at = |place| number::<4>(info, place);
    let segment = u32_at(16);
    let in_segments = |segments: Option<u64>| Some(segments?.saturating_mul(segment?));
    // As tcp_packets_in_flight: packets sent and neither acknowledged nor lost, plus retransmitted ones.
    let in_flight = || {
        let gone = u32_at(28)? + u32_at(32)?;
        Some(u32_at(24)?.saturating_sub(gone) + u32_at(36)?)
    };
    Figures {
        retransmissions: u32_at(100),
        fast_recoveries: None,
        timeouts: number::<2>(info, 240),
        packets_sent: u32_at(136),
        packets_received: u32_at(140),
        chunks_sent: u32_at(156),
        sacks_sent: None,
        ecn: None,
        marks_received: None,
        marks_answered: None,
        rtt_us: u32_at(68).filter(|&rtt| rtt > 0).map(|rtt| rtt as f64),
        rttvar_us: u32_at(72).map(|rttvar| rttvar as f64),
        cwnd_bytes: in_segments(u32_at(80)),
        in_flight_bytes: in_segments(in_flight()),
        send_queue_bytes: None,
        receive_queue_bytes: None,
        peer_window_bytes: u32_at(228),
        path_mtu_bytes: u32_at(60),
    }
}

/// Returns an unsigned number of N bytes in native byte order.
fn number<const N: usize>(bytes: &[u8], place: usize) -> Option<u64> {
    let bytes = bytes.get(place..place + N)?;
    let mut wide = [0; 8];
    let start = if cfg!(target_endian = "big") { 8 - N } else { 0 };
    wide.get_mut(start..start + N)?.copy_from_slice(bytes);
    Some(u64::from_ne_bytes(wide))
}

#[cfg(test)]
mod tests;
