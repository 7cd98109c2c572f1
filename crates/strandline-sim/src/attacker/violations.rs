//! Chunks of the extensions that break their rules: well-formed, under the right tag, with numbers near those that were
//! seen on the wire.

use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, PacketBuilder, Tsn};

use super::{Attacker, FORGED_LEN_MAX, fix_checksum};
use crate::board::FORGED_CREDIT;
use crate::network::Carried;
use crate::random::Random;

/// Parameters of RE-CONFIG (RFC 6525 section 4): resets, a response, and more streams.
pub(super) const RECONFIGURATIONS: [u16; 6] = [13, 14, 15, 16, 17, 18];

/// Parameters of ASCONF (RFC 5061 section 4.2): add, delete, set primary.
pub(super) const ADDRESS_CHANGES: [u16; 3] = [0xc001, 0xc002, 0xc004];

/// Numbers that an association uses at present, as a recorded packet shows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) tsn: Tsn,
    pub(super) cumulative: Tsn,
    pub(super) stream: u16,
    /// The SSN or MID.
    message: u32,
}

impl Numbers {
    pub(super) fn of(packet: &Packet<'_>, random: &mut Random) -> Self {
        let unknown = Tsn(random.bits() as u32);
        let mut numbers =
            Self { tsn: unknown, cumulative: unknown, stream: random.below(4) as u16, message: 0 };
        for chunk in packet.chunks().flatten() {
            match chunk.parse() {
                Ok(Chunk::Data(data)) => {
                    (numbers.tsn, numbers.stream) = (data.tsn, data.stream.0);
                    numbers.message = u32::from(data.ssn.0);
                }
                Ok(Chunk::IData(data)) => {
                    (numbers.tsn, numbers.stream, numbers.message) = (data.tsn, data.stream.0, data.mid.0);
                }
                Ok(Chunk::Sack(sack)) => numbers.cumulative = sack.cumulative_tsn(),
                Ok(Chunk::NrSack(sack)) => numbers.cumulative = sack.cumulative_tsn(),
                _ => {}
            }
        }
        numbers
    }
}

/// Returns a number at or near `base`, or far away.
pub(super) fn near(base: u32, random: &mut Random) -> u32 {
    let by = random.pick(&[0, 0, 1, 1, 2, 5, 40, 1000, 1 << 16, 1 << 25, 1 << 31, u32::MAX]);
    base.wrapping_add(by)
}

/// The value of a chunk under construction.
#[derive(Debug, Default)]
pub(super) struct Value(pub(super) Vec<u8>);

impl Value {
    pub(super) fn u16(&mut self, number: u16) -> &mut Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn u32(&mut self, number: u32) -> &mut Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn random(&mut self, len: usize, random: &mut Random) -> &mut Self {
        let old = self.0.len();
        self.0.resize(old + len, 0);
        random.fill(&mut self.0[old..]);
        self
    }
}

impl Attacker {
    /// Returns a packet with one to three such chunks, in the name of one of the hosts.
    pub(super) fn violation(&mut self) -> Option<Carried> {
        let like = self.random_of_alterable()?;
        let packet = Packet::parse(&like.bytes).ok()?;
        let random = &mut self.random;
        let numbers = Numbers::of(&packet, random);
        let mut buffer = [0; FORGED_LEN_MAX];
        let tag = packet.verification_tag();
        let mut builder =
            PacketBuilder::new(&mut buffer, packet.source_port(), packet.destination_port(), tag);
        for _ in 0..random.range(1, 3) {
            let (kind, flags, value) = chunk(numbers, random);
            let Some(room) = builder.push_raw(kind, flags, value.0.len()) else { break };
            room.copy_from_slice(&value.0);
        }
        let len = builder.finish();
        let mut bytes = buffer[..len].to_vec();
        fix_checksum(&mut bytes);
        Some(Carried { bytes: bytes.into(), ..like.clone() })
    }
}

