//! RFC 9260 section 3: high bits of unknown types, reports, flags, padding, values of INIT and INIT ACK.

use strandline_wire::chunk::{Chunk, CookieEcho, Init, Shutdown};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::*;
use super::*;

/// Returns the causes in the ERROR or ABORT of a packet.
pub(super) fn causes(sent: &Sent) -> Vec<(u16, Vec<u8>)> {
    for chunk in chunks(sent) {
        if let Chunk::Error(strandline_wire::Error { causes })
        | Chunk::Abort(strandline_wire::Abort { causes, .. }) = chunk
        {
            return causes.iter().map(|raw| raw.unwrap()).map(|raw| (raw.code, raw.value.to_vec())).collect();
        }
    }
    panic!("neither ERROR nor ABORT")
}

#[test]
fn section_3_2_unknown_chunk_types_follow_their_bits() {
    for (number, reported, goes_on) in
        [(0x3e, false, false), (0x7e, true, false), (0xbe, false, true), (0xfe, true, true)]
    {
        let mut raw = Raw::new();
        let (first, second) = (whole(raw.tsn, 0, b"before"), whole(raw.tsn.next(), 1, b"after"));
        let unknown = AnyChunk { kind: number, flags: 0x5a, value: b"what is this" };
        let answer = raw.say_all(&[&first, &unknown, &second]);
        assert_eq!(raw.read().len(), if goes_on { 2 } else { 1 }, "{number:#x}");
        let errors: Vec<_> = answer.iter().filter(|sent| has(kind::ERROR)(sent)).collect();
        assert_eq!(errors.len(), usize::from(reported), "{number:#x}");
        if let Some(error) = errors.first() {
            // The whole chunk with type, flags and length, under the cause Unrecognized Chunk Type.
            let quoted = [&[number, 0x5a, 0, 16][..], b"what is this"].concat();
            assert_eq!(causes(error), [(6, quoted)]);
            assert_eq!(error.destination, address(CLIENT, 0));
            assert_eq!(error.tag(), RAW_TAG);
        }
    }
}

#[test]
fn section_3_2_several_unknown_chunks_are_reported_in_one_error() {
    let mut raw = Raw::new();
    let unknown = |number| AnyChunk { kind: number, flags: 0, value: b"1234" };
    let answer =
        raw.say_all(&[&unknown(0xc8), &unknown(0x88), &unknown(0xc9), &unknown(0x48), &unknown(0xca)]);
    assert_eq!(answer.len(), 1);
    let codes: Vec<_> = causes(&answer[0]).into_iter().map(|(code, quoted)| (code, quoted[0])).collect();
    assert_eq!(codes, [(6, 0xc8), (6, 0xc9), (6, 0x48)], "nothing after the one that stops");
}

/// Before the COOKIE ACK nothing but COOKIE ECHO may be sent, not even reports.
#[test]
fn section_5_1_c_no_report_goes_during_set_up() {
    let mut pair = Pair::new();
    let client = pair.connect();
    let good = forge_good_init_ack(&mut pair);
    pair.deliver(&good);
    pair.wire.clear();
    let unknown = AnyChunk { kind: 0xfe, flags: 0, value: &[] };
    let sent = pair.forge(SERVER, (PORT, 5000), good.tag(), |packet| assert!(packet.push(&unknown)));
    pair.deliver(&sent);
    assert!(pair.wire.is_empty());
    pair.send(CLIENT, client, 0, b"goes with another COOKIE ECHO");
    pair.collect();
    assert_eq!(
        pair.wire.drain(..).map(|sent| sent.kinds()).collect::<Vec<_>>(),
        [[kind::COOKIE_ECHO, kind::DATA]]
    );
}

