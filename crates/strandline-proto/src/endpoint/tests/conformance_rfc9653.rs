//! RFC 9653: zero checksums. For every packet of every test the harness asserts that the checksum is correct, or zero
//! if the sender is configured so and the packet has neither INIT nor COOKIE ECHO.

use strandline_wire::TlvWriter;
use strandline_wire::chunk::{Abort, Chunk, CookieEcho, Heartbeat, Init, ShutdownAck};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::*;
use super::*;
use crate::association::zero_checksum::ZeroChecksum;
use crate::config::{ErrorDetectionMethod, ExtensionsConfig};

const DTLS: Option<ErrorDetectionMethod> = Some(ErrorDetectionMethod::SctpOverDtls);

/// The parameter on the wire.
const DECLARATION: [u8; 8] = [0x80, 1, 0, 8, 0, 0, 0, 1];

fn configured(zero_checksum: Option<ErrorDetectionMethod>, host: usize) -> EndpointConfig {
    let extensions = ExtensionsConfig { zero_checksum, ..ExtensionsConfig::NONE };
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    EndpointConfig { association, ..config(1, host) }
}

fn pair(client: Option<ErrorDetectionMethod>, server: Option<ErrorDetectionMethod>) -> Pair {
    Pair::with(configured(client, CLIENT), configured(server, SERVER))
}

fn is_zero(sent: &Sent) -> bool {
    Packet::parse(&sent.bytes).unwrap().checksum() == 0
}

/// Sets the packet's checksum to zero.
fn zeroed(mut sent: Sent) -> Sent {
    sent.bytes[8..12].fill(0);
    sent
}

/// Returns the EDMIDs in the packet's INIT or INIT ACK.
fn declared(sent: &Sent) -> Vec<u32> {
    let init = match chunks(sent).into_iter().next() {
        Some(Chunk::Init(init)) => init,
        Some(Chunk::InitAck(ack)) => ack,
        _ => return Vec::new(),
    };
    let edmid = |raw: strandline_wire::parameter::RawParameter<'_>| match raw.parse() {
        Ok(Parameter::ZeroChecksumAcceptable { edmid }) => Some(edmid),
        _ => None,
    };
    init.parameters.iter().flatten().filter_map(edmid).collect()
}

fn first(pair: &Pair, kind: u8) -> &Sent {
    pair.log.iter().find(|sent| has(kind)(sent)).unwrap_or_else(|| panic!("no chunk of type {kind}"))
}

/// Returns the packets in the log from one side.
fn from(pair: &Pair, host: usize) -> Vec<&Sent> {
    pair.log.iter().filter(|sent| sent.source.ip() == address(host, 0).ip()).collect()
}

/// Exchanges messages in both directions, of one packet and of several.
fn exchange(pair: &mut Pair, client: AssociationId, server: AssociationId) {
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        for len in [1, 3000] {
            pair.send(host, id, 0, &vec![7; len]);
            pair.pass(Duration::from_secs(1));
            assert_eq!(pair.recv(to, there).map(|message| message.data.len()), Some(len));
        }
    }
}

/// Sets up an association and returns whether the client's and the server's later packets have zero checksums.
fn outcome(client: Option<ErrorDetectionMethod>, server: Option<ErrorDetectionMethod>) -> (bool, bool) {
    let (mut pair, client, server) = pair(client, server).establish();
    pair.log.clear();
    exchange(&mut pair, client, server);
    let all_or_none = |host| {
        let zeros: Vec<bool> = from(&pair, host).into_iter().map(is_zero).collect();
        assert!(!zeros.is_empty() && zeros.iter().all(|zero| *zero == zeros[0]), "{zeros:?}");
        let (id, sends) = (if host == CLIENT { client } else { server }, zeros[0]);
        assert_eq!(pair.hosts[host].endpoint.status(id).unwrap().sends_zero_checksum, sends);
        sends
    };
    (all_or_none(CLIENT), all_or_none(SERVER))
}

