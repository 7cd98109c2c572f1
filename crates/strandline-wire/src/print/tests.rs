use crate::builder::PacketBuilder;
use crate::cause::{Cause, Causes, MissingParameters};
use crate::chunk::i_forward_tsn::SkippedMessage;
use crate::chunk::stream_credit::Credit;
use crate::chunk::{
    Abort, Asconf, AsconfAck, Auth, Chunk, CookieEcho, Cwr, Data, Ecne, Error, GapBlock, Heartbeat, IData,
    Init, Pad, ReConfig, Shutdown, ShutdownComplete, forward_tsn, i_forward_tsn, nr_sack, sack,
    stream_blocked, stream_credit,
};
use crate::encode::EncodeTlv;
use crate::number::{AsconfNumber, Fsn, Mid, Ppid, RequestNumber, Ssn, StreamId, Tsn, VerificationTag};
use crate::parameter::asconf::AsconfParameter;
use crate::parameter::re_config::{
    AddIncomingStreams, AddOutgoingStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, ReConfigParameter,
    Response, ResultCode, SsnTsnReset, StreamList,
};
use crate::parameter::{HmacIdentifiers, Parameter, Parameters, SupportedAddressTypes};
use crate::print::line;
use crate::tlv::TlvWriter;

/// Asserts the line of a packet with `chunks`, without the prefix that every line has.
#[track_caller]
fn shows(chunks: &[Chunk<'_>], expected: &str) {
    let mut buffer = vec![0; 2000];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    for chunk in chunks {
        assert!(builder.push(chunk));
    }
    let len = builder.finish();
    assert_eq!(line(&buffer[..len]).to_string(), format!("1 > 2 tag 0x00000003: {expected}"));
}

fn tlvs<T: EncodeTlv>(items: &[T]) -> Vec<u8> {
    let mut buffer = vec![0; 1000];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(items.iter().all(|item| writer.push(item)));
    writer.finish().to_vec()
}

#[test]
fn data_and_its_flags() {
    let data = Data { ppid: Ppid(6), immediate: true, ..Data::whole(Tsn(10), StreamId(4), Ssn(5), b"hello") };
    let middle = Data { unordered: true, beginning: false, ending: false, immediate: false, ..data };
    let ordered = Data { unordered: false, ..middle };
    shows(
        &[Chunk::Data(data), Chunk::Data(middle), Chunk::Data(ordered)],
        "DATA tsn 10 stream 4 ssn 5 ppid 6 IBE 5 bytes; DATA tsn 10 stream 4 ppid 6 U 5 bytes; \
         DATA tsn 10 stream 4 ssn 5 ppid 6 - 5 bytes",
    );
}

#[test]
fn auth() {
    let auth = Auth { key: 2, hmac: 3, mac: &[0; 32] };
    shows(&[Chunk::Auth(auth), Chunk::ShutdownAck], "AUTH key 2 hmac 3 mac 32 bytes; SHUTDOWN ACK");
}

#[test]
fn init_with_every_parameter() {
    let bytes = tlvs(&[
        Parameter::Ipv4Address([192, 0, 2, 1].into()),
        Parameter::Ipv6Address("2001:db8::1".parse().unwrap()),
        Parameter::StateCookie(&[0; 30]),
        Parameter::UnrecognisedParameter(&[0xc0, 0xff, 0, 4]),
        Parameter::CookiePreservative { increment_ms: 500 },
        Parameter::HostName(b"a\n\0"),
        Parameter::SupportedAddressTypes(SupportedAddressTypes::BOTH),
        Parameter::EcnCapable,
        Parameter::ForwardTsnSupported,
        Parameter::SupportedExtensions(&[130, 192]),
        Parameter::Random(&[0; 32]),
        Parameter::ChunkList(&[0, 193]),
        Parameter::HmacAlgo(HmacIdentifiers::SHA256_SHA1),
        Parameter::ZeroChecksumAcceptable { edmid: 1 },
        Parameter::Pad { padding_len: 8 },
    ]);
    let init = Init {
        initiate_tag: VerificationTag(0xa),
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 2,
        initial_tsn: Tsn(7),
        parameters: Parameters::new(&bytes),
    };
    shows(
        &[Chunk::InitAck(init)],
        "INIT ACK tag 0x0000000a rwnd 1500 out 1 in 2 tsn 7 [IPv4 Address 192.0.2.1, \
         IPv6 Address 2001:db8::1, State Cookie 30 bytes, Unrecognized Parameter 0xc0ff, 4 bytes, Cookie Preservative 500 ms, \
         Host Name Address \"a\\n\\x00\", Supported Address Types IPv4 Address IPv6 Address, ECN Capable, Forward-TSN-Supported, Supported Extensions 130 192, \
         Random 32 bytes, Chunk List 0 193, Requested HMAC Algorithm 3 1, \
         Zero Checksum Acceptable EDMID 1, Padding 8 bytes]",
    );
    let broken = Init { parameters: Parameters::new(&[0, 5, 0, 6, 1, 2, 0, 0, 0x44, 1, 0, 9]), ..init };
    shows(
        &[Chunk::Init(broken)],
        "INIT tag 0x0000000a rwnd 1500 out 1 in 2 tsn 7 [IPv4 Address malformed: parameter type 5 \
         has a value of 2 bytes instead of 4, malformed: length 9 of type 17409 goes beyond the 4 bytes that are left]",
    );
}

#[test]
fn error_with_every_cause() {
    let address = [0, 5, 0, 8, 192, 0, 2, 1];
    let bytes = tlvs(&[
        Cause::InvalidStream { stream: StreamId(9) },
        Cause::MissingParameters(MissingParameters::STATE_COOKIE),
        Cause::StaleCookie { staleness_us: 12 },
        Cause::OutOfResource,
        Cause::UnresolvableAddress(&address),
        Cause::UnrecognisedChunk(&[0xc1, 0, 0, 4]),
        Cause::InvalidMandatoryParameter,
        Cause::UnrecognisedParameters(Parameters::new(&[0xc0, 0xff, 0, 4])),
        Cause::NoUserData { tsn: Tsn(4) },
        Cause::CookieWhileShuttingDown,
        Cause::RestartWithNewAddresses(Parameters::new(&address)),
        Cause::UserInitiatedAbort(b"bye"),
        Cause::ProtocolViolation(b""),
        Cause::RestartWithNewEncapsulationPort { current: 9899, new: 40_000 },
    ]);
    shows(
        &[Chunk::Error(Error { causes: Causes::new(&bytes) })],
        "ERROR [Invalid Stream Identifier 9, Missing Mandatory Parameter State Cookie, Stale Cookie 12 us, \
         Out of Resource, Unresolvable Address [IPv4 Address 192.0.2.1], \
         Unrecognized Chunk Type 0xc1, 4 bytes, Invalid Mandatory Parameter, \
         Unrecognized Parameters [parameter 0xc0ff 0 bytes], No User Data tsn 4, \
         Cookie Received While Shutting Down, \
         Restart of an Association with New Addresses [IPv4 Address 192.0.2.1], \
         User-Initiated Abort \"bye\", Protocol Violation \"\", \
         Restart of an Association with New Encapsulation Port 9899, now 40000]",
    );
}

#[test]
fn forward_tsn_and_its_streams() {
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(forward_tsn::write(&mut builder, Tsn(10), core::iter::empty()));
    assert!(forward_tsn::write(&mut builder, Tsn(11), [(StreamId(4), Ssn(5))].into_iter()));
    assert!(forward_tsn::write(&mut builder, Tsn(12), (0..20).map(|id| (StreamId(id), Ssn(9)))));
    let len = builder.finish();
    assert_eq!(
        line(&buffer[..len]).to_string(),
        "1 > 2 tag 0x00000003: FORWARD TSN new cum 10; FORWARD TSN new cum 11 skipped 4:5; \
         FORWARD TSN new cum 12 skipped 0:9 1:9 2:9 3:9 4:9 5:9 6:9 7:9 8:9 9:9 10:9 11:9 12:9 13:9 14:9 15:9 and 4"
    );
}

#[test]
fn i_data_and_i_forward_tsn() {
    let whole = IData::whole(Tsn(7), StreamId(1), Mid(70_000), b"hello");
    let first = IData { ppid: Ppid(51), unordered: true, ending: false, ..whole };
    let second = IData { beginning: false, ending: false, fsn: Fsn(3), ppid: Ppid(0), ..whole };
    shows(
        &[Chunk::IData(whole), Chunk::IData(first), Chunk::IData(second)],
        "I-DATA tsn 7 stream 1 mid 70000 ppid 0 BE 5 bytes; I-DATA tsn 7 stream 1 mid 70000 ppid 51 UB 5 bytes; \
         I-DATA tsn 7 stream 1 mid 70000 fsn 3 - 5 bytes",
    );
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let entry = |unordered| SkippedMessage { stream: StreamId(4), unordered, mid: Mid(70_000) };
    assert!(i_forward_tsn::write(&mut builder, Tsn(11), [entry(false), entry(true)].into_iter()));
    let len = builder.finish();
    assert_eq!(
        line(&buffer[..len]).to_string(),
        "1 > 2 tag 0x00000003: I-FORWARD-TSN new cum 11 skipped 4:70000 4:U70000"
    );
}

#[test]
fn stream_credit_and_stream_blocked() {
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let credits = [4, 5].map(|stream| Credit { stream: StreamId(stream), accepted: 10, limit: 65_536 });
    assert_eq!(stream_credit::write(&mut builder, Tsn(11), credits.into_iter()), 2);
    assert_eq!(stream_blocked::write(&mut builder, [StreamId(4), StreamId(5)].into_iter()), 2);
    let len = builder.finish();
    assert_eq!(
        line(&buffer[..len]).to_string(),
        "1 > 2 tag 0x00000003: STREAM CREDIT cum 11 credits 4:10/65536 5:10/65536; STREAM BLOCKED streams 4 5"
    );
}

#[test]
fn the_other_chunks() {
    let heartbeat = Heartbeat { info: &[0; 40] };
    shows(
        &[
            Chunk::Heartbeat(heartbeat),
            Chunk::HeartbeatAck(heartbeat),
            Chunk::Shutdown(Shutdown { cumulative_tsn: Tsn(5) }),
            Chunk::ShutdownAck,
            Chunk::CookieEcho(CookieEcho { cookie: &[0; 3] }),
            Chunk::CookieAck,
            Chunk::Ecne(Ecne { lowest_tsn: Tsn(1), packets: None }),
            Chunk::Cwr(Cwr { lowest_tsn: Tsn(2) }),
            Chunk::Pad(Pad { padding_len: 100 }),
            Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: true }),
            Chunk::Abort(Abort { tag_reflected: true, causes: Causes::new(&[0, 99, 0, 5, 1]) }),
            Chunk::Abort(Abort { tag_reflected: false, causes: Causes::new(&[]) }),
        ],
        "HEARTBEAT 40 bytes; HEARTBEAT ACK 40 bytes; SHUTDOWN cum 5; SHUTDOWN ACK; \
         COOKIE ECHO 3 bytes; COOKIE ACK; ECNE tsn 1; CWR tsn 2; PAD 100 bytes; SHUTDOWN COMPLETE T; ABORT T [cause 99 1 bytes]; ABORT",
    );
}

