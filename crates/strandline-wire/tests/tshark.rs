//! Compares captures of the `pcapng` module with the fields that Wireshark's dissector (tshark) reads from
//! them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;

use strandline_wire::chunk::i_forward_tsn::{self, SkippedMessage};
use strandline_wire::chunk::{forward_tsn, sack};
use strandline_wire::parameter::re_config::{
    AddIncomingStreams, AddOutgoingStreams, IncomingSsnReset, NextTsns, OutgoingSsnReset, ReConfigParameter,
    Response, ResultCode, SsnTsnReset, StreamList,
};
use strandline_wire::parameter::{HmacIdentifiers, SupportedAddressTypes};
use strandline_wire::pcapng::{PcapngWriter, Record};
use strandline_wire::{
    Abort, Auth, Cause, Causes, CookieAck, CookieEcho, Data, Encode, Error, Fsn, GapBlock, Heartbeat,
    HeartbeatAck, IData, Init, InitAck, Mid, PacketBuilder, Pad, Parameter, Parameters, Ppid, ReConfig,
    RequestNumber, Shutdown, ShutdownAck, ShutdownComplete, Ssn, StreamId, TlvWriter, Tsn, VerificationTag,
};

/// Writes a capture of `packets`, in turn over raw IPv4, raw IPv6, UDP over IPv4 and UDP over IPv6, one for
/// each millisecond and nanosecond, then asks tshark for `fields`. Returns one line for each packet, with
/// tabs between the fields.
#[track_caller]
fn dissect(name: &str, packets: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    let routes = [
        ("192.0.2.1:0", "192.0.2.2:0"),
        ("[2001:db8::1]:0", "[2001:db8::2]:0"),
        ("192.0.2.1:40000", "192.0.2.2:9899"),
        ("[2001:db8::1]:9899", "[2001:db8::2]:9899"),
    ];
    let mut writer = PcapngWriter::new(Vec::new()).unwrap();
    for (i, (packet, (source, destination))) in packets.iter().zip(routes.iter().cycle()).enumerate() {
        let record = Record {
            timestamp: Duration::from_nanos(1_700_000_000_000_000_000 + i as u64 * 1_000_001),
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            packet,
            comment: if i == 1 { "the second" } else { "" },
        };
        writer.write(&record).unwrap();
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
    std::fs::write(&path, writer.into_inner()).unwrap();

    let mut command = Command::new("tshark");
    command.arg("-r").arg(&path).args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"]);
    command.args([
        "-o",
        "sctp.checksum:CRC 32c",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run tshark ({error}): install it, on Debian `apt-get install tshark`")
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), packets.len(), "{text}");
    lines
}

fn packet(write: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let mut builder = PacketBuilder::new(&mut buffer, 5000, 5001, VerificationTag(0x1234_5678));
    write(&mut builder);
    let len = builder.finish();
    buffer.truncate(len);
    buffer
}

fn packet_of(chunks: &[&dyn Encode]) -> Vec<u8> {
    packet(|builder| {
        for &chunk in chunks {
            let value = builder.push_raw(chunk.kind(), chunk.flags(), chunk.value_len()).unwrap();
            chunk.encode_value(value);
        }
    })
}

fn data(payload: &[u8]) -> Data<'_> {
    Data {
        ppid: Ppid(4_000_000_001),
        immediate: true,
        ..Data::whole(Tsn(4_000_000_000), StreamId(11), Ssn(22), payload)
    }
}

#[test]
fn headers_checksums_and_times() {
    let bytes = packet_of(&[&data(b"hello"), &data(b"x"), &Pad { padding_len: 9 }]);
    let damaged = [&bytes[..bytes.len() - 1], &[1]].concat();
    let packets = [vec![bytes; 4], vec![damaged]].concat();
    let fields = [
        "frame.time_epoch",
        "frame.comment",
        "ip.checksum.status",
        "udp.checksum.status",
        "sctp.checksum.status",
        "sctp.srcport",
        "sctp.dstport",
        "sctp.verification_tag",
        "sctp.chunk_type",
        "sctp.chunk_length",
        "_ws.malformed",
    ];
    let sctp = "5000\t5001\t0x12345678\t0,0,132\t21,17,13\t";
    assert_eq!(
        dissect("headers", &packets, &fields),
        [
            format!("1700000000.000000000\t\t1\t\t1\t{sctp}"),
            format!("1700000000.001000001\tthe second\t\t\t1\t{sctp}"),
            format!("1700000000.002000002\t\t1\t1\t1\t{sctp}"),
            format!("1700000000.003000003\t\t\t1\t1\t{sctp}"),
            format!("1700000000.004000004\t\t1\t\t0\t{sctp}"),
        ]
    );
}

