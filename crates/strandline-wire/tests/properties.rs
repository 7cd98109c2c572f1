//! Property tests of the wire format: every built packet parses back to the same values, and parsing
//! arbitrary bytes neither panics nor runs for long.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harmless;

use core::net::{Ipv4Addr, Ipv6Addr};

use harmless::{is_harmless, walk};
use proptest::collection::vec;
use proptest::prelude::*;
use strandline_wire::cause::{MissingParameters, RawCause};
use strandline_wire::chunk::i_forward_tsn::SkippedMessage;
use strandline_wire::chunk::stream_credit::Credit;
use strandline_wire::chunk::{
    forward_tsn, i_forward_tsn, kind, nr_sack, sack, stream_blocked, stream_credit,
};
use strandline_wire::parameter::HmacIdentifiers;
use strandline_wire::parameter::re_config::{
    AddIncomingStreams, AddOutgoingStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, ReConfigParameter,
    Response, ResultCode, SsnTsnReset, StreamList,
};
use strandline_wire::{
    Abort, Auth, Cause, Causes, Chunk, CookieEcho, Cwr, Data, Ecne, EncodeTlv, Error, Fsn, GapBlock,
    Heartbeat, IData, Init, Mid, Packet, PacketBuilder, Pad, Parameter, Parameters, Ppid, ReConfig,
    RequestNumber, Shutdown, ShutdownComplete, Ssn, StreamId, TlvWriter, Tsn, VerificationTag, padded, print,
};

/// An owned description of a chunk, which the borrowed chunk types point into.
#[derive(Debug, Clone)]
enum Owned {
    Data { numbers: (u32, u16, u16, u32), bits: [bool; 4], payload: Vec<u8> },
    Init { ack: bool, numbers: (u32, u32, u16, u16, u32), parameters: Vec<OwnedTlv> },
    Sack { cumulative_tsn: u32, a_rwnd: u32, gaps: Vec<(u16, u16)>, duplicates: Vec<u32> },
    Heartbeat { ack: bool, info: Vec<u8> },
    Causes { abort: Option<bool>, causes: Vec<OwnedTlv> },
    Tsn { kind: u8, tsn: u32 },
    Empty { kind: u8, tag_reflected: bool },
    CookieEcho(Vec<u8>),
    Pad(usize),
    Auth { key: u16, hmac: u16, mac: Vec<u8> },
    ReConfig(Vec<OwnedTlv>),
    NrSack { numbers: (u32, u32), renegable: Vec<(u16, u16)>, kept: Vec<(u16, u16)>, duplicates: Vec<u32> },
    ForwardTsn { new_cumulative_tsn: u32, skipped: Vec<(u16, u16)> },
    IData { numbers: (u32, u16, u32, u32), bits: [bool; 4], payload: Vec<u8> },
    IForwardTsn { new_cumulative_tsn: u32, skipped: Vec<(u16, bool, u32)> },
    StreamCredit { cumulative_tsn: u32, credits: Vec<(u16, u32, u32)> },
    StreamBlocked(Vec<u16>),
}

/// An owned description of a parameter or cause: a number and some bytes.
#[derive(Debug, Clone)]
struct OwnedTlv {
    choice: usize,
    number: u32,
    bytes: Vec<u8>,
}