#[test]
fn nr_sack_with_every_list() {
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let block = |start, end| core::iter::once(GapBlock { start, end });
    let (gaps, kept) = (block(2, 3), block(5, 6));
    assert!(nr_sack::write_within(&mut builder, 200, (Tsn(1), 2), gaps, kept, &[Tsn(7)]));
    let len = builder.finish();
    let shown = line(&buffer[..len]).to_string();
    assert!(shown.ends_with("NR-SACK cum 1 rwnd 2 gaps +2-3 kept +5-6 dups 7"), "{shown}");
}

#[test]
fn re_config_with_every_parameter() {
    let request = RequestNumber(7);
    let outgoing = OutgoingSsnReset {
        request,
        response: RequestNumber(8),
        last_tsn: Tsn(9),
        streams: StreamList::new(&[0, 1, 0, 2]),
    };
    let incoming = IncomingSsnReset { request, streams: StreamList::default() };
    let next_tsns = Some(NextTsns { sender: Tsn(5), receiver: Tsn(6) });
    let bytes = tlvs(&[
        ReConfigParameter::OutgoingSsnReset(outgoing),
        ReConfigParameter::IncomingSsnReset(incoming),
        ReConfigParameter::SsnTsnReset(SsnTsnReset { request }),
        ReConfigParameter::AddOutgoingStreams(AddOutgoingStreams { request, streams: 3 }),
        ReConfigParameter::AddIncomingStreams(AddIncomingStreams { request, streams: 4 }),
        ReConfigParameter::Response(Response::new(request, ResultCode::DENIED)),
        ReConfigParameter::Response(Response { next_tsns, ..Response::new(request, ResultCode(70)) }),
    ]);
    shows(
        &[Chunk::ReConfig(ReConfig { parameters: Parameters::new(&bytes) })],
        "RE-CONFIG [Outgoing SSN Reset Request 7 response 8 tsn 9 streams 1 2, \
         Incoming SSN Reset Request 7, SSN/TSN Reset Request 7, Add Outgoing Streams Request 7 +3, \
         Add Incoming Streams Request 7 +4, Re-configuration Response 7 denied, \
         Re-configuration Response 7 result 70 next tsn 5 of peer 6]",
    );
    let broken = [0, 15, 0, 4];
    shows(
        &[Chunk::ReConfig(ReConfig { parameters: Parameters::new(&broken) })],
        "RE-CONFIG [SSN/TSN Reset Request malformed: parameter type 15 has a value of 0 bytes instead of 4]",
    );
}