/// A hand-made peer whose INIT has these parameters, with a server of this configuration.
fn raw(parameters: &[u8], server: Option<ErrorDetectionMethod>) -> Raw {
    let pair = pair(None, server);
    Raw::open(pair, Init { parameters: Parameters::new(parameters), ..init(Tsn(1000)) })
}

#[test]
fn section_4_parameter_appears_once_in_init_and_ack() {
    let (mut pair, client, server) = pair(DTLS, DTLS).establish();
    exchange(&mut pair, client, server);
    for sent in &pair.log {
        let set_up = has(kind::INIT)(sent) || has(kind::INIT_ACK)(sent);
        assert_eq!(declared(sent), if set_up { &[1][..] } else { &[] }, "{:?}", sent.kinds());
        let found = sent.bytes.windows(8).filter(|bytes| **bytes == DECLARATION).count();
        assert_eq!(found, usize::from(set_up), "{:?}", sent.kinds());
    }
}

/// A second parameter contradicts the first, so that neither counts. The peer's packets are accepted as usual.
#[test]
fn section_4_repeated_parameter_is_ignored() {
    let mut raw = raw(&[DECLARATION, DECLARATION].concat(), DTLS);
    assert!(raw.server_sends(100).iter().all(|sent| !is_zero(sent)));
    assert!(!raw.server().status(raw.server).unwrap().sends_zero_checksum);
    assert_eq!(sacks(&raw.say_data(&whole(Tsn(1000), 0, b"x"))).len(), 1);
}

#[test]
fn section_4_the_length_must_be_8() {
    for parameter in
        [&[0x80, 1, 0, 4][..], &[0x80, 1, 0, 6, 0, 0, 0, 0], &[0x80, 1, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0]]
    {
        let mut pair = pair(None, DTLS);
        let init = Init { parameters: Parameters::new(parameter), ..init(Tsn(1)) };
        let sent =
            pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        assert_eq!(pair.wire.pop_front().unwrap().kinds(), [kind::ABORT]);
    }
}

/// A peer without the extension skips the parameter and does not report it.
#[test]
fn section_4_unconfigured_peer_skips_the_parameter() {
    let (mut pair, client, server) = pair(DTLS, None).establish();
    assert_eq!(declared(first(&pair, kind::INIT)), [1]);
    let Some(Chunk::InitAck(ack)) = chunks(first(&pair, kind::INIT_ACK)).into_iter().next() else {
        panic!("no INIT ACK")
    };
    let kinds: Vec<u16> = ack.parameters.iter().flatten().map(|raw| raw.kind).collect();
    assert_eq!(kinds, [7], "a State Cookie and no report");
    exchange(&mut pair, client, server);
    assert!(pair.log.iter().all(|sent| !is_zero(sent)));
}

/// The parameter is sent only if the application enables it; by default it is off.
#[test]
fn section_5_1_declaration_needs_the_applications_consent() {
    assert_eq!(AssociationConfig::default().extensions.zero_checksum, None);
    let (mut pair, client, server) = Pair::established();
    exchange(&mut pair, client, server);
    assert!(pair.log.iter().all(|sent| declared(sent).is_empty() && !is_zero(sent)));
    let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
    assert!(!status.accepts_zero_checksum && !status.sends_zero_checksum);
}

/// A configured side declares it whether or not the other side did before.
#[test]
fn section_5_1_init_ack_declares_regardless_of_init() {
    let (pair, ..) = pair(None, DTLS).establish();
    assert_eq!(declared(first(&pair, kind::INIT)), []);
    assert_eq!(declared(first(&pair, kind::INIT_ACK)), [1]);
}

#[test]
fn section_5_2_zero_goes_only_if_both_allow() {
    assert_eq!(outcome(DTLS, DTLS), (true, true));
    assert_eq!(outcome(DTLS, None), (false, false));
    assert_eq!(outcome(None, DTLS), (false, false));
    assert_eq!(outcome(None, None), (false, false));
}