#[test]
fn data_fields() {
    let packets = [packet_of(&[&data(b"hello")])];
    let fields = [
        "sctp.data_tsn_raw",
        "sctp.data_sid",
        "sctp.data_ssn",
        "sctp.data_payload_proto_id",
        "sctp.data_b_bit",
        "sctp.data_e_bit",
        "sctp.data_u_bit",
        "sctp.data_i_bit",
        "data.data",
    ];
    let lines = dissect("data", &packets, &fields);
    assert_eq!(
        lines[0].replace("True", "1").replace("False", "0"),
        "4000000000\t0x000b\t22\t4000000001\t1\t1\t0\t1\t68656c6c6f"
    );
}

#[test]
fn sack_fields() {
    let gaps = [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }];
    let packets = [packet(|builder| {
        assert!(sack::write(builder, Tsn(12), 4660, gaps.into_iter(), &[Tsn(7), Tsn(8)]));
    })];
    let fields = [
        "sctp.sack_cumulative_tsn_ack_raw",
        "sctp.sack_a_rwnd",
        "sctp.sack_gap_block_start",
        "sctp.sack_gap_block_end",
        "sctp.sack_duplicate_tsn",
        "_ws.malformed",
    ];
    assert_eq!(dissect("sack", &packets, &fields), ["12\t4660\t2,5\t3,5\t7,8\t"]);
}

#[test]
fn forward_tsn_fields() {
    let skipped = [(StreamId(4), Ssn(5)), (StreamId(6), Ssn(7))];
    let packets = [packet(|builder| {
        assert!(forward_tsn::write(builder, Tsn(99), skipped.into_iter()));
        assert!(builder.push(&data(b"x")));
    })];
    let fields = [
        "sctp.chunk_type",
        "sctp.forward_tsn_tsn",
        "sctp.forward_tsn_sid",
        "sctp.forward_tsn_ssn",
        "_ws.malformed",
    ];
    assert_eq!(dissect("forward-tsn", &packets, &fields), ["192,0\t99\t4,6\t5,7\t"]);
}

#[test]
fn i_data_fields() {
    let first =
        IData { ppid: Ppid(51), ending: false, ..IData::whole(Tsn(9), StreamId(11), Mid(70_000), b"x") };
    let second = IData { beginning: false, ending: true, fsn: Fsn(70_001), ppid: Ppid(0), ..first };
    let entry =
        |stream, unordered, mid| SkippedMessage { stream: StreamId(stream), unordered, mid: Mid(mid) };
    let packets = [packet(|builder| {
        let skipped = [entry(4, false, 70_002), entry(6, true, 70_003)].into_iter();
        assert!(i_forward_tsn::write(builder, Tsn(8), skipped));
        assert!(builder.push(&first) && builder.push(&second));
    })];
    let fields = [
        "sctp.chunk_type",
        "sctp.i_forward_tsn_tsn",
        "sctp.i_forward_tsn_sid",
        "sctp.forward_tsn_mid",
        "sctp.data_tsn_raw",
        "sctp.data_sid",
        "sctp.data_mid",
        "sctp.data_payload_proto_id",
        "sctp.data_fsn",
        "_ws.malformed",
    ];
    assert_eq!(
        dissect("i-data", &packets, &fields),
        ["194,64,64\t8\t4,6\t70002,70003\t9,9\t0x000b,0x000b\t70000,70000\t51\t70001\t"]
    );
}