impl OwnedTlv {
    fn parameter(&self) -> Parameter<'_> {
        let bytes = &self.bytes[..];
        match self.choice % 15 {
            0 => Parameter::HeartbeatInfo(bytes),
            1 => Parameter::Ipv4Address(Ipv4Addr::from(self.number)),
            2 => Parameter::Ipv6Address(Ipv6Addr::from(u128::from(self.number) << 60)),
            3 => Parameter::StateCookie(bytes),
            4 => Parameter::UnrecognisedParameter(bytes),
            5 => Parameter::CookiePreservative { increment_ms: self.number },
            6 => Parameter::HostName(bytes),
            7 => Parameter::EcnCapable,
            8 => Parameter::ZeroChecksumAcceptable { edmid: self.number },
            9 => Parameter::ForwardTsnSupported,
            10 => Parameter::Random(bytes),
            11 => Parameter::ChunkList(bytes),
            12 => Parameter::HmacAlgo(HmacIdentifiers::SHA256_SHA1),
            13 => Parameter::StreamCredit { initial_kib: self.number as u16 },
            _ => Parameter::Pad { padding_len: bytes.len() },
        }
    }

    fn re_config(&self) -> ReConfigParameter<'_> {
        let request = RequestNumber(self.number);
        let streams = StreamList::new(&self.bytes);
        let count = (self.number >> 8) as u16;
        match self.choice % 7 {
            0 => ReConfigParameter::OutgoingSsnReset(OutgoingSsnReset {
                request,
                response: RequestNumber(!self.number),
                last_tsn: Tsn(self.number << 1),
                streams,
            }),
            1 => ReConfigParameter::IncomingSsnReset(IncomingSsnReset { request, streams }),
            2 => ReConfigParameter::SsnTsnReset(SsnTsnReset { request }),
            3 => ReConfigParameter::AddOutgoingStreams(AddOutgoingStreams { request, streams: count }),
            4 => ReConfigParameter::AddIncomingStreams(AddIncomingStreams { request, streams: count }),
            5 => ReConfigParameter::Response(Response::new(request, ResultCode(self.number % 9))),
            _ => ReConfigParameter::Response(Response {
                next_tsns: Some(NextTsns { sender: Tsn(self.number), receiver: Tsn(!self.number) }),
                ..Response::new(request, ResultCode::PERFORMED)
            }),
        }
    }

    fn cause(&self) -> Cause<'_> {
        let bytes = &self.bytes[..];
        match self.choice % 15 {
            0 => Cause::InvalidStream { stream: StreamId((self.number & 0xffff) as u16) },
            1 => Cause::MissingParameters(MissingParameters::STATE_COOKIE),
            2 => Cause::StaleCookie { staleness_us: self.number },
            3 => Cause::OutOfResource,
            4 => Cause::UnresolvableAddress(bytes),
            5 => Cause::UnrecognisedChunk(bytes),
            6 => Cause::InvalidMandatoryParameter,
            7 => Cause::UnrecognisedParameters(Parameters::new(bytes)),
            8 => Cause::NoUserData { tsn: Tsn(self.number) },
            9 => Cause::CookieWhileShuttingDown,
            10 => Cause::RestartWithNewAddresses(Parameters::new(bytes)),
            11 => Cause::UserInitiatedAbort(bytes),
            12 => Cause::ProtocolViolation(bytes),
            13 => Cause::UnsupportedHmac { hmac: (self.number & 0xffff) as u16 },
            _ => Cause::Unknown(RawCause { code: 99, value: bytes }),
        }
    }
}

fn write_tlvs<T: EncodeTlv>(buffer: &mut Vec<u8>, items: impl Iterator<Item = T>) -> &[u8] {
    buffer.resize(4096, 0xee);
    let mut writer = TlvWriter::new(buffer);
    for item in items {
        assert!(writer.push(&item));
    }
    writer.finish()
}

