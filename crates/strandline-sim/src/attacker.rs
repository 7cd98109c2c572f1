//! Attackers: some only guess (they know addresses and ports, not the tags), one records and replays packets, one
//! alters packets under the right tags, or breaks the rules of the extensions, with the right numbers and keys too.

mod insider;
mod violations;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;
use strandline_proto::event::IcmpKind;
use strandline_wire::checksum::crc32c_parts;
use strandline_wire::chunk::kind;
use strandline_wire::{
    CHUNK_HEADER_LEN, COMMON_HEADER_LEN, CookieEcho, Init, Packet, PacketBuilder, Parameter, Parameters,
    TlvWriter, Tsn, VerificationTag,
};

use self::insider::Insider;
use crate::network::Carried;
use crate::pair::{CARRIER_PORT, SCTP_PORT};
use crate::random::Random;

/// Number of datagrams remembered.
const RECORDED_MAX: usize = 200;

/// Maximum lengths in bytes of a forged packet and of the parameters in one; a forged cookie is shorter than the last.
const FORGED_LEN_MAX: usize = 1400;
const PARAMETERS_LEN_MAX: usize = 1000;
const COOKIE_LEN_END: u64 = 400;

/// An attacker's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attack {
    /// Repeats recorded packets unaltered.
    Replay,
    /// A flood of INIT chunks with spoofed source addresses.
    SpoofedInit,
    /// COOKIE ECHO chunks with forged cookies.
    ForgedCookie,
    /// Random chunks under a wrong tag, with the addresses and ports of an association.
    Soup,
    /// Truncated packets.
    Truncated,
    /// ICMP messages that quote a wrong tag.
    Icmp,
    /// Recorded packets, altered, under the right tag and with a correct checksum.
    Altered,
    /// Random chunks under the right tag.
    SoupWithTag,
    /// Chunks of the extensions that break their rules, under the right tag.
    Violation,
    /// Requests that are in sequence and authenticated, and wrong.
    Insider,
    /// Recorded packets, altered, with a checksum of zero, to hosts that accept none (RFC 9653).
    Unchecked,
}

/// The effect of an action.
#[derive(Debug)]
pub(crate) enum Blow {
    /// A datagram that arrives after this delay.
    Datagram(Duration, Carried),
    /// An ICMP message to a host.
    Icmp { to: IpAddr, destination: SocketAddr, kind: IcmpKind, quoted: Bytes },
}

/// An attacker's memory.
#[derive(Debug)]
pub(crate) struct Attacker {
    random: Random,
    seen: u64,
    recorded: Vec<Carried>,
    /// Recorded packets between the two hosts where altering is allowed.
    alterable: Vec<Carried>,
    insider: Insider,
}

