//! Sections 3 and 6.1: the parameters of INIT and INIT ACK.

use strandline_wire::cause::Cause;
use strandline_wire::chunk::InitAck;

use super::*;

/// Returns the parameters of RFC 4895 in a packet's INIT or INIT ACK, by type.
fn parameters(sent: &Sent) -> Vec<(u16, Vec<u8>)> {
    let init = match chunks_of(sent).into_iter().next() {
        Some(Chunk::Init(init) | Chunk::InitAck(init)) => init,
        _ => return Vec::new(),
    };
    let own = init.parameters.iter().flatten().filter(|raw| (0x8002..=0x8004).contains(&raw.kind));
    own.map(|raw| (raw.kind, raw.value.to_vec())).collect()
}

fn first(pair: &Pair, kind: u8) -> &Sent {
    pair.log.iter().find(|sent| has(kind)(sent)).unwrap_or_else(|| panic!("no chunk of type {kind}"))
}

/// Sends this INIT to a server with authentication. Returns its answer.
fn answer(settings: Authentication, init: Init<'_>) -> Sent {
    let mut pair = Pair::with(configured(None, CLIENT), configured(Some(settings), SERVER));
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    pair.wire.pop_front().expect("an answer")
}

#[track_caller]
fn assert_aborts_with(sent: &Sent, wanted: impl Fn(&Cause<'_>) -> bool) {
    let Some(Chunk::Abort(abort)) = chunks_of(sent).into_iter().next() else { panic!("{:?}", sent.kinds()) };
    let cause = abort.causes.iter().next().unwrap().unwrap();
    assert!(wanted(&cause.parse().unwrap()), "{cause:?}");
}

const SHA256_ONLY: [u8; 6] = [0x80, 4, 0, 6, 0, 3];

/// Parameters that break a rule of section 6.1 or 3.
fn faulty() -> Vec<Vec<u8>> {
    let random = Parameter::Random(&[1; 32]);
    let hmacs = Parameter::HmacAlgo(HmacIdentifiers::SHA1);
    let chunks = Parameter::ChunkList(&[0]);
    let mut all: Vec<Vec<u8>> =
        [0, 1, 16, 31, 33, 64, 600].map(|len| encode(&[Parameter::Random(&vec![1; len]), hmacs])).to_vec();
    all.extend([
        encode(&[random, random, hmacs]),
        encode(&[random, hmacs, hmacs]),
        encode(&[random, chunks, chunks, hmacs]),
        encode(&[random]),
        encode(&[hmacs]),
        encode(&[chunks]),
        encode(&[random, chunks]),
        [&encode(&[random])[..], &SHA256_ONLY].concat(),
        // HMAC-ALGO of an odd length, and without an algorithm.
        [&encode(&[random])[..], &[0x80, 4, 0, 7, 0, 1, 0, 0]].concat(),
        [&encode(&[random])[..], &[0x80, 4, 0, 4]].concat(),
        // CHUNKS longer than 260 bytes.
        [&encode(&[random])[..], &[0x80, 3, 1, 8], &[0; 260], &encode(&[hmacs])].concat(),
        // More algorithms than are assigned.
        [&encode(&[random])[..], &[0x80, 4, 0, 104], &[0, 1].repeat(50)].concat(),
    ]);
    all
}

#[test]
fn section_6_1_parameters_are_in_init_and_init_ack() {
    let (pair, ..) = pair(&[kind::DATA], &[]).establish();
    let (init, ack) = (parameters(first(&pair, kind::INIT)), parameters(first(&pair, kind::INIT_ACK)));
    let kinds = |list: &[(u16, Vec<u8>)]| list.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
    assert_eq!(kinds(&init), [0x8002, 0x8003, 0x8004]);
    // An empty list is left out.
    assert_eq!(kinds(&ack), [0x8002, 0x8004]);
    assert_eq!((init[0].1.len(), ack[0].1.len()), (32, 32));
    assert_ne!(init[0].1, ack[0].1);
    assert_eq!((&init[1].1[..], &init[2].1[..]), (&[0][..], &[0, 3, 0, 1][..]));
}

#[test]
fn supported_extensions_lists_auth() {
    let (pair, ..) = pair(&[], &[]).establish();
    for kind in [kind::INIT, kind::INIT_ACK] {
        let Some(Chunk::Init(init) | Chunk::InitAck(init)) = chunks_of(first(&pair, kind)).into_iter().next()
        else {
            panic!("no INIT")
        };
        let lists = |raw: strandline_wire::parameter::RawParameter<'_>| match raw.parse() {
            Ok(Parameter::SupportedExtensions(kinds)) => kinds.contains(&kind::AUTH),
            _ => false,
        };
        assert!(init.parameters.iter().flatten().any(lists));
    }
}

