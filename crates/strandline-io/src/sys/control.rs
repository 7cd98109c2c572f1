//! Control messages (cmsg): data that accompanies a datagram beside its bytes and its address.
#![allow(unsafe_code)]

use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::c_int;

/// Length in bytes for a source address (or a destination, when receiving), a segment size and the ECN bits,
/// with their headers.
pub(crate) const CONTROL_BYTES: usize = 96;

/// A buffer of control messages, aligned as the kernel requires.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Control<const N: usize> {
    bytes: [u8; N],
}

/// Returns the offset of a control message's payload, and of the next message after a payload of `len` bytes.
const fn lengths(len: usize) -> (usize, usize) {
    // SAFETY: both only compute.
    unsafe { (libc::CMSG_LEN(len as u32) as usize, libc::CMSG_SPACE(len as u32) as usize) }
}

/// The ECN bits ECT(0), of packets that may be marked.
const ECT_0: c_int = 0b10;

const HEADER: usize = lengths(0).0;

impl<const N: usize> Control<N> {
    pub(crate) const EMPTY: Self = Self { bytes: [0; N] };

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Writes a message at `at`, and returns the offset of the next one.
    fn put(&mut self, at: usize, level: c_int, kind: c_int, payload: &[u8]) -> usize {
        let (len, space) = lengths(payload.len());
        let Some(place) = self.bytes.get_mut(at..at + space) else {
            debug_assert!(false, "CONTROL_BYTES is too small");
            return at;
        };
        place.fill(0);
        // cmsg_len has a different type on other C libraries, but is everywhere an integer of its size in
        // native byte order.
        let mut write = |offset: usize, bytes: &[u8]| {
            if let Some(field) = place.get_mut(offset..offset + bytes.len()) {
                field.copy_from_slice(bytes);
            }
        };
        write(offset_of!(libc::cmsghdr, cmsg_len), &(len as CmsgLen).to_ne_bytes());
        write(offset_of!(libc::cmsghdr, cmsg_level), &level.to_ne_bytes());
        write(offset_of!(libc::cmsghdr, cmsg_type), &kind.to_ne_bytes());
        write(HEADER, payload);
        at + space
    }

    /// Writes the source address of an outgoing datagram.
    pub(crate) fn put_source(&mut self, at: usize, source: IpAddr) -> usize {
        match source.to_canonical() {
            IpAddr::V4(v4) => {
                // in_pktinfo: interface index, local address to send from, address in the header (receiving only).
                let mut payload = [0; size_of::<libc::in_pktinfo>()];
                if let Some(field) = payload.get_mut(offset_of!(libc::in_pktinfo, ipi_spec_dst)..) {
                    field.iter_mut().zip(v4.octets()).for_each(|(place, octet)| *place = octet);
                }
                self.put(at, libc::IPPROTO_IP, libc::IP_PKTINFO, &payload)
            }
            IpAddr::V6(v6) => {
                // in6_pktinfo: address, interface index.
                let mut payload = [0; size_of::<libc::in6_pktinfo>()];
                payload.iter_mut().zip(v6.octets()).for_each(|(place, octet)| *place = octet);
                self.put(at, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &payload)
            }
        }
    }

    /// Writes the segment size of an outgoing burst (GSO).
    pub(crate) fn put_segment_size(&mut self, at: usize, segment_size: u16) -> usize {
        self.put(at, libc::SOL_UDP, libc::UDP_SEGMENT, &segment_size.to_ne_bytes())
    }

    /// Writes that an outgoing datagram, or each of a burst, has ECT(0) in its IP header (RFC 3168 section 5).
    pub(crate) fn put_ecn_capable(&mut self, at: usize, destination: IpAddr) -> usize {
        let (level, kind) = match destination.to_canonical() {
            // Also on an IPv6 socket, for addresses in their mapped form.
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        self.put(at, level, kind, &ECT_0.to_ne_bytes())
    }

    /// Returns the messages in the first `len` bytes: level, kind and payload. Ends at the first invalid one.
    pub(crate) fn messages(&self, len: usize) -> Messages<'_> {
        Messages { rest: self.bytes.get(..len).unwrap_or(&self.bytes) }
    }
}

#[cfg(any(target_env = "gnu", target_env = "uclibc"))]
type CmsgLen = usize;
#[cfg(not(any(target_env = "gnu", target_env = "uclibc")))]
type CmsgLen = libc::socklen_t;

/// Iterator over received control messages.
pub(crate) struct Messages<'a> {
    pub(crate) rest: &'a [u8],
}

fn field<const M: usize>(bytes: &[u8], at: usize) -> Option<[u8; M]> {
    bytes.get(at..at + M)?.try_into().ok()
}

impl<'a> Iterator for Messages<'a> {
    type Item = (c_int, c_int, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let len = CmsgLen::from_ne_bytes(field(self.rest, offset_of!(libc::cmsghdr, cmsg_len))?);
        #[allow(clippy::unnecessary_cast, reason = "another type on other C libraries")]
        let len = len as usize;
        let level = c_int::from_ne_bytes(field(self.rest, offset_of!(libc::cmsghdr, cmsg_level))?);
        let kind = c_int::from_ne_bytes(field(self.rest, offset_of!(libc::cmsghdr, cmsg_type))?);
        let payload = self.rest.get(HEADER..len)?;
        self.rest = self.rest.get(lengths(payload.len()).1..).unwrap_or_default();
        Some((level, kind, payload))
    }
}

/// The data that the kernel reported with a received datagram.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ancillary {
    pub(crate) destination: Option<IpAddr>,
    pub(crate) ecn: Option<u8>,
}

impl Ancillary {
    pub(crate) fn read(messages: Messages<'_>) -> Self {
        let mut found = Self::default();
        for (level, kind, payload) in messages {
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let octets = field::<4>(payload, offset_of!(libc::in_pktinfo, ipi_addr));
                    found.destination = octets.map(|octets| Ipv4Addr::from(octets).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    found.destination =
                        field::<16>(payload, 0).map(|octets| Ipv6Addr::from(octets).to_canonical());
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => found.ecn = payload.first().map(|tos| tos & 0b11),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    found.ecn = field(payload, 0).map(|class| (c_int::from_ne_bytes(class) & 0b11) as u8);
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
