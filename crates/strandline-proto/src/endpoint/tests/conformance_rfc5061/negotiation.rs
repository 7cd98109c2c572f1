//! What both sides declare (section 4.2.7), and peers without authentication (section 6).

use strandline_wire::cause::Cause;
use strandline_wire::chunk::Init;
use strandline_wire::number::Tsn;

use super::*;

/// Returns the chunk types in Supported Extensions and in CHUNKS of the INIT or INIT ACK in a packet.
fn declared(sent: &Sent) -> (Vec<u8>, Vec<u8>) {
    let init = match chunks(sent).into_iter().next() {
        Some(Chunk::Init(init) | Chunk::InitAck(init)) => init,
        other => panic!("{other:?}"),
    };
    let (mut extensions, mut demanded) = (Vec::new(), Vec::new());
    for raw in init.parameters.iter().flatten() {
        match raw.parse().unwrap() {
            Parameter::SupportedExtensions(list) => extensions = list.to_vec(),
            Parameter::ChunkList(list) => demanded = list.to_vec(),
            _ => {}
        }
    }
    (extensions, demanded)
}

fn first(pair: &Pair, kind: u8) -> &Sent {
    pair.log.iter().find(|sent| has(kind)(sent)).unwrap_or_else(|| panic!("no chunk of type {kind}"))
}

#[test]
fn init_and_init_ack_list_the_chunks() {
    let (pair, client, server) = established();
    for kind in [kind::INIT, kind::INIT_ACK] {
        let (extensions, demanded) = declared(first(&pair, kind));
        assert!(EXTENSIONS.iter().all(|kind| extensions.contains(kind)), "{extensions:?}");
        assert!([kind::ASCONF, kind::ASCONF_ACK].iter().all(|kind| demanded.contains(kind)), "{demanded:?}");
    }
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let agreed = pair.hosts[host].endpoint.status(id).unwrap().extensions;
        assert!(agreed.dynamic_addresses && agreed.authentication);
    }
}

/// Off by default: nothing is listed, and requests are refused.
#[test]
fn nothing_is_declared_unless_asked_for() {
    for paths in [(false, false), (true, false), (false, true)] {
        let with = |on, host| if on { with_dynamic_addresses(1, host) } else { config(1, host) };
        let (mut pair, client, server) = Pair::with(with(paths.0, CLIENT), with(paths.1, SERVER)).establish();
        let (extensions, _) = declared(first(&pair, kind::INIT));
        assert_eq!(extensions.contains(&kind::ASCONF), paths.0);
        let (extensions, _) = declared(first(&pair, kind::INIT_ACK));
        assert!(!extensions.contains(&kind::ASCONF) && !extensions.contains(&kind::ASCONF_ACK));
        for (host, id) in [(CLIENT, client), (SERVER, server)] {
            let asked = request(&mut pair, host, id, &[AddressRequest::Add(new_address(host, 0).ip())]);
            assert_eq!(asked, Err(AddressError::NotSupported));
        }
    }
}

/// A peer that restarts and lists ASCONF without authentication, but supported neither before, is refused as well.
#[test]
fn restart_without_authentication_is_refused() {
    let pair = Pair::with(config(1, CLIENT), with_dynamic_addresses(1, SERVER));
    let mut raw = Raw::open(pair, init(Tsn(1000)));
    let listed = conformance_rfc4895::encode(&[Parameter::SupportedExtensions(&EXTENSIONS)]);
    for (parameters, answer) in [(&listed[..], kind::ABORT), (&[][..], kind::INIT_ACK)] {
        let parameters = Parameters::new(parameters);
        let init = Init { initiate_tag: VerificationTag(9), parameters, ..init(Tsn(1)) };
        let ports = (RAW_PORT, PORT);
        let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        raw.pair.deliver(&sent);
        assert_eq!(raw.heard()[0].kinds(), [answer]);
    }
}

