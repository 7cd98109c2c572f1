//! Captures in the pcapng format, which Wireshark and tshark read.
//!
//! A capture has one interface of raw IP packets, with timestamps in nanoseconds. SCTP packets are passed as
//! the engine sees them, without IP or UDP headers. The writer makes up the IP header, and the UDP header of
//! encapsulated packets (RFC 6951), from the addresses, so one capture can mix both encapsulations and both
//! address families.
//!
//! Wireshark dissects UDP as SCTP if one of the ports is 9899. For other ports use "Decode As", or tshark's
//! `-d udp.port==40000,sctp`.
//!
//! The blocks are those of draft-ietf-opsawg-pcapng: Section Header, Interface Description, Enhanced Packet.
//! All numbers are little-endian.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io::{self, Write};

use crate::consts::{IP_PROTOCOL, padded};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// LINKTYPE_RAW: each packet begins with an IPv4 or IPv6 header.
const LINKTYPE_RAW: u16 = 101;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_TIMESTAMP_RESOLUTION: u16 = 9;

/// Name of the writing application and of the capture's interface.
const NAME: &[u8] = b"Strandline";

/// Timestamp resolution: units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Length in bytes of the fields around a block's body: type and length before it, length after it.
const BLOCK_OVERHEAD: usize = 12;

/// Length of an Enhanced Packet's fixed fields in bytes.
const PACKET_FIELDS_LEN: usize = 20;

const UDP: u8 = 17;
const UDP_HEADER_LEN: usize = 8;
const IPV4_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = 40;
const HOP_LIMIT: u8 = 64;

/// One SCTP packet to capture.
#[derive(Debug, Copy, Clone)]
pub struct Record<'a> {
    /// Time since 1 January 1970, UTC. A simulation may begin at zero.
    pub timestamp: Duration,
    /// Address and UDP port of the sender. Port 0 on both sides means SCTP directly over IP.
    pub source: SocketAddr,
    /// Address and UDP port of the receiver.
    pub destination: SocketAddr,
    /// The SCTP packet, from its common header on.
    pub packet: &'a [u8],
    /// Comment that Wireshark shows with the packet; empty for none.
    pub comment: &'a str,
}

/// Writes a capture. Each packet causes several small writes, so wrap a file in a
/// [`BufWriter`](std::io::BufWriter).
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture: writes the section header and the description of its one interface.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        write_section_header(&mut out)?;
        write_interface(&mut out)?;
        Ok(Self { out })
    }

    /// Appends one packet, with IP and UDP headers around it.
    ///
    /// # Errors
    /// If writing to the output fails; `InvalidInput` for a packet too long for an IP datagram or a timestamp
    /// after the year 2554.
    pub fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let headers = Headers::new(record)?;
        self.write_block(record.timestamp, &[headers.as_bytes(), record.packet], record.comment)
    }

    /// Appends one packet that already has its IP header.
    ///
    /// # Errors
    /// If writing to the output fails; `InvalidInput` for a packet longer than 65,575 bytes (the longest IPv6
    /// packet) or a timestamp after the year 2554.
    pub fn write_ip(&mut self, timestamp: Duration, packet: &[u8]) -> io::Result<()> {
        if packet.len() > IPV6_HEADER_LEN + usize::from(u16::MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "longer than an IP packet can be"));
        }
        self.write_block(timestamp, &[packet], "")
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// If flushing the output fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the capture and returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes one Enhanced Packet Block whose data is the concatenation of `parts`. The parts and the comment
    /// are short enough for 32-bit lengths: see the callers and [`shortened`].
    fn write_block(&mut self, timestamp: Duration, parts: &[&[u8]], comment: &str) -> io::Result<()> {
        let time_ns = u64::try_from(timestamp.as_nanos())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "timestamp after the year 2554"))?;
        let comment = shortened(comment);
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let options_len = match comment.len() {
            0 => 0,
            len => 4 + padded(len) + 4,
        };
        let block_len = (BLOCK_OVERHEAD + PACKET_FIELDS_LEN + padded(len) + options_len) as u32;
        let interface = 0_u32;
        let fields = [
            ENHANCED_PACKET,
            block_len,
            interface,
            (time_ns >> 32) as u32,
            (time_ns & 0xffff_ffff) as u32,
            len as u32, // captured
            len as u32, // on the wire
        ];
        write_words(&mut self.out, &fields)?;
        for part in parts {
            self.out.write_all(part)?;
        }
        write_padding(&mut self.out, len)?;
        if !comment.is_empty() {
            write_option(&mut self.out, OPTION_COMMENT, comment.as_bytes())?;
            write_option(&mut self.out, OPTION_END, &[])?;
        }
        write_words(&mut self.out, &[block_len])
    }
}

