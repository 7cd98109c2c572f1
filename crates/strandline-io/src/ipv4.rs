//! IPv4 headers of received packets.

use std::net::Ipv4Addr;

/// SCTP's protocol number (RFC 9260 section 3).
pub(crate) const PROTOCOL: u8 = 132;
const HEADER_LEN: usize = 20;

/// An IPv4 packet of protocol 132.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ipv4Packet<'a> {
    pub(crate) destination: Ipv4Addr,
    /// The two ECN bits.
    pub(crate) ecn: u8,
    pub(crate) header: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Ipv4Packet<'a> {
    /// Parses a datagram; returns `None` if it has no valid header or another protocol.
    pub(crate) fn of(datagram: &'a [u8]) -> Option<Self> {
        let fields: &[u8; HEADER_LEN] = datagram.first_chunk()?;
        let [version, tos, total_high, total_low, .., d0, d1, d2, d3] = *fields;
        let start = usize::from(version & 0xf) * 4;
        // The kernel has checked a raw socket's packets, but bytes that are no header must not be taken for
        // one.
        let end = usize::from(u16::from_be_bytes([total_high, total_low])).min(datagram.len());
        if version >> 4 != 4 || start < HEADER_LEN || fields[9] != PROTOCOL {
            return None;
        }
        Some(Self {
            destination: Ipv4Addr::new(d0, d1, d2, d3),
            ecn: tos & 0b11,
            header: datagram.get(..start)?,
            payload: datagram.get(start..end)?,
        })
    }
}

/// Returns the ones' complement sum of a header's words, which is 0xffff if its checksum is correct (RFC
/// 791).
pub(crate) fn sum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    });
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