/// An association's own configuration decides, not the endpoint's.
#[test]
fn section_5_2_association_may_differ_from_endpoint() {
    let mut pair = pair(None, DTLS);
    // The harness checks against the endpoint's configuration, so allow it there.
    pair.hosts[CLIENT].endpoint.context.config.association = configured(DTLS, CLIENT).association;
    let remotes = vec![pair.hosts[SERVER].addresses[0]];
    let own = Some(configured(None, CLIENT).association);
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: own };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.run();
    assert_eq!(declared(first(&pair, kind::INIT)), []);
    assert!(!pair.hosts[CLIENT].endpoint.status(client).unwrap().accepts_zero_checksum);
    assert!(pair.log.iter().all(|sent| !is_zero(sent)));
}

/// Rule 1: no unknown method, not even the reserved one.
#[test]
fn section_5_2_rule_1_only_supported_methods() {
    for edmid in [0, 2, 0x0100_0000, u32::MAX] {
        let mut buffer = [0; 8];
        let mut writer = TlvWriter::new(&mut buffer);
        assert!(writer.push(&Parameter::ZeroChecksumAcceptable { edmid }));
        let mut raw = raw(writer.finish(), DTLS);
        assert!(raw.pair.log.iter().all(|sent| !is_zero(sent)), "{edmid}");
        assert!(raw.server_sends(100).iter().all(|sent| !is_zero(sent)), "{edmid}");
        // Our own declaration stays valid.
        assert!(raw.server().status(raw.server).unwrap().accepts_zero_checksum);
    }
}

/// Rules 1 a and 2, and what applies to all other packets: a whole association, with every packet of the set-up lost
/// once.
#[test]
fn section_5_2_only_init_and_cookie_echo_have_checksums() {
    let mut pair = pair(DTLS, DTLS);
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"early");
    let mut lost = Vec::new();
    pair.pass_dropping(Duration::from_secs(20), |sent| {
        let first = sent.kinds()[0];
        let drop = SETUP.contains(&first) && !lost.contains(&first);
        lost.extend(drop.then_some(first));
        drop
    });
    assert_eq!(lost, SETUP);
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "early");
    exchange(&mut pair, client, server);
    pair.pass(Duration::from_secs(100));
    // Heartbeats were answered meanwhile, so the path MTU is probed too.
    exchange(&mut pair, client, server);
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
    let seen: Vec<u8> = pair.log.iter().flat_map(Sent::kinds).collect();
    for kind in
        [kind::DATA, kind::SACK, kind::HEARTBEAT, kind::HEARTBEAT_ACK, kind::PAD, kind::SHUTDOWN_COMPLETE]
    {
        assert!(seen.contains(&kind), "no chunk of type {kind}");
    }
    for sent in &pair.log {
        let checked = has(kind::INIT)(sent) || has(kind::COOKIE_ECHO)(sent);
        assert_eq!(is_zero(sent), !checked, "{:?}", sent.kinds());
    }
}

/// The ABORT of an association is no exception.
#[test]
fn section_5_2_abort_of_the_association_has_none() {
    let (mut pair, client, _) = pair(DTLS, DTLS).establish();
    pair.hosts[CLIENT].endpoint.abort(pair.now, client, "enough".into()).unwrap();
    pair.run();
    assert!(is_zero(first(&pair, kind::ABORT)));
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
}

/// Rule 1 b: answers to out-of-the-blue packets have checksums, although the endpoint uses zero checksums with
/// everybody.
#[test]
fn section_5_2_rule_1_b_oob_replies_have_checksums() {
    let mut pair = pair(DTLS, DTLS);
    let tag = VerificationTag(0x1234);
    let data = whole(Tsn(1), 0, b"x");
    let stray = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(&data)));
    let ack = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(&ShutdownAck)));
    let unheard = Init { parameters: Parameters::new(&DECLARATION), ..init(Tsn(1)) };
    let nobody =
        pair.forge(CLIENT, (RAW_PORT, 9), VerificationTag(0), |packet| assert!(packet.push(&unheard)));
    for (sent, answer) in [(stray, kind::ABORT), (ack, kind::SHUTDOWN_COMPLETE), (nobody, kind::ABORT)] {
        pair.deliver(&sent);
        let got = pair.wire.pop_front().unwrap();
        assert_eq!((got.kinds(), is_zero(&got)), (vec![answer], false));
    }
}