/// An INIT that lists ASCONF and has no parameters of RFC 4895 is answered with an ABORT (section 6).
#[test]
fn peer_without_authentication_is_refused() {
    let listed = conformance_rfc4895::encode(&[Parameter::SupportedExtensions(&EXTENSIONS)]);
    let init = Init { parameters: Parameters::new(&listed), ..init(Tsn(1)) };
    let mut pair = Pair::with(config(1, CLIENT), with_dynamic_addresses(1, SERVER));
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let answer = pair.wire.pop_front().expect("an answer");
    let Some(Chunk::Abort(abort)) = chunks(&answer).into_iter().next() else {
        panic!("{:?}", answer.kinds())
    };
    let cause = abort.causes.iter().next().unwrap().unwrap();
    assert!(matches!(cause.parse(), Ok(Cause::MissingParameters(_))), "{cause:?}");
    // Without dynamic addresses on this side, what the peer supports does not matter.
    let mut pair = Pair::with(config(1, CLIENT), config(1, SERVER));
    pair.deliver(&sent);
    assert_eq!(pair.wire.pop_front().expect("an answer").kinds(), [kind::INIT_ACK]);
}

/// An INIT ACK like that is not answered with a COOKIE ECHO, and the set-up ends (section 6).
#[test]
fn init_ack_without_authentication_ends_the_set_up() {
    let mut pair = Pair::with(with_dynamic_addresses(1, CLIENT), config(1, SERVER));
    let client = pair.connect();
    let cookie = [1; 4];
    let listed = [Parameter::StateCookie(&cookie), Parameter::SupportedExtensions(&EXTENSIONS)];
    let listed = conformance_rfc4895::encode(&listed);
    let sent = answer_init(&mut pair, Init { parameters: Parameters::new(&listed), ..init(Tsn(1)) });
    assert!(!sent.iter().any(has(kind::COOKIE_ECHO)));
    assert_eq!(pair.state(CLIENT, client), "CLOSED");
    assert!(matches!(pair.closed(CLIENT), Some(CloseReason::ProtocolViolation(_))));
}

/// Both chunks are authenticated even if the peer does not list them in CHUNKS (section 4.1).
#[test]
fn chunks_are_authenticated_whatever_the_peer_lists() {
    let more = [Parameter::SupportedExtensions(&EXTENSIONS)];
    let pair = Pair::with(config(1, CLIENT), with_dynamic_addresses(1, SERVER));
    let mut peer = conformance_rfc4895::Peer::open_with(pair, &[], HmacIdentifiers::SHA1, &more);
    let (id, new) = (peer.raw.server, new_address(SERVER, 0));
    request(&mut peer.raw.pair, SERVER, id, &[AddressRequest::Add(new.ip())]).unwrap();
    let sent = peer.raw.heard();
    assert_eq!(sent.iter().map(Sent::kinds).collect::<Vec<_>>(), [[kind::AUTH, kind::ASCONF]]);
}

/// The State Cookie keeps the agreement, also of a peer that restarts.
#[test]
fn restart_agrees_again() {
    let (mut pair, client, server) = established();
    let new = new_address(SERVER, 0);
    gain(&mut pair, SERVER, new);
    request(&mut pair, SERVER, server, &[AddressRequest::Add(new.ip())]).unwrap();
    pair.collect();
    pair.wire.clear();
    // The client loses its state.
    let fresh = with_dynamic_addresses(1, CLIENT);
    pair.hosts[CLIENT].endpoint = Endpoint::new(fresh, [77; 32], pair.now).unwrap();
    let again = pair.connect();
    let _ = client;
    pair.run();
    assert_eq!(pair.state(CLIENT, again), "ESTABLISHED");
    assert_eq!(outcomes(&pair, SERVER), [(AddressRequest::Add(new.ip()), AddressOutcome::Failed)]);
    let delete = AddressRequest::Delete(address(SERVER, 0).ip());
    pair.pass(Duration::from_secs(5));
    request(&mut pair, SERVER, server, &[delete]).unwrap();
    pair.pass(Duration::from_secs(5));
    assert_eq!(outcomes(&pair, SERVER)[1].0, delete);
    pair.send(SERVER, server, 0, b"after the restart");
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.recv(CLIENT, again).unwrap().data, "after the restart");
}

/// Returns the address of the primary path.
fn primary(pair: &Pair, host: usize, id: AssociationId) -> SocketAddr {
    let paths = pair.hosts[host].endpoint.paths(id).unwrap();
    paths.iter().find(|path| path.primary).unwrap().address
}

