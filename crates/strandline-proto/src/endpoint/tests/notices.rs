//! ADAPTATION INDICATION (RFC 5061 section 4.2.6) and SENDER DRY (RFC 6458 section 6.1.9).

use strandline_wire::Init;
use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameters;

use super::*;
use crate::config::ExtensionsConfig;
use crate::endpoint::DryReports;
use crate::reliability::Reliability;

fn adapted(adaptation_layer: Option<u32>, host: usize) -> EndpointConfig {
    let extensions = ExtensionsConfig { adaptation_layer, ..ExtensionsConfig::default() };
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    EndpointConfig { association, ..config(1, host) }
}

/// Returns the code points that one side was told of, and forgets its events.
fn told(pair: &mut Pair, host: usize) -> Vec<u32> {
    let of = |(_, event): (AssociationId, Event)| match event {
        Event::AdaptationLayer { code_point } => Some(code_point),
        _ => None,
    };
    pair.hosts[host].events.drain(..).filter_map(of).collect()
}

#[test]
fn adaptation_layers_are_indicated() {
    for (client, server) in [(None, None), (Some(7), None), (None, Some(u32::MAX)), (Some(0), Some(9))] {
        let mut pair = Pair::with(adapted(client, CLIENT), adapted(server, SERVER));
        let id = pair.connect();
        pair.run();
        assert_eq!(pair.state(CLIENT, id), "ESTABLISHED");
        let established = |(_, event): &(AssociationId, Event)| matches!(event, Event::Established { .. });
        assert!(pair.hosts.iter().all(|host| host.events.first().is_some_and(established)));
        assert_eq!(told(&mut pair, SERVER), client.into_iter().collect::<Vec<_>>());
        assert_eq!(told(&mut pair, CLIENT), server.into_iter().collect::<Vec<_>>());
        assert_eq!(pair.hosts[CLIENT].endpoint.status(id).unwrap().extensions.adaptation_layer, server);
        // Neither reports the parameter as unrecognised.
        assert!(!pair.log.iter().any(has(kind::ERROR)));
    }
}

/// A peer that restarts may have another one, or none.
#[test]
fn restarts_indicate_adaptation_layers_anew() {
    let (mut pair, ..) = Pair::with(adapted(Some(1), CLIENT), adapted(Some(2), SERVER)).establish();
    for (code_point, seed) in [(Some(3), 70), (None, 71)] {
        pair.hosts[CLIENT].endpoint =
            Endpoint::new(adapted(code_point, CLIENT), [seed; 32], pair.now).unwrap();
        let id = pair.connect();
        pair.run();
        assert_eq!(pair.state(CLIENT, id), "ESTABLISHED");
        assert_eq!(told(&mut pair, SERVER), code_point.into_iter().collect::<Vec<_>>());
        assert_eq!(told(&mut pair, CLIENT), [2]);
    }
}

/// One of a wrong length is refused like any other parameter.
#[test]
fn adaptation_layer_of_wrong_length_is_refused() {
    let mut pair = Pair::new();
    let parameters = [0xc0, 6, 0, 6, 1, 2, 0, 0];
    let init = Init { parameters: Parameters::new(&parameters), ..raw::init(Tsn(1)) };
    let sent = pair.forge(CLIENT, (6000, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    assert_eq!(pair.wire[0].kinds(), [kind::ABORT]);
}

/// Returns how often one side was told that everything is acknowledged, and forgets its events.
fn dry(pair: &mut Pair, host: usize) -> usize {
    pair.hosts[host].events.drain(..).filter(|(_, event)| *event == Event::SenderDry).count()
}

/// Asks for reports before there is anything to report.
fn ask(pair: &mut Pair, host: usize, id: AssociationId) {
    let endpoint = &mut pair.hosts[host].endpoint;
    DryReports::On.set(endpoint, id).unwrap();
    while endpoint.poll_event().is_some() {}
}

#[test]
fn sender_is_dry_once_all_is_acknowledged() {
    let (mut pair, client, server) = Pair::established();
    ask(&mut pair, CLIENT, client);
    ask(&mut pair, SERVER, server);
    pair.send(CLIENT, client, 0, &[7; 100_000]);
    pair.collect();
    pair.collect();
    assert_eq!(dry(&mut pair, CLIENT), 0, "on its way");
    pair.pass(Duration::from_secs(2));
    assert_eq!((dry(&mut pair, CLIENT), dry(&mut pair, SERVER)), (1, 0));
    pair.pass(Duration::from_secs(60));
    assert_eq!(dry(&mut pair, CLIENT), 0, "no news");
    pair.send(CLIENT, client, 0, b"more");
    pair.pass(Duration::from_secs(1));
    assert_eq!(dry(&mut pair, CLIENT), 1);
    while pair.recv(SERVER, server).is_some() {}
}

/// Nobody is told who has not asked, and whoever asks learns at once that there is nothing.
#[test]
fn asking_when_dry_is_answered_at_once() {
    let (mut pair, client, _) = Pair::established();
    pair.send(CLIENT, client, 0, b"not asked");
    pair.pass(Duration::from_secs(1));
    assert_eq!(dry(&mut pair, CLIENT), 0);
    for expected in [1, 0] {
        DryReports::On.set(&mut pair.hosts[CLIENT].endpoint, client).unwrap();
        pair.collect();
        assert_eq!(dry(&mut pair, CLIENT), expected);
    }
    DryReports::Off.set(&mut pair.hosts[CLIENT].endpoint, client).unwrap();
    pair.send(CLIENT, client, 0, b"not asked");
    pair.pass(Duration::from_secs(1));
    assert_eq!(dry(&mut pair, CLIENT), 0);
}

/// What is abandoned waits no more.
#[test]
fn abandoned_messages_leave_a_dry_sender() {
    let (mut pair, client, _) = Pair::established();
    ask(&mut pair, CLIENT, client);
    let mut info = SendInfo::on(StreamId(0));
    info.reliability = Reliability::lifetime(Duration::from_millis(300));
    pair.hosts[CLIENT].endpoint.send(pair.now, client, info, vec![7; 3000].into()).unwrap();
    pair.pass_dropping(Duration::from_millis(500), has(kind::DATA));
    pair.pass(Duration::from_secs(5));
    assert_eq!(dry(&mut pair, CLIENT), 1);
}

/// COMMUNICATION ERROR: the cause's content is reported as the peer sent it, up to a limit.
#[test]
fn error_causes_are_reported_with_their_content() {
    let mut raw = raw::Raw::new();
    raw.heard();
    raw.pair.hosts[SERVER].events.clear();
    let long = [7; 300];
    let mut causes = vec![0, 77, 0, 7, b'w', b'h', b'y', 0, 0, 6, 0, 8, 0xfe, 1, 0, 4, 1, 44];
    causes.extend([1, 48].iter().chain(&long));
    let value: &[u8] = &causes;
    raw.say_all(&[&raw::AnyChunk { kind: kind::ERROR, flags: 0, value }]);
    let of = |(_, event): &(AssociationId, Event)| match event {
        Event::PeerError { code, data } => Some((*code, data.to_vec())),
        _ => None,
    };
    let told: Vec<_> = raw.pair.hosts[SERVER].events.iter().filter_map(of).collect();
    assert_eq!(told, [(77, b"why".to_vec()), (6, vec![0xfe, 1, 0, 4]), (300, vec![7; 256])]);
    assert_eq!(raw.state(), "ESTABLISHED");
}
