//! A hand-made peer: it sets up an association with the server and then sends whatever a test writes.

use strandline_wire::chunk::{Chunk, CookieEcho, GapBlock, Init, InitAck, sack};
use strandline_wire::number::{Ssn, Tsn};
use strandline_wire::parameter::Parameters;
use strandline_wire::{Data, Encode};

use super::*;
use crate::config::Recovery;
use crate::congestion::Algorithm;

/// The peer's SCTP port.
pub(super) const RAW_PORT: u16 = 6000;
/// The peer's tag.
pub(super) const RAW_TAG: VerificationTag = VerificationTag(0x5261_7721);

/// The hand-made peer at the client's first address, and the server's association with it.
pub(super) struct Raw {
    pub(super) pair: Pair,
    pub(super) server: AssociationId,
    /// The server's tag, which packets to it carry.
    pub(super) tag: VerificationTag,
    /// TSN of the first DATA that the peer sends.
    pub(super) tsn: Tsn,
    /// TSN of the server's first DATA.
    pub(super) server_tsn: Tsn,
}

/// The contents of a SACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) cumulative: Tsn,
    pub(super) a_rwnd: u32,
    pub(super) gaps: Vec<(u16, u16)>,
    pub(super) duplicates: Vec<Tsn>,
}

/// The peer's default INIT.
pub(super) fn init(initial_tsn: Tsn) -> Init<'static> {
    Init {
        initiate_tag: RAW_TAG,
        a_rwnd: 1 << 20,
        outbound_streams: 100,
        inbound_streams: 100,
        initial_tsn,
        parameters: Parameters::new(&[]),
    }
}

/// A message in one chunk, on stream 0.
pub(super) fn whole(tsn: Tsn, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data::whole(tsn, StreamId(0), Ssn(ssn), payload)
}

/// Any chunk, whatever its content.
pub(super) struct AnyChunk<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) value: &'a [u8],
}

impl Encode for AnyChunk<'_> {
    fn kind(&self) -> u8 {
        self.kind
    }
    fn flags(&self) -> u8 {
        self.flags
    }
    fn value_len(&self) -> usize {
        self.value.len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        out.copy_from_slice(self.value);
    }
}

/// Returns a packet whose chunks are these bytes, valid or not, with a correct checksum.
pub(super) fn packet_of(ports: (u16, u16), tag: VerificationTag, chunks: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in [ports.0, ports.1] {
        bytes.extend_from_slice(&field.to_be_bytes());
    }
    bytes.extend_from_slice(&tag.0.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(chunks);
    let checksum = strandline_wire::checksum::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the parsed chunks of a packet.
pub(super) fn chunks(sent: &Sent) -> Vec<Chunk<'_>> {
    Packet::parse(&sent.bytes).unwrap().chunks().map(|raw| raw.unwrap().parse().unwrap()).collect()
}

/// Returns the contents of the SACKs in these packets.
pub(super) fn sacks(packets: &[Sent]) -> Vec<Told> {
    let told = |chunk: Chunk<'_>| match chunk {
        Chunk::Sack(sack) => Some(Told {
            cumulative: sack.cumulative_tsn(),
            a_rwnd: sack.a_rwnd(),
            gaps: sack.gap_blocks().map(|block| (block.start, block.end)).collect(),
            duplicates: sack.duplicates().collect(),
        }),
        _ => None,
    };
    packets.iter().flat_map(|sent| chunks(sent).into_iter().filter_map(told).collect::<Vec<_>>()).collect()
}

/// Returns the TSNs of the DATA in these packets, packet by packet.
pub(super) fn tsns(packets: &[Sent]) -> Vec<Vec<Tsn>> {
    let of = |sent: &Sent| -> Vec<Tsn> {
        let data = |chunk: Chunk<'_>| if let Chunk::Data(data) = chunk { Some(data.tsn) } else { None };
        chunks(sent).into_iter().filter_map(data).collect()
    };
    packets.iter().map(of).filter(|tsns| !tsns.is_empty()).collect()
}

/// Returns tag, initial TSN and cookie of the INIT ACK in a packet.
pub(super) fn init_ack(sent: &Sent) -> (VerificationTag, Tsn, Vec<u8>) {
    let chunks = chunks(sent);
    let Some(Chunk::InitAck(init)) = chunks.first() else { panic!("no INIT ACK: {chunks:?}") };
    let cookie = init.parameters.iter().flatten().find(|raw| raw.kind == 7).expect("a State Cookie");
    (init.initiate_tag, init.initial_tsn, cookie.value.to_vec())
}

impl Raw {
    pub(super) fn new() -> Self {
        Self::configured(|_| {})
    }

    /// A server that strictly follows RFC 9260, so that each packet is the one that the section demands.
    pub(super) fn configured(change: impl Fn(&mut AssociationConfig)) -> Self {
        let pure = |config: &mut AssociationConfig| {
            config.recovery = Recovery::Rfc9260;
            config.congestion = Algorithm::Rfc9260;
            change(config);
        };
        Self::open(Pair::configured(pure), init(Tsn(1000)))
    }