fn write_section_header(out: &mut impl Write) -> io::Result<()> {
    let len = (BLOCK_OVERHEAD + 16 + 4 + padded(NAME.len()) + 4) as u32;
    write_words(out, &[SECTION_HEADER, len, BYTE_ORDER_MAGIC])?;
    let (major, minor) = (1_u16, 0_u16);
    out.write_all(&major.to_le_bytes())?;
    out.write_all(&minor.to_le_bytes())?;
    let unknown_length = u64::MAX;
    out.write_all(&unknown_length.to_le_bytes())?;
    write_option(out, OPTION_USER_APPLICATION, NAME)?;
    write_option(out, OPTION_END, &[])?;
    write_words(out, &[len])
}

fn write_interface(out: &mut impl Write) -> io::Result<()> {
    let len = (BLOCK_OVERHEAD + 8 + (4 + padded(NAME.len())) + (4 + 4) + 4) as u32;
    write_words(out, &[INTERFACE_DESCRIPTION, len])?;
    let (reserved, unlimited) = (0_u16, 0_u32);
    out.write_all(&LINKTYPE_RAW.to_le_bytes())?;
    out.write_all(&reserved.to_le_bytes())?;
    out.write_all(&unlimited.to_le_bytes())?;
    write_option(out, OPTION_INTERFACE_NAME, NAME)?;
    write_option(out, OPTION_TIMESTAMP_RESOLUTION, &[NANOSECONDS])?;
    write_option(out, OPTION_END, &[])?;
    write_words(out, &[len])
}