/// After its end an association is out of the blue. The peer, which does not know and still omits checksums, gets an
/// answer with one. A server that lost its state answers too, but not one that never accepted zero checksums.
#[test]
fn section_5_3_oob_without_checksum_is_answered_by_default() {
    for (method, answers) in [(DTLS, true), (None, false)] {
        let (mut pair, client, _) = pair(DTLS, DTLS).establish();
        pair.hosts[SERVER].endpoint = Endpoint::new(configured(method, SERVER), [99; 32], pair.now)
            .expect("the configuration is valid");
        pair.send(CLIENT, client, 0, b"to nobody");
        pair.collect();
        let sent = pair.wire.pop_front().unwrap();
        assert!(is_zero(&sent));
        pair.deliver(&sent);
        assert_eq!(pair.wire.front().map(Sent::kinds), answers.then(|| vec![kind::ABORT]));
        assert!(pair.wire.iter().all(|answer| !is_zero(answer)));
        pair.run();
        assert_eq!(pair.closed(CLIENT).is_some(), answers);
        assert_eq!(pair.hosts[SERVER].endpoint.stats().checksum_errors, u64::from(!answers));
    }
}

/// An association that did not declare is protected from packets without checksum even if others did.
#[test]
fn section_5_3_unknown_tag_is_judged_by_address() {
    let (mut pair, _, server) = pair(None, DTLS).establish();
    pair.hosts[SERVER].endpoint.table.at_mut(0).unwrap().features.zero_checksum = ZeroChecksum::default();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let abort = Abort { tag_reflected: true, causes: strandline_wire::Causes::new(&[]) };
    let sent = pair.forge(CLIENT, (5000, PORT), status.peer_tag, |packet| assert!(packet.push(&abort)));
    pair.deliver(&zeroed(sent.clone()));
    assert_eq!((pair.closed(SERVER), pair.hosts[SERVER].endpoint.stats().checksum_errors), (None, 1));
    pair.deliver(&sent);
    assert!(pair.closed(SERVER).is_some());
}

/// A Stale Cookie error finds no association either. The following set-up declares anew.
#[test]
fn section_5_2_stale_cookie_error_has_a_checksum() {
    let change = |config: &mut AssociationConfig| {
        config.extensions.zero_checksum = DTLS;
        config.cookie_lifetime = Duration::from_millis(100);
    };
    let mut pair = Pair::configured(change);
    let client = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    pair.now += Duration::from_millis(300);
    pair.run();
    assert!(!is_zero(first(&pair, kind::ERROR)));
    let inits: Vec<_> = pair.log.iter().filter(|sent| has(kind::INIT)(sent)).map(declared).collect();
    assert_eq!(inits, [[1], [1]]);
    let server = pair.accepted();
    exchange(&mut pair, client, server);
    assert!(pair.hosts[CLIENT].endpoint.status(client).unwrap().sends_zero_checksum);
}

