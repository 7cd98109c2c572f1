//! A packet of HEP version 3 (the Homer Encapsulation Protocol): numbers are in network byte order.
//!
//! ```text
//! +--------+--------+--------+--------+--------+--------+
//! |  'H'   |  'E'   |  'P'   |  '3'   | length of all   |
//! +--------+--------+--------+--------+--------+--------+
//! | vendor (0)      | type            | length, with    |   any number of chunks
//! +-----------------+-----------------+ these 6 bytes   |
//! | value ...
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum length of a packet, in bytes: a UDP datagram over IPv4 holds no more, and the length field has 16
/// bits.
const LEN_MAX: usize = 65_507;

/// Length of the header of a chunk (vendor, type and length), in bytes.
const CHUNK_HEADER_BYTES: usize = 6;

/// Room for everything but the payload, in bytes.
const OVERHEAD_BYTES: usize = 160;

const FAMILY: u16 = 1;
const PROTOCOL: u16 = 2;
const SOURCE_V4: u16 = 3;
const DESTINATION_V4: u16 = 4;
const SOURCE_V6: u16 = 5;
const DESTINATION_V6: u16 = 6;
const SOURCE_PORT: u16 = 7;
const DESTINATION_PORT: u16 = 8;
const SECONDS: u16 = 9;
const MICROSECONDS: u16 = 10;
const KIND: u16 = 11;
const CAPTURE_ID: u16 = 12;
const PASSWORD: u16 = 14;
const PAYLOAD: u16 = 15;

/// `AF_INET` and `AF_INET6` of Linux.
const V4: u8 = 2;
const V6: u8 = 10;
/// The type of the payload.
const SIP: u8 = 1;

/// The contents of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<'a> {
    /// The IP protocol number: 17 for UDP, 6 for TCP, 132 for SCTP.
    pub(super) protocol: u8,
    pub(super) source: SocketAddr,
    /// The destination, of the same address family.
    pub(super) destination: SocketAddr,
    /// The time since 1970-01-01.
    pub(super) at: Duration,
    pub(super) capture_id: u32,
    /// The password; left out if empty.
    pub(super) password: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl Packet<'_> {
    /// Encodes the packet. Returns `None` if it would be too long.
    pub(super) fn write(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(OVERHEAD_BYTES + self.payload.len());
        out.extend_from_slice(b"HEP3\0\0");
        let is_v4 = self.source.is_ipv4();
        put(&mut out, FAMILY, &[if is_v4 { V4 } else { V6 }]);
        put(&mut out, PROTOCOL, &[self.protocol]);
        let addresses = if is_v4 { [SOURCE_V4, DESTINATION_V4] } else { [SOURCE_V6, DESTINATION_V6] };
        for (kind, address) in addresses.into_iter().zip([self.source, self.destination]) {
            match address.ip() {
                IpAddr::V4(address) => put(&mut out, kind, &address.octets()),
                IpAddr::V6(address) => put(&mut out, kind, &address.octets()),
            }
        }
        put(&mut out, SOURCE_PORT, &self.source.port().to_be_bytes());
        put(&mut out, DESTINATION_PORT, &self.destination.port().to_be_bytes());
        put(&mut out, SECONDS, &(self.at.as_secs() as u32).to_be_bytes());
        put(&mut out, MICROSECONDS, &self.at.subsec_micros().to_be_bytes());
        put(&mut out, KIND, &[SIP]);
        put(&mut out, CAPTURE_ID, &self.capture_id.to_be_bytes());
        if !self.password.is_empty() {
            put(&mut out, PASSWORD, self.password);
        }
        if out.len() + CHUNK_HEADER_BYTES + self.payload.len() > LEN_MAX {
            return None;
        }
        put(&mut out, PAYLOAD, self.payload);
        let len = (out.len() as u16).to_be_bytes();
        out.get_mut(4..6)?.copy_from_slice(&len);
        Some(out)
    }
}

fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&((value.len() + CHUNK_HEADER_BYTES) as u16).to_be_bytes());
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests;