#[test]
fn auth_fields() {
    let mac = [0xab; 20];
    let mut buffer = [0; 500];
    let mut writer = TlvWriter::new(&mut buffer);
    for parameter in [
        Parameter::Random(&[7; 32]),
        Parameter::ChunkList(&[0, 193]),
        Parameter::HmacAlgo(HmacIdentifiers::SHA256_SHA1),
    ] {
        assert!(writer.push(&parameter));
    }
    let init = Init {
        initiate_tag: VerificationTag(1),
        a_rwnd: 65_537,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(1),
        parameters: Parameters::new(writer.finish()),
    };
    let mut buffer = [0; 100];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&Cause::UnsupportedHmac { hmac: 5 }));
    let causes = Causes::new(writer.finish());
    let packets = [
        packet_of(&[&init]),
        packet_of(&[&Auth { key: 258, hmac: 1, mac: &mac }, &data(b"x")]),
        packet_of(&[&Error { causes }]),
    ];
    let fields = [
        "sctp.chunk_type",
        "sctp.parameter_type",
        "sctp.random_number",
        "sctp.chunk_type_to_auth",
        "sctp.hmac_id",
        "sctp.shared_key_id",
        "sctp.hmac",
        "sctp.cause_code",
        "_ws.malformed",
    ];
    assert_eq!(
        dissect("auth", &packets, &fields),
        [
            format!("1\t0x8002,0x8003,0x8004\t{}\t0,193\t3,1\t\t\t\t", "07".repeat(32)),
            format!("15,0\t\t\t\t1\t258\t{}\t\t", "ab".repeat(20)),
            "9\t\t\t\t5\t\t\t0x0105\t".to_owned(),
        ]
    );
}

#[test]
fn set_up_fields() {
    let mut buffer = [0; 500];
    let mut writer = TlvWriter::new(&mut buffer);
    for parameter in [
        Parameter::Ipv4Address([192, 0, 2, 7].into()),
        Parameter::Ipv6Address("2001:db8::7".parse().unwrap()),
        Parameter::StateCookie(&[1, 2, 3]),
        Parameter::UnrecognisedParameter(&[0xc1, 0, 0, 4]),
        Parameter::CookiePreservative { increment_ms: 777 },
        Parameter::SupportedAddressTypes(SupportedAddressTypes::BOTH),
        Parameter::EcnCapable,
        Parameter::ForwardTsnSupported,
        Parameter::ZeroChecksumAcceptable { edmid: 1 },
        Parameter::Pad { padding_len: 5 },
    ] {
        assert!(writer.push(&parameter));
    }
    let init = Init {
        initiate_tag: VerificationTag(0xabcd_ef01),
        a_rwnd: 65_537,
        outbound_streams: 12,
        inbound_streams: 34,
        initial_tsn: Tsn(99),
        parameters: Parameters::new(writer.finish()),
    };
    let packets = [
        packet_of(&[&init]),
        packet_of(&[&InitAck(init)]),
        packet_of(&[&CookieEcho { cookie: &[1, 2, 3] }, &data(b"x")]),
        packet_of(&[&CookieAck]),
    ];
    let fields = [
        "sctp.chunk_type",
        "sctp.init_initiate_tag",
        "sctp.init_initial_tsn",
        "sctp.initack_initiate_tag",
        "sctp.initack_credit",
        "sctp.initack_nr_out_streams",
        "sctp.initack_nr_in_streams",
        "sctp.parameter_type",
        "sctp.parameter_ipv4_address",
        "sctp.parameter_ipv6_address",
        "sctp.parameter_cookie_preservative_incr",
        "sctp.parameter_supported_address_type",
        "sctp.cookie",
        "_ws.malformed",
    ];
    let types = "0x0005,0x0006,0x0007,0x0008,0xc100,0x0009,0x000c,0x8000,0xc000,0x8001,0x8005";
    let inside = format!("{types}\t192.0.2.7\t2001:db8::7\t777\t5,6\t\t");
    assert_eq!(
        dissect("set-up", &packets, &fields),
        [
            format!("1\t0xabcdef01\t99\t\t\t\t\t{inside}"),
            format!("2\t\t\t0xabcdef01\t65537\t12\t34\t{inside}"),
            "10,0\t\t\t\t\t\t\t\t\t\t\t\t010203\t".to_owned(),
            "11\t\t\t\t\t\t\t\t\t\t\t\t\t".to_owned(),
        ]
    );
}