/// Section 4.2.4: an INIT asks for a primary address, which is followed once the address is confirmed. The State Cookie
/// keeps the wish. Without dynamic addresses the parameter is reported as unrecognised.
#[test]
fn init_asks_for_a_primary_address() {
    let wanted = address(CLIENT, 1);
    let IpAddr::V4(listed) = wanted.ip() else { panic!("{wanted}") };
    for (named, expected) in [(wanted, wanted), (new_address(CLIENT, 3), address(CLIENT, 0))] {
        let bytes = encode(&[set_primary(1, named)]);
        let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
        let more = [
            Parameter::SupportedExtensions(&EXTENSIONS),
            Parameter::Ipv4Address(listed),
            Parameter::Unknown(raw),
        ];
        let pair = Pair::with(config(1, CLIENT), with_dynamic_addresses(1, SERVER));
        let chunks = [kind::ASCONF, kind::ASCONF_ACK];
        let inner = conformance_rfc4895::Peer::open_with(pair, &chunks, HmacIdentifiers::SHA1, &more);
        let mut peer = Peer { inner, number: 1000 };
        let id = peer.id();
        assert_eq!(primary(peer.pair(), SERVER, id), address(CLIENT, 0), "it is not confirmed");
        peer.confirm(wanted);
        assert_eq!(primary(peer.pair(), SERVER, id), expected);
    }
    let bytes = encode(&[set_primary(1, wanted)]);
    for known in [false, true] {
        let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
        let listed = conformance_rfc4895::encode(&[Parameter::Unknown(raw)]);
        let init = Init { parameters: Parameters::new(&listed), ..init(Tsn(1)) };
        let server = if known { with_dynamic_addresses(1, SERVER) } else { config(1, SERVER) };
        let mut pair = Pair::with(config(1, CLIENT), server);
        let sent =
            pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().expect("an answer");
        let Some(Chunk::InitAck(ack)) = chunks(&answer).into_iter().next() else { panic!("no INIT ACK") };
        let reported = ack.parameters.iter().flatten().any(|raw| raw.value.starts_with(&bytes));
        assert!(reported, "the peer does not support dynamic addresses");
    }
}

/// An INIT ACK with the same wish, for an address that the application gave and that is confirmed therefore.
#[test]
fn init_ack_asks_for_a_primary_address() {
    let mut pair = Pair::with(with_dynamic_addresses(1, CLIENT), config(2, SERVER));
    let [first, second] = [0, 1].map(|path| address(SERVER, path));
    let remotes = vec![first, second];
    let request = Connect { local_port: 5000, remotes, ..Connect::to(first, PORT) };
    let now = pair.now;
    let client = pair.hosts[CLIENT].endpoint.connect(now, request).unwrap();
    let IpAddr::V4(listed) = second.ip() else { panic!("{second}") };
    let bytes = encode(&[set_primary(1, second)]);
    let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
    let parameters = conformance_rfc4895::encode(&[
        Parameter::StateCookie(&[1; 4]),
        Parameter::SupportedExtensions(&EXTENSIONS),
        Parameter::Random(&[7; 32]),
        Parameter::ChunkList(&[kind::ASCONF, kind::ASCONF_ACK]),
        Parameter::HmacAlgo(HmacIdentifiers::SHA1),
        Parameter::Ipv4Address(listed),
        Parameter::Unknown(raw),
    ]);
    answer_init(&mut pair, Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) });
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
    assert_eq!(primary(&pair, CLIENT, client), second);
}

/// Section 4.2.7: an INIT or INIT ACK has one Supported Extensions Parameter, whatever it lists.
#[test]
fn section_4_2_7_extensions_are_listed_once() {
    let everything = |host| {
        let extensions = ExtensionsConfig {
            dynamic_addresses: true,
            interleaving: true,
            partial_reliability: true,
            stream_reconfiguration: true,
            nr_sack: true,
            stream_credit: Some(Default::default()),
            adaptation_layer: Some(1),
            ..ExtensionsConfig::default()
        };
        let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
        EndpointConfig { association, ..config(2, host) }
    };
    let (pair, ..) = Pair::with(everything(CLIENT), everything(SERVER)).establish();
    for kind in [kind::INIT, kind::INIT_ACK] {
        let init = match chunks(first(&pair, kind)).into_iter().next() {
            Some(Chunk::Init(init) | Chunk::InitAck(init)) => init,
            other => panic!("{other:?}"),
        };
        let listed = strandline_wire::parameter::kind::SUPPORTED_EXTENSIONS;
        assert_eq!(init.parameters.iter().flatten().filter(|raw| raw.kind == listed).count(), 1);
        assert!(declared(first(&pair, kind)).0.len() >= 8);
    }
}