#[test]
fn requests_to_change_addresses() {
    let (id, address) = (7, [192, 0, 2, 1].into());
    let requests = tlvs(&[
        AsconfParameter::AddIp { id, address },
        AsconfParameter::DeleteIp { id: 8, address },
        AsconfParameter::SetPrimary { id: 9, address: [0; 4].into() },
    ]);
    let (number, parameters) = (AsconfNumber(5), Parameters::new(&requests));
    shows(
        &[Chunk::Asconf(Asconf { number, address, parameters })],
        "ASCONF 5 from 192.0.2.1 [Add IP Address 7 192.0.2.1, Delete IP Address 8 192.0.2.1, \
         Set Primary IP Address 9 0.0.0.0]",
    );
    let refused = tlvs(&[AsconfParameter::DeleteIp { id: 8, address }]);
    let cause = tlvs(&[Cause::DeleteLastAddress(Parameters::new(&refused))]);
    let responses =
        tlvs(&[AsconfParameter::Success { id }, AsconfParameter::Error { id: 8, causes: &cause }]);
    shows(
        &[Chunk::AsconfAck(AsconfAck { number, responses: Parameters::new(&responses) })],
        "ASCONF-ACK 5 [Success Indication 7, \
         Error Cause Indication 8 Request to Delete Last Remaining IP Address]",
    );
    shows(
        &[Chunk::Error(Error { causes: Causes::new(&cause) })],
        "ERROR [Request to Delete Last Remaining IP Address Delete IP Address]",
    );
}