/// After a declaration, zero is accepted besides correct checksums; anything else is dropped.
#[test]
fn section_5_3_declarer_accepts_zero_and_valid_checksums() {
    let mut raw = raw(&[], DTLS);
    let packet = |raw: &Raw, tsn: u32| {
        let data = whole(Tsn(tsn), (tsn - 1000) as u16, b"data");
        raw.pair.forge(CLIENT, (RAW_PORT, PORT), raw.tag, |packet| assert!(packet.push(&data)))
    };
    for (sent, taken) in [
        (zeroed(packet(&raw, 1000)), true),
        (packet(&raw, 1001), true),
        (Sent { bytes: with_checksum(&packet(&raw, 1002), 1), ..packet(&raw, 1002) }, false),
        (Sent { bytes: with_checksum(&packet(&raw, 1002), u32::MAX), ..packet(&raw, 1002) }, false),
        (zeroed(packet(&raw, 1002)), true),
    ] {
        let before = raw.server().stats();
        raw.pair.deliver(&sent);
        raw.pair.wire.clear();
        assert_eq!(raw.read().len(), usize::from(taken));
        let after = raw.server().stats();
        assert_eq!(after.checksum_errors - before.checksum_errors, u64::from(!taken));
        let zero = u64::from(taken && is_zero(&sent));
        assert_eq!(after.zero_checksums_received - before.zero_checksums_received, zero);
    }
}

fn with_checksum(sent: &Sent, checksum: u32) -> Vec<u8> {
    let mut bytes = sent.bytes.clone();
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Without our declaration zero is not accepted, whatever the peer declared.
#[test]
fn section_5_3_others_drop_zero_checksums() {
    for parameters in [&[][..], &DECLARATION] {
        let mut raw = raw(parameters, None);
        let data = whole(Tsn(1000), 0, b"data");
        let sent = raw.pair.forge(CLIENT, (RAW_PORT, PORT), raw.tag, |packet| assert!(packet.push(&data)));
        raw.pair.deliver(&zeroed(sent));
        assert_eq!(raw.read().len(), 0);
        let stats = raw.server().stats();
        assert_eq!((stats.checksum_errors, stats.zero_checksums_received), (1, 0));
    }
}

/// A declaration at set-up stays valid when the configuration changes later.
#[test]
fn section_5_3_declaration_lasts_for_the_association() {
    let (mut pair, client, server) = pair(DTLS, DTLS).establish();
    let without = configured(None, SERVER).association;
    pair.hosts[SERVER].endpoint.configure(pair.now, server, without).unwrap();
    exchange(&mut pair, client, server);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().checksum_errors, 0);
}

/// INIT and COOKIE ECHO are processed before there is an association and need their checksum.
#[test]
fn section_5_3_init_and_cookie_echo_need_checksums() {
    let mut pair = pair(DTLS, DTLS);
    let init = Init { parameters: Parameters::new(&DECLARATION), ..init(Tsn(1)) };
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&zeroed(sent.clone()));
    assert!(pair.wire.is_empty());
    pair.deliver(&sent);
    let (tag, _, cookie) = init_ack(&pair.wire.pop_front().unwrap());
    let echo = CookieEcho { cookie: &cookie };
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(&echo)));
    pair.deliver(&zeroed(sent.clone()));
    assert!(pair.wire.is_empty() && pair.hosts[SERVER].endpoint.association_count() == 0);
    pair.deliver(&sent);
    assert_eq!(pair.wire.pop_front().unwrap().kinds(), [kind::COOKIE_ACK]);
    // Again, for the existing association.
    pair.deliver(&zeroed(sent));
    assert!(pair.wire.is_empty());
    assert_eq!(pair.hosts[SERVER].endpoint.stats().checksum_errors, 3);
}

/// The peer may use it from its INIT ACK on.
#[test]
fn section_5_3_init_ack_without_checksum_is_accepted() {
    for (method, state) in [(DTLS, "COOKIE-ECHOED"), (None, "COOKIE-WAIT")] {
        let mut pair = pair(method, None);
        let client = pair.connect();
        let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
        let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
        let sent = zeroed(forge_init_ack(&mut pair, ack));
        pair.deliver(&sent);
        assert_eq!(pair.state(CLIENT, client), state);
    }
}