    /// Sets up an association with the server of `pair`.
    pub(super) fn open(mut pair: Pair, init: Init<'_>) -> Self {
        let ports = (RAW_PORT, PORT);
        let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        let (tag, server_tsn, cookie) = init_ack(&pair.wire.pop_front().expect("an INIT ACK"));
        let echo = CookieEcho { cookie: &cookie };
        let sent = pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&echo)));
        pair.deliver(&sent);
        assert_eq!(pair.wire.pop_front().expect("a COOKIE ACK").kinds(), [kind::COOKIE_ACK]);
        let server = pair.accepted();
        pair.hosts[SERVER].events.clear();
        Self { pair, server, tag, tsn: init.initial_tsn, server_tsn }
    }

    /// Sends a packet to the server. Returns what the server sends.
    pub(super) fn say(&mut self, build: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<Sent> {
        let sent = self.pair.forge(CLIENT, (RAW_PORT, PORT), self.tag, build);
        self.pair.deliver(&sent);
        self.heard()
    }

    /// Sends chunks in one packet.
    pub(super) fn say_all(&mut self, chunks: &[&dyn Encode]) -> Vec<Sent> {
        self.say(|packet| {
            for chunk in chunks {
                let value = packet.push_raw(chunk.kind(), chunk.flags(), chunk.value_len()).expect("room");
                chunk.encode_value(value);
            }
        })
    }

    /// Sends a packet whose chunks are these bytes.
    pub(super) fn say_bytes(&mut self, chunks: &[u8]) -> Vec<Sent> {
        let bytes = packet_of((RAW_PORT, PORT), self.tag, chunks);
        self.pair.deliver(&Sent {
            source: address(CLIENT, 0),
            destination: address(SERVER, 0),
            bytes,
            fragment: false,
        });
        self.heard()
    }

    /// Sends a packet with one DATA chunk.
    pub(super) fn say_data(&mut self, data: &Data<'_>) -> Vec<Sent> {
        self.say(|packet| assert!(packet.push(data)))
    }

    /// Sends a SACK for everything before the server's TSN number `next`, with gap blocks as given.
    pub(super) fn say_sack(&mut self, next: u32, a_rwnd: u32, gaps: &[(u16, u16)]) -> Vec<Sent> {
        let cumulative = (self.server_tsn + next).previous();
        let gaps = gaps.iter().map(|&(start, end)| GapBlock { start, end });
        self.say(|packet| assert!(sack::write(packet, cumulative, a_rwnd, gaps, &[])))
    }

    /// Returns what the server has sent since the last call.
    pub(super) fn heard(&mut self) -> Vec<Sent> {
        self.pair.collect();
        self.pair.wire.drain(..).collect()
    }

    /// Lets time pass. Returns what the server sent meanwhile.
    pub(super) fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let from = self.pair.log.len();
        self.pair.pass_dropping(time, |_| true);
        self.pair.log[from..].to_vec()
    }

    /// Sends a message of the server's application on stream 0.
    pub(super) fn server_sends(&mut self, len: usize) -> Vec<Sent> {
        self.pair.send(SERVER, self.server, 0, &vec![0x55; len]);
        self.heard()
    }

    pub(super) fn state(&self) -> &'static str {
        self.pair.state(SERVER, self.server)
    }

    /// Returns the contents of all messages that the server's application can read.
    pub(super) fn read(&mut self) -> Vec<Vec<u8>> {
        let messages =
            core::iter::from_fn(|| self.pair.hosts[SERVER].endpoint.recv(self.pair.now, self.server));
        messages.map(|message| message.data.to_vec()).collect()
    }

    pub(super) fn server(&self) -> &Endpoint {
        &self.pair.hosts[SERVER].endpoint
    }
}

/// Sends a hand-made INIT ACK to the client of `pair`, in answer to its INIT.
pub(super) fn answer_init(pair: &mut Pair, ack: Init<'_>) -> Vec<Sent> {
    let sent = forge_init_ack(pair, ack);
    pair.deliver(&sent);
    pair.wire.drain(..).collect()
}

/// Returns such an INIT ACK without delivering it.
pub(super) fn forge_init_ack(pair: &mut Pair, ack: Init<'_>) -> Sent {
    let tag = client_tag(pair);
    pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&InitAck(ack))))
}

/// Returns an INIT ACK with only a cookie, which the client will answer.
pub(super) fn forge_good_init_ack(pair: &mut Pair) -> Sent {
    let cookie = [0, 7, 0, 8, 1, 2, 3, 4];
    forge_init_ack(pair, Init { parameters: Parameters::new(&cookie), ..init(Tsn(1)) })
}

/// Returns the client's tag from its latest INIT, which is not delivered.
pub(super) fn client_tag(pair: &mut Pair) -> VerificationTag {
    pair.collect();
    pair.wire.clear();
    let asked = pair.log.iter().rfind(|sent| has(kind::INIT)(sent)).expect("an INIT");
    let Some(Chunk::Init(init)) = chunks(asked).into_iter().next() else { panic!("no INIT") };
    init.initiate_tag
}
