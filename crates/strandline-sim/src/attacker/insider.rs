//! An attacker that has seen the set-up: it knows the numbers of requests (RFC 6525, RFC 5061), and the keys
//! of RFC 4895 if no shared key is secret. Its requests are in sequence and authenticated, but ask for what
//! is wrong. It also reports marks that never were.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, PacketBuilder, Parameters};

use super::violations::{ADDRESS_CHANGES, Numbers, RECONFIGURATIONS, Value, near};
use super::{Attacker, FORGED_LEN_MAX, fix_checksum};
use crate::network::Carried;
use crate::random::Random;

/// Maximum number of associations remembered.
const SESSIONS_MAX: usize = 256;

/// The HMAC identifier that every peer accepts, and the length of its MAC in bytes (RFC 4895 section 3.3).
const HMAC_SHA1: u16 = 1;
const MAC_LEN: usize = 20;

/// What is known about packets to one side of an association.
#[derive(Debug)]
struct Session {
    /// Next number of a RE-CONFIG request, and of an ASCONF.
    request: u32,
    serial: u32,
    /// The key, if both sides have named their Random Numbers.
    key: Option<Vec<u8>>,
}

/// What set-ups have shown.
#[derive(Debug, Default)]
pub(super) struct Insider {
    /// Initial TSNs and key vectors of INITs, by Initiate Tag.
    inits: BTreeMap<u32, (u32, Vec<u8>)>,
    /// By the tag that packets carry.
    sessions: BTreeMap<u32, Session>,
}

/// Returns the key vector of an INIT or INIT ACK: RANDOM, CHUNKS and HMAC-ALGO, without padding.
fn vector_of(parameters: Parameters<'_>) -> Vec<u8> {
    let parts = (0x8002..=0x8004_u16).flat_map(|kind| {
        parameters.iter().flatten().filter(move |raw| raw.kind == kind).map(|raw| raw.as_bytes())
    });
    parts.collect::<Vec<_>>().concat()
}

impl Insider {
    /// Learns from a packet.
    pub(super) fn learn(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let tag = packet.verification_tag().0;
        if self.inits.len() > SESSIONS_MAX || self.sessions.len() > SESSIONS_MAX {
            self.inits.clear();
            self.sessions.clear();
        }
        for raw in packet.chunks().flatten() {
            match raw.parse() {
                Ok(Chunk::Init(init)) => {
                    let known = (init.initial_tsn.0, vector_of(init.parameters));
                    self.inits.insert(init.initiate_tag.0, known);
                }
                Ok(Chunk::InitAck(ack)) => {
                    let Some((tsn, own)) = self.inits.get(&tag).cloned() else { continue };
                    let theirs = vector_of(ack.parameters);
                    // They begin with 0x80, so the longer one is the larger number.
                    let first = (own.len(), &own) <= (theirs.len(), &theirs);
                    let key = if first { [&own[..], &theirs].concat() } else { [&theirs[..], &own].concat() };
                    let key = (!own.is_empty() && !theirs.is_empty()).then_some(key);
                    for (tag, tsn) in [(tag, ack.initial_tsn.0), (ack.initiate_tag.0, tsn)] {
                        self.sessions.insert(tag, Session { request: tsn, serial: tsn, key: key.clone() });
                    }
                }
                _ => self.learn_numbers(tag, raw.kind, raw.value),
            }
        }
    }

    fn learn_numbers(&mut self, tag: u32, chunk: u8, value: &[u8]) {
        let Some(session) = self.sessions.get_mut(&tag) else { return };
        match chunk {
            kind::ASCONF => {
                let serial = value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                session.serial = serial.map_or(session.serial, |serial| serial.wrapping_add(1));
            }
            kind::RE_CONFIG => {
                let requests = Parameters::new(value).iter().flatten().filter(|raw| raw.kind != 16);
                for bytes in requests.filter_map(|raw| raw.value.first_chunk().copied()) {
                    session.request = u32::from_be_bytes(bytes).wrapping_add(1);
                }
            }
            _ => {}
        }
    }
}