#[test]
fn long_lists_and_texts_are_cut_off() {
    let mut buffer = [0; 1000];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let gaps = (1..=18).map(|i| GapBlock { start: 2 * i, end: 2 * i });
    assert!(sack::write(&mut builder, Tsn(1), 2, gaps, &[Tsn(7), Tsn(8)]));
    let len = builder.finish();
    let shown = line(&buffer[..len]).to_string();
    assert!(shown.contains("SACK cum 1 rwnd 2 gaps +2-2 +4-4 "), "{shown}");
    assert!(shown.ends_with(" +32-32 and 2 dups 7 8"), "{shown}");

    let text = vec![b'a'; 70];
    let bytes = tlvs(&[Cause::UserInitiatedAbort(&text)]);
    let expected = format!("ABORT [User-Initiated Abort \"{}\" and 6 bytes]", "a".repeat(64));
    shows(&[Chunk::Abort(Abort { tag_reflected: false, causes: Causes::new(&bytes) })], &expected);

    let bytes = tlvs(&[Cause::OutOfResource; 20]);
    let expected = format!("ERROR [{} and 4]", ["Out of Resource"; 16].join(", "));
    shows(&[Chunk::Error(Error { causes: Causes::new(&bytes) })], &expected);
}

#[test]
fn what_is_not_right() {
    assert_eq!(
        line(&[1, 2]).to_string(),
        "not SCTP: packet of 2 bytes is shorter than the common header of 12"
    );
    let bytes = [0, 1, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 7, 0, 0, 4, 0x99, 5, 0, 6, 1, 2, 0, 0, 11, 0, 0, 3];
    assert_eq!(
        line(&bytes).to_string(),
        "1 > 2 tag 0x00000003: bad checksum 0x04030201; SHUTDOWN malformed: chunk type 7 \
         has a value of 0 bytes instead of 4; chunk 0x99 flags 0x05 2 bytes; \
         malformed: length 3 of type 11 is less than its header of 4"
    );
}

#[test]
fn a_checksum_that_was_left_out() {
    let mut buffer = [0; 100];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(builder.push(&Chunk::CookieAck));
    let len = builder.finish_with_zero_checksum();
    assert_eq!(line(&buffer[..len]).to_string(), "1 > 2 tag 0x00000003: zero checksum; COOKIE ACK");
}