#[test]
fn it_is_off_by_default() {
    assert_eq!(AssociationConfig::default().extensions.authentication, None);
    let (pair, client, _) = Pair::established();
    assert!(pair.log.iter().all(|sent| parameters(sent).is_empty()));
    assert!(!pair.hosts[CLIENT].endpoint.status(client).unwrap().extensions.authentication);
    assert_eq!(events(&pair, CLIENT), []);
}

#[test]
fn both_sides_must_ask_for_it() {
    let settings = Some(demanding(&[kind::DATA]));
    for (client, server, agreed) in
        [(settings, settings, true), (settings, None, false), (None, settings, false)]
    {
        let mut pair = Pair::with(configured(client, CLIENT), configured(server, SERVER));
        let one = pair.connect();
        pair.run();
        let other = pair.accepted();
        for (host, id, asked) in [(CLIENT, one, client), (SERVER, other, server)] {
            let status = pair.hosts[host].endpoint.status(id).unwrap();
            assert_eq!(status.extensions.authentication, agreed);
            let told = events(&pair, host) == [AuthenticationEvent::NotSupported];
            assert_eq!(told, asked.is_some() && !agreed);
        }
        assert!(exchange(&mut pair, one, other));
    }
}

#[test]
fn section_6_1_faulty_init_is_aborted() {
    for bytes in faulty() {
        let init = Init { parameters: Parameters::new(&bytes), ..init(Tsn(1)) };
        assert_aborts_with(&answer(demanding(&[]), init), |cause| {
            matches!(cause, Cause::ProtocolViolation(_))
        });
    }
}

/// A side without authentication does not look at the parameters.
#[test]
fn faulty_parameters_are_ignored_without_authentication() {
    for bytes in faulty() {
        let mut pair = Pair::new();
        let init = Init { parameters: Parameters::new(&bytes), ..init(Tsn(1)) };
        let sent =
            pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        let ack = pair.wire.pop_front().expect("an INIT ACK");
        assert_eq!(ack.kinds(), [kind::INIT_ACK]);
        assert!(parameters(&ack).is_empty());
    }
}

#[test]
fn section_6_1_faulty_init_ack_is_aborted() {
    for bytes in faulty() {
        let mut pair = Pair::with(configured(Some(demanding(&[])), CLIENT), config(1, SERVER));
        let _ = pair.connect();
        let bytes = [&[0, 7, 0, 8, 1, 2, 3, 4][..], &bytes].concat();
        let sent = answer_init(&mut pair, Init { parameters: Parameters::new(&bytes), ..init(Tsn(1)) });
        assert_aborts_with(&sent[0], |cause| matches!(cause, Cause::ProtocolViolation(_)));
        assert!(matches!(pair.closed(CLIENT), Some(CloseReason::ProtocolViolation(_))));
    }
}

#[test]
fn required_authentication_refuses_others() {
    let settings = Authentication { required: true, ..demanding(&[]) };
    assert_aborts_with(&answer(settings, init(Tsn(1))), |cause| match cause {
        Cause::MissingParameters(missing) => missing.iter().eq([0x8002, 0x8004]),
        _ => false,
    });
    let mut pair = Pair::with(configured(Some(settings), CLIENT), config(1, SERVER));
    let _ = pair.connect();
    pair.run();
    assert!(matches!(pair.closed(CLIENT), Some(CloseReason::ProtocolViolation(_))));
}

/// INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot be demanded (section 3.2).
#[test]
fn section_3_2_configuration_is_checked() {
    for (kind, sound) in
        [(1, false), (2, false), (14, false), (15, false), (0, true), (10, true), (255, true)]
    {
        let extensions =
            ExtensionsConfig { authentication: Some(demanding(&[kind])), ..ExtensionsConfig::default() };
        let config = AssociationConfig { extensions, ..AssociationConfig::default() };
        assert_eq!(config.validate().is_ok(), sound, "{kind}");
    }
}

/// The longest list leaves room for the cookie in the INIT ACK.
#[test]
fn the_longest_lists_fit() {
    let all: Vec<u8> = (0..=u8::MAX).filter(|kind| ![1, 2, 14, 15].contains(kind)).collect();
    let (mut pair, client, server) = pair(&all, &all).establish();
    assert!(exchange(&mut pair, client, server));
    let ack = first(&pair, kind::INIT_ACK);
    let Some(Chunk::InitAck(init)) = chunks_of(ack).into_iter().next() else { panic!("no INIT ACK") };
    assert!(strandline_wire::Encode::value_len(&InitAck(init)) < 1200);
}