/// Undefined flags of a chunk type are ignored. Padding may have any content, and that of the last parameter may be
/// included in the chunk's length or not.
#[test]
fn section_3_2_undefined_flags_and_padding_are_ignored() {
    let mut raw = Raw::new();
    let tsn = raw.tsn.0.to_be_bytes();
    let mut bytes = vec![kind::DATA, 0xf3, 0, 17];
    bytes.extend_from_slice(&tsn);
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[b'x', 0xde, 0xad, 0xbe]);
    bytes.extend_from_slice(&[kind::HEARTBEAT, 0xff, 0, 9, 0, 1, 0, 5, b'h', 1, 2, 3]);
    let answer = raw.say_bytes(&bytes);
    assert_eq!(raw.read(), [b"x"]);
    let ack = answer.iter().find(|sent| has(kind::HEARTBEAT_ACK)(sent)).unwrap();
    assert_eq!(
        ack.bytes[12..],
        [kind::HEARTBEAT_ACK, 0, 0, 9, 0, 1, 0, 5, b'h', 0, 0, 0],
        "padded with zeros"
    );

    // An INIT whose last parameter is padded inside the chunk's length.
    for counted in [0, 2] {
        let mut pair = Pair::new();
        let mut chunk = vec![kind::INIT, 0xff, 0, 20 + 6 + counted];
        chunk.extend_from_slice(&[0, 0, 0, 9, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
        chunk.extend_from_slice(&[0, 12, 0, 6, 0, 5, 0xde, 0xad]);
        let bytes = packet_of((RAW_PORT, PORT), VerificationTag(0), &chunk);
        pair.deliver(&Sent {
            source: address(CLIENT, 0),
            destination: address(SERVER, 0),
            bytes,
            fragment: false,
        });
        assert_eq!(pair.wire[0].kinds(), [kind::INIT_ACK]);
    }
}

#[test]
fn section_3_2_1_stop_bit_ends_address_parsing() {
    for (number, taken) in [(0x3fff_u16, 1), (0x7fff, 1), (0xbfff, 2), (0xffff, 2)] {
        let [high, low] = number.to_be_bytes();
        let mut parameters = vec![high, low, 0, 5, 1, 0, 0, 0];
        parameters.extend_from_slice(&[0, 5, 0, 8, 203, 0, 113, 7]);
        let init = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
        let raw = Raw::open(Pair::new(), init);
        assert_eq!(raw.server().paths(raw.server).unwrap().len(), taken, "{number:#x}");
    }
}

/// The INIT ACK returns unrecognised parameters of the INIT, each whole, in a parameter of its own.
#[test]
fn section_3_2_2_init_ack_reports_unknown_parameters() {
    let parameters = [0xff, 0xfe, 0, 5, 1, 0, 0, 0, 0xff, 0xfd, 0, 8, 1, 2, 3, 4];
    let init = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
    let mut pair = Pair::new();
    let ports = (RAW_PORT, PORT);
    let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let answer = pair.wire.pop_front().unwrap();
    let Some(Chunk::InitAck(ack)) = chunks(&answer).into_iter().next() else { panic!("no INIT ACK") };
    let reported: Vec<_> =
        ack.parameters.iter().flatten().filter(|raw| raw.kind == 8).map(|raw| raw.value.to_vec()).collect();
    assert_eq!(reported, [&parameters[..5], &parameters[8..]]);
}

/// Unrecognised parameters of the INIT ACK are returned in an ERROR bundled with the COOKIE ECHO. The COOKIE ECHO is
/// first, and data comes after the ERROR.
#[test]
fn section_3_2_2_cookie_echo_reports_unknown_parameters() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"data");
    let parameters = [0xff, 0xfe, 0, 8, 1, 2, 3, 4, 0xbf, 0xfe, 0, 4, 0, 7, 0, 8, 5, 6, 7, 8];
    let answer = answer_init(&mut pair, Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) });
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].kinds(), [kind::COOKIE_ECHO, kind::ERROR, kind::DATA]);
    assert_eq!(causes(&answer[0]), [(8, parameters[..8].to_vec())]);
    let Some(Chunk::CookieEcho(CookieEcho { cookie })) = chunks(&answer[0]).into_iter().next() else {
        panic!("no COOKIE ECHO")
    };
    assert_eq!(cookie, [5, 6, 7, 8], "the exact cookie");
}