/// Pushes the chunk that `owned` describes.
fn push(owned: &Owned, builder: &mut PacketBuilder<'_>) -> bool {
    let mut scratch = Vec::new();
    match owned {
        Owned::Data { .. } => builder.push(&data(owned)),
        Owned::Sack { cumulative_tsn, a_rwnd, gaps, duplicates } => {
            let gaps = gaps.iter().map(|&(start, end)| GapBlock { start, end });
            let duplicates: Vec<Tsn> = duplicates.iter().map(|&tsn| Tsn(tsn)).collect();
            sack::write(builder, Tsn(*cumulative_tsn), *a_rwnd, gaps, &duplicates)
        }
        // As many as fit are written; here all of them or none.
        Owned::NrSack { numbers: (cumulative_tsn, a_rwnd), renegable, kept, duplicates } => {
            let [renegable_blocks, kept_blocks] =
                [renegable, kept].map(|blocks| blocks.iter().map(|&(start, end)| GapBlock { start, end }));
            let duplicates: Vec<Tsn> = duplicates.iter().map(|&tsn| Tsn(tsn)).collect();
            let fixed = (Tsn(*cumulative_tsn), *a_rwnd);
            let len = 20 + 4 * (renegable.len() + kept.len() + duplicates.len());
            builder.remaining() >= len
                && nr_sack::write_within(builder, len, fixed, renegable_blocks, kept_blocks, &duplicates)
        }
        Owned::ForwardTsn { new_cumulative_tsn, skipped } => {
            let skipped = skipped.iter().map(|&(stream, ssn)| (StreamId(stream), Ssn(ssn)));
            forward_tsn::write(builder, Tsn(*new_cumulative_tsn), skipped)
        }
        Owned::IForwardTsn { new_cumulative_tsn, skipped } => {
            let skipped = skipped.iter().map(|&(stream, unordered, mid)| SkippedMessage {
                stream: StreamId(stream),
                unordered,
                mid: Mid(mid),
            });
            i_forward_tsn::write(builder, Tsn(*new_cumulative_tsn), skipped)
        }
        // As many as fit are written; here all of them or none.
        Owned::StreamCredit { cumulative_tsn, credits } => {
            let count = credits.len();
            let credits = credits.iter().map(|&(stream, accepted, limit)| Credit {
                stream: StreamId(stream),
                accepted,
                limit,
            });
            stream_credit::entries_in(builder.remaining()) >= count
                && stream_credit::write(builder, Tsn(*cumulative_tsn), credits) == count
        }
        Owned::StreamBlocked(streams) => {
            let len = 4 + 2 * streams.len();
            builder.remaining() >= len
                && stream_blocked::write(builder, streams.iter().copied().map(StreamId)) == streams.len()
        }
        _ => builder.push(&borrowed(owned, &mut scratch)),
    }
}

fn i_data(owned: &Owned) -> IData<'_> {
    let Owned::IData { numbers: (tsn, stream, mid, last), bits, payload } = owned else {
        panic!("only called for I-DATA")
    };
    let [unordered, beginning, ending, immediate] = *bits;
    IData {
        tsn: Tsn(*tsn),
        stream: StreamId(*stream),
        mid: Mid(*mid),
        fsn: Fsn(if beginning { 0 } else { *last }),
        ppid: Ppid(if beginning { *last } else { 0 }),
        unordered,
        beginning,
        ending,
        immediate,
        payload,
    }
}

fn data(owned: &Owned) -> Data<'_> {
    let Owned::Data { numbers: (tsn, stream, ssn, ppid), bits, payload } = owned else {
        panic!("only called for DATA")
    };
    let [unordered, beginning, ending, immediate] = *bits;
    Data {
        tsn: Tsn(*tsn),
        stream: StreamId(*stream),
        ssn: Ssn(*ssn),
        ppid: Ppid(*ppid),
        unordered,
        beginning,
        ending,
        immediate,
        payload,
    }
}

