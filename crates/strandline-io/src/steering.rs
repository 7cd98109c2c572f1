//! The rule that distributes packets over several sockets (shards), the same in the kernel and in the
//! process.

use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Maximum number of sockets that share the work.
pub const PLACES_MAX: u16 = 64;

/// Number of low bits of a tag that hold the generation of a [`UdpGroup`](crate::UdpGroup), and their mask.
const GENERATION_BITS: u8 = 2;
pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// First bytes of encrypted datagrams with a connection ID.
pub const CONNECTION_KINDS: RangeInclusive<u8> = 8..=12;

/// The first of them: a client's first datagram, whose connection ID is its own.
pub(crate) const INITIAL_KIND: u8 = 8;

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
/// If processes share an address one after another ([`of_generation`](Self::of_generation)), the two lowest
/// bits of a tag are the process's, and the place is in the bits above.
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
    /// The generation of the process, if several share the address.
    pub(crate) generation: Option<u8>,
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
            generation: None,
        }
    }

    /// Turns the rule into the one for encrypted datagrams. They begin with a byte of the range
    /// `CONNECTION_KINDS` and a connection ID of eight bytes, whose low bits are the place: the ID that this
    /// side chose, or in a client's first datagrams its own. All others have place 0.
    #[must_use]
    pub fn by_connection(self) -> Self {
        Self { by_connection: true, ..self }
    }

    /// Turns the rule into that of one of several processes that share an address: of this generation, 0 to 3.
    #[must_use]
    pub fn of_generation(self, generation: u8) -> Self {
        Self { generation: Some(generation & GENERATION_MASK as u8), ..self }
    }

    /// Returns the generation whose packet this is, if processes share the address; `None` if it has none, as an INIT.
    #[must_use]
    pub fn generation_of(&self, packet: &[u8]) -> Option<u8> {
        self.generation?;
        let tag = if self.by_connection {
            connection(packet).filter(|(kind, _)| *kind != INITIAL_KIND)?.1
        } else {
            tag(packet)?
        };
        Some((tag & GENERATION_MASK) as u8)
    }

    /// Returns whether datagrams are encrypted.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.by_connection
    }

    /// Returns the generation of this process, if several share the address.
    #[must_use]
    pub fn generation(&self) -> Option<u8> {
        self.generation
    }

    /// Returns the number of low bits below the place.
    pub(crate) fn shift(&self) -> u8 {
        if self.generation.is_some() { GENERATION_BITS } else { 0 }
    }

    /// Returns the low bits of the tags of a place.
    #[must_use]
    pub fn tag_of_place(&self, place: u16) -> u32 {
        u32::from(place) << self.shift() | u32::from(self.generation.unwrap_or(0))
    }

    /// Returns the number of places.
    #[must_use]
    pub fn places(&self) -> u16 {
        self.places
    }

    /// Returns the number of low bits of a verification tag that hold the place, as many as the number of
    /// places needs, and the generation.
    #[must_use]
    pub fn tag_bits(&self) -> u8 {
        bits_of(self.places) + self.shift()
    }

    /// Returns the mask of the bits of the place, without the generation.
    pub(crate) fn place_mask(&self) -> u32 {
        (1 << bits_of(self.places)) - 1
    }

    /// Returns the place of packets with a verification tag other than 0. Tags that nobody chose have a place
    /// too.
    #[must_use]
    pub fn place_of_tag(&self, tag: u32) -> u16 {
        ((tag >> self.shift() & self.place_mask()) % u32::from(self.places)) as u16
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
        connection(datagram).map_or(0, |(_, id)| self.place_of_tag(id))
    }
}

/// Returns the first byte of an encrypted datagram, and the low half of its connection ID.
fn connection(datagram: &[u8]) -> Option<(u8, u32)> {
    match datagram {
        [kind, _, _, _, _, a, b, c, d, ..] if CONNECTION_KINDS.contains(kind) => {
            Some((*kind, u32::from_be_bytes([*a, *b, *c, *d])))
        }
        _ => None,
    }
}

/// Returns the verification tag of a packet that has one.
fn tag(packet: &[u8]) -> Option<u32> {
    let tag = packet.get(4..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*tag)).filter(|tag| *tag != 0)
}

/// Returns the number of bits that hold a place.
pub(crate) fn bits_of(places: u16) -> u8 {
    (u16::BITS - places.saturating_sub(1).leading_zeros()) as u8
}

#[cfg(test)]
mod tests;