#[test]
fn section_3_3_3_invalid_init_ack_values() {
    let cookie = [0, 7, 0, 8, 1, 2, 3, 4];
    let good = Init { parameters: Parameters::new(&cookie), ..init(Tsn(1)) };
    // INIT ACK, tag of the ABORT (`None`: our own, reflected), cause, whether the TCB is destroyed.
    let without_cookie = Init { parameters: Parameters::new(&[]), ..good };
    let host_name = [0, 11, 0, 8, b'h', b'o', b's', 0, 0, 7, 0, 8, 1, 2, 3, 4];
    let cases = [
        (Init { initiate_tag: VerificationTag(0), ..good }, None, 13, true),
        (Init { outbound_streams: 0, ..good }, Some(RAW_TAG), 7, true),
        (Init { inbound_streams: 0, ..good }, Some(RAW_TAG), 7, true),
        (Init { a_rwnd: 1499, ..good }, Some(RAW_TAG), 7, false),
        (without_cookie, Some(RAW_TAG), 2, true),
        (Init { parameters: Parameters::new(&host_name), ..good }, Some(RAW_TAG), 5, true),
    ];
    for (number, (ack, tag, cause, destroyed)) in cases.into_iter().enumerate() {
        let mut pair = Pair::new();
        let client = pair.connect();
        let own = client_tag(&mut pair);
        let answer = answer_init(&mut pair, ack);
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].kinds(), [kind::ABORT], "{number}");
        assert_eq!(answer[0].tag(), tag.unwrap_or(own), "{number}");
        let reflected = Packet::parse(&answer[0].bytes).unwrap().chunks().next().unwrap().unwrap().flags & 1;
        assert_eq!(reflected == 1, tag.is_none());
        assert_eq!(causes(&answer[0])[0].0, cause, "{number}");
        assert_eq!(pair.state(CLIENT, client), if destroyed { "CLOSED" } else { "COOKIE-WAIT" }, "{number}");
        if !destroyed {
            pair.pass(Duration::from_secs(3));
            assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "T1-init goes on");
        }
    }
}

#[test]
fn section_3_3_2_invalid_init_changes_no_association() {
    let bad: [fn(Init<'static>) -> Init<'static>; 3] = [
        |init| Init { a_rwnd: 1499, ..init },
        |init| Init { outbound_streams: 0, ..init },
        |init| Init { inbound_streams: 0, ..init },
    ];
    for change in bad {
        let mut raw = Raw::new();
        let init = change(init(Tsn(9)));
        let ports = (RAW_PORT, PORT);
        let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        raw.pair.deliver(&sent);
        let answer = raw.heard();
        assert_eq!((answer[0].kinds(), answer[0].tag()), (vec![kind::ABORT], RAW_TAG));
        assert_eq!(raw.state(), "ESTABLISHED");
        raw.say_data(&whole(raw.tsn, 0, b"goes on"));
        assert_eq!(raw.read().len(), 1);
    }
}

#[test]
fn section_3_3_2_1_4_a_host_name_is_refused() {
    let host_name = [0, 11, 0, 8, b'h', b'o', b's', 0];
    let init = Init { parameters: Parameters::new(&host_name), ..init(Tsn(1)) };
    let mut pair = Pair::new();
    let ports = (RAW_PORT, PORT);
    let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let answer = pair.wire.pop_front().unwrap();
    assert_eq!((answer.kinds(), answer.tag()), (vec![kind::ABORT], RAW_TAG));
    assert_eq!(causes(&answer), [(5, host_name.to_vec())]);
}

/// Section 3.3.3: an INIT ACK may be much larger than our packets.
#[test]
fn section_3_3_3_a_large_init_ack_is_taken() {
    let mut pair = Pair::new();
    let client = pair.connect();
    let mut parameters = Vec::new();
    for number in 0..400u16 {
        let [high, low] = number.to_be_bytes();
        parameters.extend_from_slice(&[0, 5, 0, 8, 10, 1, high, low]);
    }
    parameters.extend_from_slice(&[0, 7, 0, 200]);
    parameters.resize(parameters.len() + 196, 0xcc);
    let answer = answer_init(&mut pair, Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) });
    assert_eq!(answer[0].kinds(), [kind::COOKIE_ECHO]);
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap().len(), crate::config::PATHS_MAX);
}