/// Returns the borrowed chunk for every type except those with lists of their own, which have no borrowed form to build
/// from.
fn borrowed<'a>(owned: &'a Owned, scratch: &'a mut Vec<u8>) -> Chunk<'a> {
    match owned {
        Owned::Data { .. } => Chunk::Data(data(owned)),
        Owned::IData { .. } => Chunk::IData(i_data(owned)),
        Owned::Sack { .. }
        | Owned::NrSack { .. }
        | Owned::ForwardTsn { .. }
        | Owned::IForwardTsn { .. }
        | Owned::StreamCredit { .. }
        | Owned::StreamBlocked(_) => panic!("compared field by field"),
        Owned::Init { ack, numbers: (tag, a_rwnd, out, inbound, tsn), parameters } => {
            let parameters = write_tlvs(scratch, parameters.iter().map(OwnedTlv::parameter));
            let init = Init {
                initiate_tag: VerificationTag(*tag),
                a_rwnd: *a_rwnd,
                outbound_streams: *out,
                inbound_streams: *inbound,
                initial_tsn: Tsn(*tsn),
                parameters: Parameters::new(parameters),
            };
            if *ack { Chunk::InitAck(init) } else { Chunk::Init(init) }
        }
        Owned::Heartbeat { ack: false, info } => Chunk::Heartbeat(Heartbeat { info }),
        Owned::Heartbeat { ack: true, info } => Chunk::HeartbeatAck(Heartbeat { info }),
        Owned::Causes { abort, causes } => {
            let causes = Causes::new(write_tlvs(scratch, causes.iter().map(OwnedTlv::cause)));
            match *abort {
                Some(tag_reflected) => Chunk::Abort(Abort { tag_reflected, causes }),
                None => Chunk::Error(Error { causes }),
            }
        }
        Owned::Tsn { kind: kind::ECNE, tsn } => {
            Chunk::Ecne(Ecne { lowest_tsn: Tsn(*tsn), packets: (tsn % 2 == 0).then_some(tsn / 2) })
        }
        Owned::Tsn { kind: kind::CWR, tsn } => Chunk::Cwr(Cwr { lowest_tsn: Tsn(*tsn) }),
        Owned::Tsn { tsn, .. } => Chunk::Shutdown(Shutdown { cumulative_tsn: Tsn(*tsn) }),
        Owned::Empty { kind: kind::SHUTDOWN_ACK, .. } => Chunk::ShutdownAck,
        Owned::Empty { kind: kind::COOKIE_ACK, .. } => Chunk::CookieAck,
        Owned::Empty { tag_reflected, .. } => {
            Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: *tag_reflected })
        }
        Owned::CookieEcho(cookie) => Chunk::CookieEcho(CookieEcho { cookie }),
        Owned::Auth { key, hmac, mac } => Chunk::Auth(Auth { key: *key, hmac: *hmac, mac }),
        Owned::Pad(padding_len) => Chunk::Pad(Pad { padding_len: *padding_len }),
        Owned::ReConfig(parameters) => {
            let parameters = write_tlvs(scratch, parameters.iter().map(OwnedTlv::re_config));
            Chunk::ReConfig(ReConfig { parameters: Parameters::new(parameters) })
        }
    }
}

fn same(owned: &Owned, parsed: &Chunk<'_>) {
    if let Owned::ForwardTsn { new_cumulative_tsn, skipped } = owned {
        let Chunk::ForwardTsn(forward) = parsed else { panic!("not a FORWARD TSN: {parsed:?}") };
        assert_eq!(forward.new_cumulative_tsn(), Tsn(*new_cumulative_tsn));
        let found: Vec<_> = forward.skipped().map(|(stream, ssn)| (stream.0, ssn.0)).collect();
        return assert_eq!(found, *skipped);
    }
    if let Owned::NrSack { numbers, renegable, kept, duplicates } = owned {
        let Chunk::NrSack(sack) = parsed else { panic!("not an NR-SACK: {parsed:?}") };
        assert_eq!((sack.cumulative_tsn().0, sack.a_rwnd()), *numbers);
        let pairs = |block: GapBlock| (block.start, block.end);
        let all = [&renegable[..], kept].concat();
        assert_eq!(sack.gap_blocks().map(pairs).collect::<Vec<_>>(), all);
        assert_eq!(sack.non_renegable().map(pairs).collect::<Vec<_>>(), *kept);
        return assert_eq!(sack.duplicates().map(|tsn| tsn.0).collect::<Vec<_>>(), *duplicates);
    }
    if let Owned::IForwardTsn { new_cumulative_tsn, skipped } = owned {
        let Chunk::IForwardTsn(forward) = parsed else { panic!("not an I-FORWARD-TSN: {parsed:?}") };
        assert_eq!(forward.new_cumulative_tsn(), Tsn(*new_cumulative_tsn));
        let entry = |entry: SkippedMessage| (entry.stream.0, entry.unordered, entry.mid.0);
        return assert_eq!(forward.skipped().map(entry).collect::<Vec<_>>(), *skipped);
    }
    if let Owned::StreamCredit { cumulative_tsn, credits } = owned {
        let Chunk::StreamCredit(chunk) = parsed else { panic!("not a STREAM CREDIT: {parsed:?}") };
        assert_eq!(chunk.cumulative_tsn(), Tsn(*cumulative_tsn));
        let entry = |credit: Credit| (credit.stream.0, credit.accepted, credit.limit);
        return assert_eq!(chunk.credits().map(entry).collect::<Vec<_>>(), *credits);
    }
    if let Owned::StreamBlocked(streams) = owned {
        let Chunk::StreamBlocked(chunk) = parsed else { panic!("not a STREAM BLOCKED: {parsed:?}") };
        return assert_eq!(chunk.streams().map(|stream| stream.0).collect::<Vec<_>>(), *streams);
    }
    let Owned::Sack { cumulative_tsn, a_rwnd, gaps, duplicates } = owned else {
        let mut scratch = Vec::new();
        assert_eq!(*parsed, borrowed(owned, &mut scratch));
        return same_inside(owned, parsed);
    };
    let Chunk::Sack(sack) = parsed else { panic!("not a SACK: {parsed:?}") };
    assert_eq!((sack.cumulative_tsn(), sack.a_rwnd()), (Tsn(*cumulative_tsn), *a_rwnd));
    assert_eq!(sack.gap_blocks().map(|block| (block.start, block.end)).collect::<Vec<_>>(), *gaps);
    assert_eq!(sack.duplicates().map(|tsn| tsn.0).collect::<Vec<_>>(), *duplicates);
}