#[test]
fn causes_and_the_end() {
    let address = [0, 5, 0, 8, 192, 0, 2, 1];
    let mut buffer = [0; 500];
    let mut writer = TlvWriter::new(&mut buffer);
    for cause in [
        Cause::InvalidStream { stream: StreamId(9) },
        Cause::MissingParameters(strandline_wire::cause::MissingParameters::STATE_COOKIE),
        Cause::StaleCookie { staleness_us: 12 },
        Cause::OutOfResource,
        Cause::UnresolvableAddress(&address),
        Cause::UnrecognisedChunk(&[0xc1, 0, 0, 4]),
        Cause::InvalidMandatoryParameter,
        Cause::UnrecognisedParameters(Parameters::new(&[0xc1, 0, 0, 4])),
        Cause::NoUserData { tsn: Tsn(4) },
        Cause::CookieWhileShuttingDown,
        Cause::RestartWithNewAddresses(Parameters::new(&address)),
        Cause::UserInitiatedAbort(b"bye"),
        Cause::ProtocolViolation(b"no"),
    ] {
        assert!(writer.push(&cause));
    }
    let causes = Causes::new(writer.finish());
    let heartbeat = Heartbeat { info: &[1, 2, 3, 4, 5] };
    let packets = [
        packet_of(&[&Error { causes }]),
        packet_of(&[&Abort { tag_reflected: true, causes }]),
        packet_of(&[&heartbeat, &HeartbeatAck(heartbeat)]),
        packet_of(&[&Shutdown { cumulative_tsn: Tsn(88) }, &ShutdownAck]),
        packet_of(&[&ShutdownComplete { tag_reflected: true }]),
    ];
    let fields = [
        "sctp.chunk_type",
        "sctp.cause_code",
        "sctp.abort_t_bit",
        "sctp.parameter_heartbeat_information",
        "sctp.shutdown_cumulative_tsn_ack",
        "sctp.shutdown_complete_t_bit",
        "_ws.malformed",
    ];
    let codes: Vec<String> = (1..=13).map(|code| format!("{code:#06x}")).collect();
    let codes = codes.join(",");
    let lines: Vec<String> =
        dissect("end", &packets, &fields).iter().map(|l| l.replace("True", "1")).collect();
    assert_eq!(lines[0].split('\t').nth(6), Some(""), "{}", lines[0]);
    assert_eq!(
        lines,
        [
            format!("9,193\t{codes}\t\t\t\t\t"),
            format!("6,193\t{codes}\t1\t\t\t\t"),
            "4,5\t\t\t0102030405,0102030405\t\t\t".to_owned(),
            "7,8\t\t\t\t88\t\t".to_owned(),
            "14\t\t\t\t\t1\t".to_owned(),
        ]
    );
}

#[test]
fn re_config_fields() {
    let parameters = |parameters: &[ReConfigParameter<'_>]| {
        let mut buffer = vec![0; 500];
        let mut writer = TlvWriter::new(&mut buffer);
        assert!(parameters.iter().all(|parameter| writer.push(parameter)));
        let bytes = writer.finish();
        packet_of(&[&ReConfig { parameters: Parameters::new(bytes) }])
    };
    let (request, response) = (RequestNumber(11), RequestNumber(12));
    let streams = StreamList::new(&[0, 3, 0, 4]);
    let outgoing = OutgoingSsnReset { request, response, last_tsn: Tsn(13), streams };
    let next_tsns = Some(NextTsns { sender: Tsn(14), receiver: Tsn(15) });
    let packets = [
        parameters(&[
            ReConfigParameter::OutgoingSsnReset(outgoing),
            ReConfigParameter::IncomingSsnReset(IncomingSsnReset { request, streams }),
        ]),
        parameters(&[ReConfigParameter::SsnTsnReset(SsnTsnReset { request })]),
        parameters(&[
            ReConfigParameter::AddOutgoingStreams(AddOutgoingStreams { request, streams: 5 }),
            ReConfigParameter::AddIncomingStreams(AddIncomingStreams { request, streams: 6 }),
        ]),
        parameters(&[ReConfigParameter::Response(Response {
            next_tsns,
            ..Response::new(response, ResultCode::PERFORMED)
        })]),
    ];
    let fields = ["sctp.chunk_type", "sctp.parameter_type", "_ws.malformed"];
    assert_eq!(
        dissect("re-config", &packets, &fields),
        ["130\t0x000d,0x000e\t", "130\t0x000f\t", "130\t0x0011,0x0012\t", "130\t0x0010\t"]
    );
}