impl Attacker {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, seen: 0, recorded: Vec::new(), alterable: Vec::new(), insider: Insider::default() }
    }

    /// Records a passing datagram.
    pub(crate) fn record(&mut self, datagram: &Carried, alterable: bool) {
        self.seen += 1;
        if alterable {
            self.insider.learn(&datagram.bytes);
        }
        for (list, on) in [(&mut self.recorded, true), (&mut self.alterable, alterable)] {
            if !on {
                continue;
            }
            if list.len() < RECORDED_MAX {
                list.push(datagram.clone());
            } else if self.random.below(self.seen) < RECORDED_MAX as u64 {
                let place = self.random.below(RECORDED_MAX as u64) as usize;
                list[place] = datagram.clone();
            }
        }
    }

    /// Acts. `hosts` are the hosts' addresses.
    pub(crate) fn act(&mut self, attack: Attack, hosts: &[SocketAddr]) -> Vec<Blow> {
        let count = self.random.log_range(1, 40);
        (0..count).filter_map(|_| self.blow(attack, hosts)).collect()
    }

    fn blow(&mut self, attack: Attack, hosts: &[SocketAddr]) -> Option<Blow> {
        let (soon, late) = (self.random.millis(0, 50), self.random.millis(0, 8_000));
        Some(match attack {
            Attack::Replay => Blow::Datagram(late, self.any_recorded()?),
            Attack::SpoofedInit => Blow::Datagram(soon, self.spoofed_init(hosts)),
            Attack::ForgedCookie => Blow::Datagram(soon, self.forged_cookie(hosts)),
            Attack::Soup => {
                let like = self.any_recorded()?;
                let tag = self.random.bits() as u32;
                Blow::Datagram(soon, self.soup(&like, VerificationTag(tag))?)
            }
            Attack::Truncated => {
                let mut datagram = self.any_recorded()?;
                let len = self.random.below(datagram.bytes.len() as u64) as usize;
                datagram.bytes.truncate(len);
                Blow::Datagram(soon, datagram)
            }
            Attack::Icmp => self.icmp()?,
            Attack::Altered => Blow::Datagram(soon, self.altered()?),
            Attack::Violation => Blow::Datagram(soon, self.violation()?),
            Attack::Unchecked => Blow::Datagram(soon, self.unchecked()?),
            Attack::Insider => {
                let addresses: Vec<IpAddr> = hosts.iter().map(SocketAddr::ip).collect();
                Blow::Datagram(soon, self.insider(&addresses)?)
            }
            Attack::SoupWithTag => {
                let like = self.random_of_alterable()?;
                let tag = Packet::parse(&like.bytes).ok()?.verification_tag();
                Blow::Datagram(soon, self.soup(&like, tag)?)
            }
        })
    }

    fn any_recorded(&mut self) -> Option<Carried> {
        let len = self.recorded.len() as u64;
        (len > 0).then(|| self.recorded[self.random.below(len) as usize].clone())
    }

    fn random_of_alterable(&mut self) -> Option<Carried> {
        let len = self.alterable.len() as u64;
        (len > 0).then(|| self.alterable[self.random.below(len) as usize].clone())
    }

    /// Returns an address that nobody has, or that of a host.
    fn pretended_source(&mut self, hosts: &[SocketAddr]) -> SocketAddr {
        if self.random.chance(0.5) {
            self.random.pick(hosts)
        } else {
            let address = Ipv4Addr::from_bits(0xc0a8_0000 | self.random.below(1 << 16) as u32);
            SocketAddr::new(address.into(), CARRIER_PORT)
        }
    }

    fn spoofed_init(&mut self, hosts: &[SocketAddr]) -> Carried {
        let mut buffer = [0; FORGED_LEN_MAX];
        let mut parameters_buffer = [0; PARAMETERS_LEN_MAX];
        let mut writer = TlvWriter::new(&mut parameters_buffer);
        for _ in 0..self.random.below(12) {
            let junk = [0x5a; 40];
            let host = self.random.pick(hosts).ip();
            let ipv4 = Ipv4Addr::from_bits(self.random.bits() as u32);
            let parameter = match (self.random.below(6), host) {
                (0, _) => Parameter::Ipv4Address(ipv4),
                (1, IpAddr::V4(address)) => Parameter::Ipv4Address(address),
                (1, IpAddr::V6(address)) => Parameter::Ipv6Address(address),
                (2, _) => Parameter::HostName(b"example.org\0"),
                (3, _) => Parameter::CookiePreservative { increment_ms: u32::MAX },
                (4, _) => Parameter::StateCookie(&junk),
                _ => Parameter::EcnCapable,
            };
            // Parameters that do not fit are left out.
            let _ = writer.push(&parameter);
        }
        let init = Init {
            initiate_tag: VerificationTag(self.random.bits() as u32),
            a_rwnd: self.random.bits() as u32,
            outbound_streams: self.random.below(1 << 16) as u16,
            inbound_streams: self.random.below(1 << 16) as u16,
            initial_tsn: Tsn(self.random.bits() as u32),
            parameters: Parameters::new(writer.finish()),
        };
        let source_port = self.random.pick(&[7000, 7001, SCTP_PORT, 40_000]);
        let mut builder = PacketBuilder::new(&mut buffer, source_port, SCTP_PORT, VerificationTag(0));
        assert!(builder.push(&init), "at most 1,000 bytes of parameters");
        let len = builder.finish();
        self.pretended(hosts, &buffer[..len])
    }

    /// Returns a datagram to one of the hosts with a spoofed source.
    fn pretended(&mut self, hosts: &[SocketAddr], bytes: &[u8]) -> Carried {
        let (source, destination) = (self.pretended_source(hosts), self.random.pick(hosts));
        Carried { source, destination, bytes: Bytes::copy_from_slice(bytes), fragment: None, ecn: 0 }
    }

    /// Returns a cookie of random bytes, or a recorded one with a flipped bit.
    fn forged_cookie(&mut self, hosts: &[SocketAddr]) -> Carried {
        let seen =
            self.recorded.iter().find(|datagram| first_kind(&datagram.bytes) == Some(kind::COOKIE_ECHO));
        if let Some(mut datagram) = seen.cloned()
            && self.random.chance(0.7)
        {
            let mut bytes = datagram.bytes.to_vec();
            let cookie = COMMON_HEADER_LEN + CHUNK_HEADER_LEN;
            let length =
                usize::from(u16::from_be_bytes([bytes[COMMON_HEADER_LEN + 2], bytes[COMMON_HEADER_LEN + 3]]));
            let cookie_len = length.saturating_sub(CHUNK_HEADER_LEN).max(1);
            let place = cookie + self.random.below(cookie_len as u64) as usize;
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << self.random.below(8);
            }
            fix_checksum(&mut bytes);
            datagram.bytes = bytes.into();
            return datagram;
        }
        let mut buffer = [0; FORGED_LEN_MAX];
        let mut cookie = vec![0; self.random.below(COOKIE_LEN_END) as usize];
        self.random.fill(&mut cookie);
        let tag = VerificationTag(self.random.bits() as u32);
        let mut builder = PacketBuilder::new(&mut buffer, 7000, SCTP_PORT, tag);
        assert!(builder.push(&CookieEcho { cookie: &cookie }), "a cookie of less than 400 bytes");
        let len = builder.finish();
        self.pretended(hosts, &buffer[..len])
    }

    /// Returns random chunks with the addresses and ports of `like`.
    fn soup(&mut self, like: &Carried, tag: VerificationTag) -> Option<Carried> {
        let packet = Packet::parse(&like.bytes).ok()?;
        let mut buffer = [0; FORGED_LEN_MAX];
        let mut builder =
            PacketBuilder::new(&mut buffer, packet.source_port(), packet.destination_port(), tag);
        for _ in 0..self.random.range(1, 8) {
            let kind =
                if self.random.chance(0.8) { self.random.below(16) } else { self.random.below(256) } as u8;
            let flags = self.random.pick(&[0, 1, 3, 7, self.random.clone().bits() as u8]);
            let len = self.random.log_range(1, 200) as usize - 1;
            match builder.push_raw(kind, flags, len) {
                Some(value) => self.random.fill(value),
                None => break,
            }
        }
        let len = builder.finish();
        let mut bytes = buffer[..len].to_vec();
        if self.random.chance(0.3) {
            self.flip(&mut bytes, COMMON_HEADER_LEN);
        }
        fix_checksum(&mut bytes);
        Some(Carried { bytes: bytes.into(), ..like.clone() })
    }

    fn altered(&mut self) -> Option<Carried> {
        let mut datagram = self.random_of_alterable()?;
        let mut bytes = datagram.bytes.to_vec();
        match self.random.below(4) {
            0 => {
                let len = COMMON_HEADER_LEN as u64 + self.random.below(bytes.len() as u64 - 11);
                bytes.truncate(len as usize);
            }
            1 => {
                let more = self.random.log_range(1, 100) as usize;
                let old = bytes.len();
                bytes.resize(old + more, 0);
                self.random.fill(&mut bytes[old..]);
            }
            _ => {
                for _ in 0..self.random.log_range(1, 20) {
                    // The ports and the tag stay.
                    self.flip(&mut bytes, COMMON_HEADER_LEN);
                }
            }
        }
        fix_checksum(&mut bytes);
        datagram.bytes = bytes.into();
        Some(datagram)
    }

    fn unchecked(&mut self) -> Option<Carried> {
        let mut datagram = self.any_recorded()?;
        let mut bytes = datagram.bytes.to_vec();
        for _ in 0..self.random.log_range(1, 20) {
            self.flip(&mut bytes, COMMON_HEADER_LEN);
        }
        bytes.get_mut(8..COMMON_HEADER_LEN)?.fill(0);
        datagram.bytes = bytes.into();
        Some(datagram)
    }

    fn flip(&mut self, bytes: &mut [u8], from: usize) {
        if bytes.len() > from {
            let place = from + self.random.below((bytes.len() - from) as u64) as usize;
            bytes[place] ^= 1 << self.random.below(8);
        }
    }

    fn icmp(&mut self) -> Option<Blow> {
        let like = self.any_recorded()?;
        let mut quoted = like.bytes.to_vec();
        let len = self.random.pick(&[8, 12, 20, 64]).min(quoted.len());
        quoted.truncate(len);
        let wrong = self.random.bits().to_be_bytes();
        quoted.get_mut(4..8)?.copy_from_slice(&wrong[..4]);
        let mtu = self.random.log_range(1, 70_000) as u32 - 1;
        let kinds = [
            IcmpKind::PacketTooBig { mtu },
            IcmpKind::ProtocolUnreachable,
            IcmpKind::HostUnreachable,
            IcmpKind::PacketTooBig { mtu: 0 },
        ];
        let kind = self.random.pick(&kinds);
        Some(Blow::Icmp { to: like.source.ip(), destination: like.destination, kind, quoted: quoted.into() })
    }
}

fn first_kind(bytes: &[u8]) -> Option<u8> {
    Packet::parse(bytes).ok()?.chunks().next()?.ok().map(|chunk| chunk.kind)
}

/// Writes the correct checksum into a packet.
pub(crate) fn fix_checksum(bytes: &mut [u8]) {
    if let Some(field) = bytes.get_mut(8..COMMON_HEADER_LEN) {
        field.fill(0);
        let checksum = crc32c_parts(&[bytes]);
        bytes[8..COMMON_HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    }
}