impl Attacker {
    /// Returns a packet with one to three chunks that a peer could have sent, in the name of one of the hosts.
    pub(super) fn insider(&mut self, hosts: &[IpAddr]) -> Option<Carried> {
        let like = self.random_of_alterable()?;
        let packet = Packet::parse(&like.bytes).ok()?;
        let random = &mut self.random;
        let numbers = Numbers::of(&packet, random);
        let session = self.insider.sessions.get_mut(&packet.verification_tag().0)?;
        let mut buffer = [0; FORGED_LEN_MAX];
        let tag = packet.verification_tag();
        let mut builder =
            PacketBuilder::new(&mut buffer, packet.source_port(), packet.destination_port(), tag);
        let mut key = session.key.clone().filter(|_| random.chance(0.9));
        if key.is_some() {
            let id = random.pick(&[0, 0, 0, 0, 0, 0, 0, 1]);
            let mut fields = Value::default();
            fields.u16(id).u16(HMAC_SHA1).random(MAC_LEN, random);
            fields.0[4..].fill(0);
            builder.push_raw(kind::AUTH, 0, fields.0.len())?.copy_from_slice(&fields.0);
        }
        for _ in 0..random.range(1, 3) {
            let (kind, value) = chunk(session, numbers, hosts, random);
            let Some(room) = builder.push_raw(kind, 0, value.0.len()) else { break };
            room.copy_from_slice(&value.0);
        }
        let len = builder.finish();
        let mut bytes = buffer[..len].to_vec();
        if let Some(key) = key.take() {
            // The AUTH chunk is the first one.
            let mac =
                Hmac::<Sha1>::new_from_slice(&key).ok()?.chain_update(&bytes[12..]).finalize().into_bytes();
            bytes[20..20 + MAC_LEN].copy_from_slice(&mac);
        }
        fix_checksum(&mut bytes);
        Some(Carried { bytes: bytes.into(), ..like.clone() })
    }
}

fn chunk(session: &mut Session, numbers: Numbers, hosts: &[IpAddr], random: &mut Random) -> (u8, Value) {
    let mut value = Value::default();
    match random.below(8) {
        0..3 => (re_config(session, numbers, &mut value, random), value),
        3..6 => (asconf(session, hosts, &mut value, random), value),
        6 => {
            value.u32(near(numbers.tsn.0, random));
            if random.chance(0.7) {
                value.u32(near(0, random));
            }
            (kind::ECNE, value)
        }
        _ => {
            value.u32(near(numbers.tsn.0, random));
            (kind::CWR, value)
        }
    }
}

/// Requests in sequence, for streams that may not exist and TSNs that may not have been sent, and responses
/// to requests that may be open.
fn re_config(session: &mut Session, numbers: Numbers, value: &mut Value, random: &mut Random) -> u8 {
    for _ in 0..random.range(1, 3) {
        let mut parameter = Value::default();
        let kind = random.pick(&RECONFIGURATIONS);
        let number = if random.chance(0.8) { session.request } else { near(session.request, random) };
        parameter.u32(number);
        match kind {
            13 => _ = parameter.u32(near(session.request, random)).u32(near(numbers.tsn.0, random)),
            16 => {
                parameter.u32(random.below(9) as u32);
                if random.chance(0.3) {
                    parameter.u32(near(numbers.tsn.0, random)).u32(near(numbers.cumulative.0, random));
                }
            }
            17 | 18 => _ = parameter.u16(random.log_range(1, 65_535) as u16).u16(0),
            _ => {}
        }
        if matches!(kind, 13 | 14) {
            let streams = random.pick(&[0, 1, 1, 2, 4, 64, 300]);
            (0..streams).for_each(|_| _ = parameter.u16(near(numbers.stream.into(), random) as u16));
        }
        if kind != 16 && random.chance(0.7) {
            session.request = session.request.wrapping_add(1);
        }
        value.u16(kind).u16(parameter.0.len() as u16 + 4).0.append(&mut parameter.0);
        value.0.resize(value.0.len().next_multiple_of(4), 0);
    }
    kind::RE_CONFIG
}

/// Changes of addresses: of the last one and the source, of bogus ones, with repeated correlation IDs and
/// serial numbers that jump; and answers to changes that may be open.
fn asconf(session: &mut Session, hosts: &[IpAddr], value: &mut Value, random: &mut Random) -> u8 {
    let bogus =
        [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(203, 0, 113, 7), Ipv4Addr::LOCALHOST];
    let address = |value: &mut Value, random: &mut Random| {
        let address = if random.chance(0.6) { random.pick(hosts) } else { random.pick(&bogus).into() };
        match address {
            IpAddr::V4(v4) => _ = value.u16(5).u16(8).u32(v4.to_bits()),
            IpAddr::V6(v6) => value.u16(6).u16(20).0.extend(v6.octets()),
        }
    };
    let serial = if random.chance(0.8) { session.serial } else { near(session.serial, random) };
    value.u32(serial);
    if random.chance(0.15) {
        for _ in 0..random.below(3) {
            value.u16(random.pick(&[0xc005, 0xc003])).u16(8).u32(random.below(4) as u32);
        }
        return kind::ASCONF_ACK;
    }
    address(value, random);
    for _ in 0..random.range(1, 4) {
        let mut parameter = Value::default();
        parameter.u32(random.below(3) as u32);
        address(&mut parameter, random);
        value.u16(random.pick(&ADDRESS_CHANGES)).u16(parameter.0.len() as u16 + 4).0.append(&mut parameter.0);
    }
    if random.chance(0.7) {
        session.serial = session.serial.wrapping_add(1);
    }
    kind::ASCONF
}