/// Figure 1: zero is the correct checksum of this INIT, so everybody accepts it.
#[test]
fn section_3_valid_checksum_of_zero_is_valid() {
    let init = [1, 0, 0, 20, 0xfc, 0xb7, 0x5c, 0xca, 0, 0, 5, 0xdc, 0, 1, 0, 1, 0, 0, 0, 0];
    let bytes = packet_of((5001, 5001), VerificationTag(0), &init);
    assert_eq!(bytes[8..12], [0; 4]);
    let mut pair = Pair::new();
    pair.hosts[SERVER].endpoint.listen(5001).unwrap();
    pair.deliver(&Sent {
        source: address(CLIENT, 0),
        destination: address(SERVER, 0),
        bytes,
        fragment: false,
    });
    assert_eq!(pair.wire.pop_front().unwrap().kinds(), [kind::INIT_ACK]);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().zero_checksums_received, 0);
}

/// A restart is a new set-up: the new declaration counts.
#[test]
fn section_5_a_restart_declares_anew() {
    for (before, after) in [(DTLS, None), (None, DTLS), (DTLS, DTLS)] {
        let (mut pair, _, server) = pair(before, DTLS).establish();
        let mut endpoint = Endpoint::new(configured(after, CLIENT), [99; 32], pair.now).unwrap();
        endpoint.listen(PORT).unwrap();
        pair.hosts[CLIENT].endpoint = endpoint;
        let client = pair.connect();
        pair.run();
        assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 1);
        pair.log.clear();
        exchange(&mut pair, client, server);
        let zero = after.is_some();
        assert!(pair.log.iter().all(|sent| is_zero(sent) == zero), "{before:?} {after:?}");
        assert_eq!(pair.hosts[SERVER].endpoint.status(server).unwrap().sends_zero_checksum, zero);
        for host in &pair.hosts {
            assert_eq!(host.endpoint.stats().checksum_errors, 0);
        }
    }
}

#[test]
fn section_5_a_collision_agrees_as_well() {
    for (one, other) in [(DTLS, DTLS), (DTLS, None), (None, DTLS)] {
        let mut pair = pair(one, other);
        let mut ids = Vec::new();
        for host in [CLIENT, SERVER] {
            let remotes = vec![pair.hosts[1 - host].addresses[0]];
            let request =
                Connect { local_port: PORT, peer_port: PORT, remotes, local: Vec::new(), config: None };
            ids.push(pair.hosts[host].endpoint.connect(pair.now, request).unwrap());
        }
        pair.pass(Duration::from_secs(1));
        assert_eq!((pair.state(CLIENT, ids[0]), pair.state(SERVER, ids[1])), ("ESTABLISHED", "ESTABLISHED"));
        pair.log.clear();
        exchange(&mut pair, ids[0], ids[1]);
        let zero = one == other;
        assert!(pair.log.iter().all(|sent| is_zero(sent) == zero), "{one:?} {other:?}");
        for host in &pair.hosts {
            assert_eq!(host.endpoint.stats().checksum_errors, 0);
        }
    }
}

/// Each side counts what it sent and what it accepted.
#[test]
fn zero_checksums_are_counted_on_both_sides() {
    let (mut pair, client, server) = pair(DTLS, DTLS).establish();
    exchange(&mut pair, client, server);
    let heartbeat = Heartbeat { info: b"anything" };
    let tag = pair.hosts[SERVER].endpoint.status(server).unwrap().local_tag;
    let sent = zeroed(pair.forge(CLIENT, (5000, PORT), tag, |packet| assert!(packet.push(&heartbeat))));
    let sent_by =
        |pair: &Pair, host| from(pair, host).into_iter().filter(|sent| is_zero(sent)).count() as u64;
    for host in [CLIENT, SERVER] {
        let stats = pair.hosts[host].endpoint.stats();
        assert_eq!(stats.zero_checksums_sent, sent_by(&pair, host));
        assert_eq!(stats.zero_checksums_received, sent_by(&pair, 1 - host));
    }
    let before = pair.hosts[SERVER].endpoint.stats().zero_checksums_received;
    pair.deliver(&sent);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().zero_checksums_received, before + 1);
}