/// Compares parameters and causes one by one.
fn same_inside(owned: &Owned, parsed: &Chunk<'_>) {
    match (owned, parsed) {
        (Owned::Init { parameters, .. }, Chunk::Init(init) | Chunk::InitAck(init)) => {
            let found: Vec<_> = init.parameters.iter().map(|raw| raw.unwrap().parse().unwrap()).collect();
            assert_eq!(found, parameters.iter().map(OwnedTlv::parameter).collect::<Vec<_>>());
        }
        (
            Owned::Causes { causes, .. },
            Chunk::Abort(Abort { causes: found, .. }) | Chunk::Error(Error { causes: found }),
        ) => {
            let found: Vec<_> = found.iter().map(|raw| raw.unwrap().parse().unwrap()).collect();
            assert_eq!(found, causes.iter().map(OwnedTlv::cause).collect::<Vec<_>>());
        }
        (Owned::ReConfig(parameters), Chunk::ReConfig(ReConfig { parameters: found })) => {
            let found: Vec<_> =
                found.iter().map(|raw| raw.unwrap().parse_re_config().unwrap().unwrap()).collect();
            assert_eq!(found, parameters.iter().map(OwnedTlv::re_config).collect::<Vec<_>>());
        }
        _ => {}
    }
}

fn bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=len_max)
}

fn tlvs() -> impl Strategy<Value = Vec<OwnedTlv>> {
    let one = (any::<usize>(), any::<u32>(), bytes(40));
    vec(one.prop_map(|(choice, number, bytes)| OwnedTlv { choice, number, bytes }), 0..8)
}