fn write_words(out: &mut impl Write, words: &[u32]) -> io::Result<()> {
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

/// Writes one option. `value` is at most 65,535 bytes long.
fn write_option(out: &mut impl Write, code: u16, value: &[u8]) -> io::Result<()> {
    out.write_all(&code.to_le_bytes())?;
    out.write_all(&(value.len() as u16).to_le_bytes())?;
    out.write_all(value)?;
    write_padding(out, value.len())
}

fn write_padding(out: &mut impl Write, len: usize) -> io::Result<()> {
    let zeros = [0; 3];
    out.write_all(zeros.get(..padded(len) - len).unwrap_or_default())
}

/// Returns the beginning of `comment` that fits into an option.
fn shortened(comment: &str) -> &str {
    let mut end = comment.len().min(1000);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    comment.get(..end).unwrap_or_default()
}

/// The headers before an SCTP packet: IPv4 or IPv6, and UDP if the packet is encapsulated.
struct Headers {
    bytes: [u8; IPV6_HEADER_LEN + UDP_HEADER_LEN],
    len: usize,
}

impl Headers {
    fn new(record: &Record<'_>) -> io::Result<Self> {
        let encapsulated = record.source.port() != 0 || record.destination.port() != 0;
        let (protocol, udp_len) = if encapsulated { (UDP, UDP_HEADER_LEN) } else { (IP_PROTOCOL, 0) };
        let payload_len = udp_len + record.packet.len();
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "longer than an IP packet can be");
        let addresses = Addresses::of(record);
        let mut headers = Self { bytes: [0; IPV6_HEADER_LEN + UDP_HEADER_LEN], len: 0 };
        match addresses {
            Addresses::V4(source, destination) => {
                let len = u16::try_from(IPV4_HEADER_LEN + payload_len).map_err(too_long)?;
                headers.append(&ipv4_header(protocol, len, source, destination));
            }
            Addresses::V6(source, destination) => {
                let len = u16::try_from(payload_len).map_err(too_long)?;
                headers.append(&ipv6_header(protocol, len, source, destination));
            }
        }
        if encapsulated {
            headers.append(&udp_header(record, &addresses, payload_len as u16));
        }
        Ok(headers)
    }

    fn append(&mut self, header: &[u8]) {
        let end = self.len + header.len();
        if let Some(out) = self.bytes.get_mut(self.len..end) {
            out.copy_from_slice(header);
            self.len = end;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Source and destination address, of one family.
enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    /// Returns the addresses of `record`. If their families differ, both become IPv6 and the IPv4 one is
    /// mapped.
    fn of(record: &Record<'_>) -> Self {
        let v6 = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        match (record.source.ip().to_canonical(), record.destination.ip().to_canonical()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Self::V4(source, destination),
            (source, destination) => Self::V6(v6(source), v6(destination)),
        }
    }

    /// Returns the sum of the addresses' 16-bit words, for checksums.
    fn sum(&self) -> u64 {
        match self {
            Self::V4(source, destination) => words_sum(&source.octets()) + words_sum(&destination.octets()),
            Self::V6(source, destination) => words_sum(&source.octets()) + words_sum(&destination.octets()),
        }
    }
}

fn ipv4_header(protocol: u8, len: u16, source: Ipv4Addr, destination: Ipv4Addr) -> [u8; IPV4_HEADER_LEN] {
    let [l0, l1] = len.to_be_bytes();
    let [s0, s1, s2, s3] = source.octets();
    let [d0, d1, d2, d3] = destination.octets();
    let dont_fragment = 0x40;
    let without_checksum =
        [0x45, 0, l0, l1, 0, 0, dont_fragment, 0, HOP_LIMIT, protocol, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3];
    let [c0, c1] = internet_checksum(words_sum(&without_checksum)).to_be_bytes();
    [0x45, 0, l0, l1, 0, 0, dont_fragment, 0, HOP_LIMIT, protocol, c0, c1, s0, s1, s2, s3, d0, d1, d2, d3]
}

fn ipv6_header(protocol: u8, len: u16, source: Ipv6Addr, destination: Ipv6Addr) -> [u8; IPV6_HEADER_LEN] {
    let mut header = [0; IPV6_HEADER_LEN];
    let [l0, l1] = len.to_be_bytes();
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, l0, l1, protocol, HOP_LIMIT]);
    header[8..24].copy_from_slice(&source.octets());
    header[24..].copy_from_slice(&destination.octets());
    header
}

fn udp_header(record: &Record<'_>, addresses: &Addresses, len: u16) -> [u8; UDP_HEADER_LEN] {
    let [s0, s1] = record.source.port().to_be_bytes();
    let [d0, d1] = record.destination.port().to_be_bytes();
    let [l0, l1] = len.to_be_bytes();
    let header_sum = words_sum(&[s0, s1, d0, d1, l0, l1]);
    let pseudo_header_sum = addresses.sum() + u64::from(UDP) + u64::from(len);
    // A checksum of zero means "no checksum" (RFC 768), which IPv6 doesn't allow.
    let checksum = match internet_checksum(header_sum + pseudo_header_sum + words_sum(record.packet)) {
        0 => u16::MAX,
        checksum => checksum,
    };
    let [c0, c1] = checksum.to_be_bytes();
    [s0, s1, d0, d1, l0, l1, c0, c1]
}

/// Returns the sum of the big-endian 16-bit words. An odd last byte counts as the high byte of a word. 64
/// bits hold the sum of any packet.
fn words_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let sum = words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum::<u64>();
    sum + rest.first().map_or(0, |&byte| u64::from(byte) << 8)
}

/// Returns the ones' complement of the ones' complement sum (RFC 1071).
fn internet_checksum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests;