/// Section 3.3.8: a SHUTDOWN without gap blocks is no reneging.
#[test]
fn section_3_3_8_a_shutdown_takes_no_gap_acknowledgement_back() {
    let mut raw = Raw::new();
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.extend(tsns(&raw.server_sends(1000)).concat());
    }
    assert_eq!(sent.len(), 3);
    raw.say_sack(0, 65_536, &[(2, 3)]);
    assert_eq!(raw.server().status(raw.server).unwrap().in_flight, 1000);
    let cumulative_tsn = raw.server_tsn.previous();
    raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
    assert_eq!(raw.server().status(raw.server).unwrap().in_flight, 1000);
    let again = tsns(&raw.wait(Duration::from_secs(2))).concat();
    assert!(!again.is_empty() && again.iter().all(|tsn| *tsn == raw.server_tsn), "{again:?}");
}

/// The contents of our own set-up packets.
#[test]
fn section_3_3_2_own_init_and_init_ack_conform() {
    let (pair, ..) = Pair::established();
    let Some(Chunk::Init(init)) = chunks(&pair.log[0]).into_iter().next() else { panic!("no INIT") };
    let Some(Chunk::InitAck(ack)) = chunks(&pair.log[1]).into_iter().next() else { panic!("no INIT ACK") };
    for init in [init, ack] {
        assert_ne!(init.initiate_tag, VerificationTag(0));
        assert!(init.a_rwnd >= 1500 && init.outbound_streams > 0 && init.inbound_streams > 0);
        assert!(init.parameters.iter().all(|raw| {
            !matches!(raw.unwrap().parse(), Ok(Parameter::HostName(_) | Parameter::Unknown(_)) | Err(_))
        }));
    }
    assert!(ack.outbound_streams <= init.inbound_streams);
    assert_eq!(pair.log[1].tag(), init.initiate_tag);
    assert_eq!(pair.log[2].tag(), ack.initiate_tag);
}

/// RFC 4820: a PAD chunk is skipped, and a PAD parameter of an INIT neither reported nor kept in the State Cookie.
#[test]
fn padding_is_skipped_and_left_out() {
    let mut raw = Raw::new();
    let pad = AnyChunk { kind: kind::PAD, flags: 0xff, value: &[7; 40] };
    let sent = raw.say_all(&[&pad, &whole(raw.tsn, 0, b"a"), &pad, &whole(raw.tsn + 1, 1, b"b")]);
    assert_eq!(raw.read(), [b"a", b"b"]);
    assert!(!sent.iter().any(has(kind::ERROR)));

    let answer_len = |parameters: &[u8]| {
        let mut pair = Pair::new();
        let init = Init { parameters: Parameters::new(parameters), ..init(Tsn(1)) };
        let sent = pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |p| assert!(p.push(&init)));
        pair.deliver(&sent);
        assert_eq!(pair.wire[0].kinds(), [kind::INIT_ACK]);
        pair.wire[0].bytes.len()
    };
    let padded = [&[0x80, 0x05, 0, 204][..], &[1; 200], &[0x80, 0x05, 0, 4]].concat();
    assert_eq!(answer_len(&padded), answer_len(&[]));
}