fn chunk() -> impl Strategy<Value = Owned> {
    prop_oneof![
        (any::<(u32, u16, u16, u32)>(), any::<[bool; 4]>(), bytes(200))
            .prop_map(|(numbers, bits, payload)| Owned::Data { numbers, bits, payload }),
        (any::<bool>(), any::<(u32, u32, u16, u16, u32)>(), tlvs())
            .prop_map(|(ack, numbers, parameters)| Owned::Init { ack, numbers, parameters }),
        (any::<u32>(), any::<u32>(), vec(any::<(u16, u16)>(), 0..20), vec(any::<u32>(), 0..20)).prop_map(
            |(cumulative_tsn, a_rwnd, gaps, duplicates)| Owned::Sack {
                cumulative_tsn,
                a_rwnd,
                gaps,
                duplicates
            }
        ),
        (any::<(u32, u32)>(), [(); 2].map(|()| vec(any::<(u16, u16)>(), 0..10)), vec(any::<u32>(), 0..9))
            .prop_map(|(numbers, [renegable, kept], duplicates)| {
                Owned::NrSack { numbers, renegable, kept, duplicates }
            }),
        (any::<bool>(), bytes(60)).prop_map(|(ack, info)| Owned::Heartbeat { ack, info }),
        (any::<Option<bool>>(), tlvs()).prop_map(|(abort, causes)| Owned::Causes { abort, causes }),
        (prop::sample::select(vec![kind::SHUTDOWN, kind::ECNE, kind::CWR]), any::<u32>())
            .prop_map(|(kind, tsn)| Owned::Tsn { kind, tsn }),
        (
            prop::sample::select(vec![kind::SHUTDOWN_ACK, kind::COOKIE_ACK, kind::SHUTDOWN_COMPLETE]),
            any::<bool>()
        )
            .prop_map(|(kind, tag_reflected)| Owned::Empty { kind, tag_reflected }),
        bytes(100).prop_map(Owned::CookieEcho),
        (0_usize..200).prop_map(Owned::Pad),
        tlvs().prop_map(Owned::ReConfig),
        (any::<u16>(), any::<u16>(), bytes(40)).prop_map(|(key, hmac, mac)| Owned::Auth { key, hmac, mac }),
        (any::<u32>(), vec(any::<(u16, u16)>(), 0..20))
            .prop_map(|(new_cumulative_tsn, skipped)| Owned::ForwardTsn { new_cumulative_tsn, skipped }),
        (any::<(u32, u16, u32, u32)>(), any::<[bool; 4]>(), bytes(200))
            .prop_map(|(numbers, bits, payload)| Owned::IData { numbers, bits, payload }),
        (any::<u32>(), vec(any::<(u16, bool, u32)>(), 0..20))
            .prop_map(|(new_cumulative_tsn, skipped)| Owned::IForwardTsn { new_cumulative_tsn, skipped }),
        (any::<u32>(), vec(any::<(u16, u32, u32)>(), 1..20))
            .prop_map(|(cumulative_tsn, credits)| Owned::StreamCredit { cumulative_tsn, credits }),
        vec(any::<u16>(), 1..20).prop_map(Owned::StreamBlocked),
    ]
}

/// Returns chunk-like bytes: a likely type, any flags, and a length that is right, a little off, or
/// arbitrary.
fn crafted_chunk() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        0_u8..=16,
        Just(kind::PAD),
        Just(kind::RE_CONFIG),
        Just(kind::FORWARD_TSN),
        Just(kind::ASCONF),
        Just(kind::ASCONF_ACK),
        any::<u8>()
    ];
    let value = prop_oneof![
        bytes(60),
        crafted_tlvs(),
        (bytes(16), crafted_tlvs()).prop_map(|(a, b)| [a, b].concat())
    ];
    (kind, any::<u8>(), value, crafted_length()).prop_map(|(kind, flags, value, length)| {
        let [l0, l1] = length.of(4 + value.len()).to_be_bytes();
        let mut chunk = vec![kind, flags, l0, l1];
        chunk.extend(value);
        chunk.resize(padded(chunk.len()), 0);
        chunk
    })
}

fn crafted_tlvs() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![0_u16..=18, Just(0x8000), 0xc000_u16..=0xc006, any::<u16>()];
    let one = (kind, bytes(20), crafted_length()).prop_map(|(kind, value, length)| {
        let mut tlv = kind.to_be_bytes().to_vec();
        tlv.extend(length.of(4 + value.len()).to_be_bytes());
        tlv.extend(value);
        tlv.resize(padded(tlv.len()), 0);
        tlv
    });
    vec(one, 0..6).prop_map(|tlvs| tlvs.concat())
}

#[derive(Debug, Clone)]
enum Length {
    Right,
    Off(i8),
    Any(u16),
}

impl Length {
    fn of(&self, right: usize) -> u16 {
        let right = u16::try_from(right).unwrap();
        match self {
            Self::Right => right,
            Self::Off(by) => right.wrapping_add_signed(i16::from(*by)),
            Self::Any(length) => *length,
        }
    }
}

