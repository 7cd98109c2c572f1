//! The rule that distributes packets over several sockets (shards), the same in the kernel and in the
//! process.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Maximum number of sockets that share the work.
pub const PLACES_MAX: u16 = 64;

/// First bytes of encrypted datagrams with a connection ID.
pub const CONNECTION_KINDS: RangeInclusive<u8> = 8..=11;

/// Number of ports in the hash of an INIT: source and destination port of the common header.
const PORTS: usize = 2;
/// Number of 16-bit words of an IPv6 address.
const ADDRESS_WORDS: usize = 8;

/// The rule by which packets are distributed over sockets. Each socket has a *place*, counted from 0.
///
/// A packet with a verification tag goes to the place in the tag's low bits, which is the place of the
/// endpoint that chose the tag. An INIT, which has no tag, goes to the home of its sender: a hash of the
/// packet's source address and both SCTP ports. The kernel applies the same rule
/// ([`UdpCarrier::bind_group`](crate::UdpCarrier::bind_group),
/// [`RawCarrier::open_place`](crate::RawCarrier::open_place)).
///
/// Encrypted datagrams ([`by_connection`](Self::by_connection)) go to the place in the low bits of their connection ID.
///
/// The hash is the multiply-shift scheme for vectors of 16-bit words. With a random key, two senders chosen
/// without knowledge of the key collide no more often than by chance. The hash spreads load; it keeps no
/// secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steering {
    places: u16,
    /// Multipliers for the words of the address and for both ports, and the start of the sum.
    pub(crate) address: [u32; ADDRESS_WORDS],
    pub(crate) ports: [u32; PORTS],
    pub(crate) start: u32,
    /// Whether packets are encrypted.
    pub(crate) by_connection: bool,
}

impl Steering {
    /// Creates a rule for a number of places (1 to [`PLACES_MAX`]; other numbers are clamped to this range).
    /// The key should be random.
    #[must_use]
    pub fn new(places: u16, key: u64) -> Self {
        let mut state = key;
        // SplitMix64: the words of the key differ in every bit, however little entropy the key has.
        let mut word = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 32) as u32
        };
        Self {
            places: places.clamp(1, PLACES_MAX),
            address: std::array::from_fn(|_| word()),
            ports: std::array::from_fn(|_| word()),
            start: word(),
            by_connection: false,
        }
    }

    /// Turns the rule into the one for encrypted datagrams. They begin with a byte of the range
    /// `CONNECTION_KINDS` and a connection ID of eight bytes, whose low bits are the place: the ID that this side chose,
    /// or in a client's first datagrams its own. All others have place 0.
    #[must_use]
    pub fn by_connection(self) -> Self {
        Self { by_connection: true, ..self }
    }

    /// Returns the number of places.
    #[must_use]
    pub fn places(&self) -> u16 {
        self.places
    }

    /// Returns the number of low bits of a verification tag that hold the place: as many as the number of
    /// places needs.
    #[must_use]
    pub fn tag_bits(&self) -> u8 {
        (u16::BITS - (self.places - 1).leading_zeros()) as u8
    }

    /// Returns the mask of the low bits.
    pub(crate) fn tag_mask(&self) -> u32 {
        (1 << self.tag_bits()) - 1
    }

    /// Returns the place of packets with a verification tag other than 0. Tags that nobody chose have a place
    /// too.
    #[must_use]
    pub fn place_of_tag(&self, tag: u32) -> u16 {
        ((tag & self.tag_mask()) % u32::from(self.places)) as u16
    }

    /// Returns the place of a peer's INIT, given its address, its SCTP port and the local port. IPv4-mapped
    /// IPv6 addresses count as IPv4.
    #[must_use]
    pub fn home(&self, peer: IpAddr, peer_port: u16, local_port: u16) -> u16 {
        let mut sum = self.start;
        let mut add = |multiplier: u32, word: u16| {
            sum = sum.wrapping_add(multiplier.wrapping_mul(u32::from(word)));
        };
        match peer.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                add(self.address[0], u16::from_be_bytes([a, b]));
                add(self.address[1], u16::from_be_bytes([c, d]));
            }
            IpAddr::V6(v6) => {
                for (multiplier, word) in self.address.iter().zip(v6.segments()) {
                    add(*multiplier, word);
                }
            }
        }
        add(self.ports[0], peer_port);
        add(self.ports[1], local_port);
        ((sum >> 16) % u32::from(self.places)) as u16
    }

    /// Returns the place that the kernel gives a packet from `source`; 0 for a packet that is too short.
    #[must_use]
    pub fn place_of(&self, source: IpAddr, packet: &[u8]) -> u16 {
        if self.by_connection {
            return self.place_of_connection(packet);
        }
        let Some((ports, [a, b, c, d, ..])) = packet.split_first_chunk::<4>() else { return 0 };
        match u32::from_be_bytes([*a, *b, *c, *d]) {
            0 => {
                let [s0, s1, d0, d1] = *ports;
                self.home(source, u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]))
            }
            tag => self.place_of_tag(tag),
        }
    }

    fn place_of_connection(&self, datagram: &[u8]) -> u16 {
        match datagram {
            [kind, _, _, _, _, a, b, c, d, ..] if CONNECTION_KINDS.contains(kind) => {
                self.place_of_tag(u32::from_be_bytes([*a, *b, *c, *d]))
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests;