fn chunk(numbers: Numbers, random: &mut Random) -> (u8, u8, Value) {
    let mut value = Value::default();
    let flags = random.below(16) as u8;
    let kind = match random.below(9) {
        0 => forward(numbers, false, &mut value, random),
        1 => forward(numbers, true, &mut value, random),
        2 => i_data(numbers, &mut value, random),
        3 => nr_sack(numbers, &mut value, random),
        4 => re_config(&mut value, random),
        5 => asconf(&mut value, random),
        6 => {
            // A key identifier, an HMAC identifier, an HMAC that can't be right.
            let (key, hmac) = (random.pick(&[0, 1, 7, u16::MAX]), random.pick(&[0, 1, 2, 3, u16::MAX]));
            let len = random.pick(&[0, 20, 32, 33]);
            value.u16(key).u16(hmac).random(len, random);
            kind::AUTH
        }
        7 => {
            let cumulative = near(numbers.tsn.0, random);
            value.u32(cumulative);
            for _ in 0..random.below(4) {
                let (accepted, limit) = (near(0, random), near(1 << 16, random));
                value
                    .u16(near(numbers.stream.into(), random) as u16)
                    .u16(FORGED_CREDIT)
                    .u32(accepted)
                    .u32(limit);
            }
            kind::STREAM_CREDIT
        }
        _ => {
            for _ in 0..random.below(4) {
                value.u16(near(numbers.stream.into(), random) as u16).u16(0).u32(near(0, random));
            }
            kind::STREAM_BLOCKED
        }
    };
    (kind, flags, value)
}

/// A jump, with streams and messages that may not exist.
fn forward(numbers: Numbers, interleaved: bool, value: &mut Value, random: &mut Random) -> u8 {
    value.u32(near(numbers.tsn.0, random));
    for _ in 0..random.below(6) {
        let stream = near(numbers.stream.into(), random) as u16;
        let message = near(numbers.message, random);
        match interleaved {
            true => value.u16(stream).u16(random.below(4) as u16).u32(message),
            false => value.u16(stream).u16(message as u16),
        };
    }
    if interleaved { kind::I_FORWARD_TSN } else { kind::FORWARD_TSN }
}

/// Fragments that overlap with others, or whose flags contradict them.
fn i_data(numbers: Numbers, value: &mut Value, random: &mut Random) -> u8 {
    value.u32(near(numbers.tsn.0, random)).u16(near(numbers.stream.into(), random) as u16).u16(0);
    value.u32(near(numbers.message, random)).u32(random.below(4) as u32);
    let len = random.log_range(1, 200) as usize - 1;
    value.random(len, random);
    kind::I_DATA
}

/// Blocks that overlap, are inverted, or name what was never sent.
fn nr_sack(numbers: Numbers, value: &mut Value, random: &mut Random) -> u8 {
    let counts = [random.below(4), random.below(4), random.below(3)].map(|count| count as u16);
    value.u32(near(numbers.cumulative.0, random)).u32(random.log_range(1, 1 << 24) as u32);
    value.u16(counts[0]).u16(counts[1]).u16(counts[2]).u16(0);
    for _ in 0..counts[0] + counts[1] {
        let start = random.log_range(1, 3000) as u16;
        value.u16(start).u16(start.wrapping_add(random.pick(&[0, 1, 7, 500, u16::MAX])));
    }
    for _ in 0..counts[2] {
        value.u32(near(numbers.cumulative.0, random));
    }
    kind::NR_SACK
}

/// Requests and responses out of sequence, for streams that may not exist.
fn re_config(value: &mut Value, random: &mut Random) -> u8 {
    for _ in 0..random.range(1, 3) {
        let mut parameter = Value::default();
        let (first, second) = (random.bits() as u32, random.bits() as u32);
        let kind = random.pick(&RECONFIGURATIONS);
        parameter.u32(first);
        match kind {
            13 => parameter.u32(second).u32(near(second, random)),
            16 => parameter.u32(random.below(9) as u32),
            17 | 18 => parameter.u16(random.log_range(1, 65_535) as u16).u16(0),
            _ => &mut parameter,
        };
        if matches!(kind, 13 | 14) {
            let pairs = random.below(4);
            (0..2 * pairs).for_each(|_| _ = parameter.u16(random.below(8) as u16));
        }
        value.u16(kind).u16(parameter.0.len() as u16 + 4).0.append(&mut parameter.0);
    }
    kind::RE_CONFIG
}

/// Changes of addresses that nobody has authenticated.
fn asconf(value: &mut Value, random: &mut Random) -> u8 {
    let answer = random.chance(0.3);
    let address = |value: &mut Value, random: &mut Random| {
        value.u16(5).u16(8).u32(random.pick(&[0, 0x0a00_0001, 0x0a00_0101, 0xc0a8_0001, u32::MAX]));
    };
    value.u32(random.bits() as u32);
    if !answer {
        address(value, random);
        for _ in 0..random.range(1, 3) {
            value.u16(random.pick(&ADDRESS_CHANGES)).u16(16).u32(random.bits() as u32);
            address(value, random);
        }
    }
    if answer { kind::ASCONF_ACK } else { kind::ASCONF }
}