fn crafted_length() -> impl Strategy<Value = Length> {
    prop_oneof![
        6 => Just(Length::Right),
        2 => (-8_i8..=8).prop_map(Length::Off),
        1 => any::<u16>().prop_map(Length::Any),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn built_packets_parse_back(
        chunks in vec(chunk(), 0..6),
        ports in any::<(u16, u16)>(),
        tag in any::<u32>(),
    ) {
        let mut buffer = vec![0xdd; 16_384];
        let mut builder = PacketBuilder::new(&mut buffer, ports.0, ports.1, VerificationTag(tag));
        for chunk in &chunks {
            prop_assert!(push(chunk, &mut builder));
        }
        let len = builder.finish();
        prop_assert_eq!(len % 4, 0);
        let packet = Packet::parse(&buffer[..len]).unwrap();
        prop_assert!(packet.verify_checksum());
        prop_assert_eq!((packet.source_port(), packet.destination_port()), ports);
        prop_assert_eq!(packet.verification_tag(), VerificationTag(tag));
        let parsed: Vec<_> = packet.chunks().map(|raw| raw.unwrap().parse().unwrap()).collect();
        prop_assert_eq!(parsed.len(), chunks.len());
        for (chunk, parsed) in chunks.iter().zip(&parsed) {
            same(chunk, parsed);
        }
    }

    #[test]
    fn parsed_packets_build_back(chunks in vec(crafted_chunk(), 0..5)) {
        let bytes = [vec![0; 12], chunks.concat()].concat();
        let packet = Packet::parse(&bytes).unwrap();
        let mut buffer = vec![0xdd; 16_384];
        let mut builder = PacketBuilder::new(&mut buffer, 0, 0, VerificationTag(0));
        let parsed: Vec<_> = packet.chunks().filter_map(|raw| raw.ok()?.parse().ok()).collect();
        for chunk in &parsed {
            prop_assert!(builder.push(chunk));
        }
        let len = builder.finish();
        let again = Packet::parse(&buffer[..len]).unwrap();
        let again: Vec<_> = again.chunks().map(|raw| raw.unwrap().parse().unwrap()).collect();
        prop_assert_eq!(again.len(), parsed.len());
        for (again, first) in again.iter().zip(&parsed) {
            prop_assert_eq!(again, first);
        }
    }

    #[test]
    fn chunks_never_overrun_a_small_buffer(chunks in vec(chunk(), 1..6), len in 0_usize..400) {
        let mut buffer = vec![0xdd; len + 8];
        let (packet, guard) = buffer.split_at_mut(len);
        let mut builder = PacketBuilder::new(packet, 1, 2, VerificationTag(3));
        let mut taken = 0;
        for chunk in &chunks {
            let before = builder.len();
            if push(chunk, &mut builder) {
                taken += 1;
            } else {
                prop_assert_eq!(builder.len(), before);
            }
            prop_assert!(builder.len() <= len);
        }
        let packet_len = builder.finish();
        prop_assert_eq!(guard, [0xdd; 8]);
        if let Ok(packet) = Packet::parse(&buffer[..packet_len]) {
            prop_assert!(packet.verify_checksum());
            prop_assert_eq!(packet.chunks().filter(Result::is_ok).count(), taken);
        }
    }

    #[test]
    fn any_bytes_are_harmless(bytes in bytes(300)) {
        is_harmless(&bytes);
    }

    #[test]
    fn crafted_packets_are_harmless(
        header in any::<[u8; 12]>(),
        chunks in vec(crafted_chunk(), 0..6),
        cut in 0_usize..8,
    ) {
        let mut bytes = [header.to_vec(), chunks.concat()].concat();
        bytes.truncate(bytes.len().saturating_sub(cut).max(12));
        is_harmless(&bytes);
    }
}

/// As many of the shortest chunks and causes as a datagram holds.
#[test]
fn the_most_elements_that_fit() {
    let empty_chunks = [vec![0; 12], [11, 0, 0, 4].repeat(16_380)].concat();
    assert_eq!(walk(&empty_chunks), 16_380);
    let causes = [vec![0; 12], vec![9, 0, 0xff, 0xfc], [0, 4, 0, 4].repeat(16_382)].concat();
    assert_eq!(walk(&causes), 1 + 16_382);
    assert!(print::line(&causes).to_string().len() < 1000);
    let forward = [vec![0; 12], vec![192, 0, 0xff, 0xfc, 0, 0, 0, 1], [0, 4, 0, 4].repeat(16_381)].concat();
    assert_eq!(walk(&forward), 1 + 16_381);
    assert!(print::line(&forward).to_string().len() < 1000);
}
