//! Settings that change during an association: loss recovery, and the controller of one path.

use super::raw::*;
use super::*;
use crate::config::Recovery;
use crate::congestion::Algorithm;
use crate::error::PathError;
use strandline_wire::number::Tsn;

const FULL: usize = 1224;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server with this recovery and a hand-made peer.
fn with(recovery: Recovery) -> Raw {
    let change = |config: &mut AssociationConfig| {
        config.recovery = recovery;
        config.congestion = Algorithm::Rfc9260;
        config.path_mtu_max = config.path_mtu_initial;
        config.heartbeat_interval = None;
        config.burst_max = 0;
    };
    Raw::open(Pair::configured(change), init(Tsn(1000)))
}

fn set(raw: &mut Raw, recovery: Recovery) {
    let config = raw.server().context.config.association.as_ref().clone();
    let now = raw.pair.now;
    let config = Arc::new(AssociationConfig { recovery, ..config });
    raw.pair.hosts[SERVER].endpoint.configure(now, raw.server, config).unwrap();
}

fn give(raw: &mut Raw, messages: usize) -> Vec<Sent> {
    for _ in 0..messages {
        raw.pair.send(SERVER, raw.server, 0, &[0x55; FULL]);
    }
    raw.heard()
}

/// Runs one measured round trip of 40 ms: chunk `number` is sent and acknowledged.
fn round_trip(raw: &mut Raw, number: u32) {
    assert_eq!(tsns(&give(raw, 1)).len(), 1);
    raw.pair.now += ms(40);
    raw.say_sack(number + 1, 1 << 20, &[]);
}

/// Returns the server's counts of probes and time-outs.
fn probes(raw: &Raw) -> (u32, u32) {
    let stats = raw.server().status(raw.server).unwrap().stats;
    (stats.tail_probes, stats.timeouts)
}

/// A change from RACK to miss indications while data is outstanding: that data is still probed for, and data sent
/// after everything was acknowledged is not.
#[test]
fn another_recovery_holds_from_when_nothing_is_outstanding() {
    let mut raw = with(Recovery::Rack);
    round_trip(&mut raw, 0);
    give(&mut raw, 2);
    set(&mut raw, Recovery::Rfc9260);
    raw.wait(ms(400));
    assert_eq!(probes(&raw).0, 2, "the tail is probed for as it was begun");
    // One of two is acknowledged, so something is still outstanding.
    raw.say_sack(2, 1 << 20, &[]);
    raw.wait(ms(400));
    assert!(probes(&raw).0 > 2);
    raw.say_sack(3, 1 << 20, &[]);
    let before = probes(&raw);
    give(&mut raw, 2);
    raw.wait(ms(900));
    assert_eq!(probes(&raw), before, "no probe any more");
    raw.wait(ms(300));
    assert_eq!(probes(&raw), (before.0, before.1 + 1), "T3-rtx");
}

/// A change from miss indications to RACK: outstanding data is not probed for, and its third miss indication counts.
#[test]
fn and_the_other_way_round() {
    let mut raw = with(Recovery::Rfc9260);
    round_trip(&mut raw, 0);
    let sent = give(&mut raw, 20);
    assert!(tsns(&sent).len() >= 4);
    set(&mut raw, Recovery::Rack);
    assert!(raw.wait(ms(400)).is_empty(), "no probe");
    raw.say_sack(1, 1 << 20, &[(2, 2)]);
    assert!(tsns(&raw.say_sack(1, 1 << 20, &[(2, 2)])).is_empty());
    raw.say_sack(1, 1 << 20, &[(2, 3)]);
    let third = raw.say_sack(1, 1 << 20, &[(2, 4)]);
    assert_eq!(tsns(&third)[0][0], raw.server_tsn + 1);
    // All of it is acknowledged: from now on by time.
    let mut next = 21;
    raw.say_sack(5, 1 << 20, &[]);
    for acked in 6..=next {
        raw.pair.now += ms(40);
        raw.say_sack(acked, 1 << 20, &[]);
    }
    assert_eq!(raw.server().status(raw.server).unwrap().in_flight, 0);
    round_trip(&mut raw, next);
    next += 1;
    assert_eq!(tsns(&give(&mut raw, 1)), [[raw.server_tsn + next]]);
    raw.wait(ms(900));
    assert!(probes(&raw).0 > 0);
}

/// With nothing outstanding the change applies at once, even if nothing was ever sent.
#[test]
fn with_nothing_outstanding_it_holds_at_once() {
    for early in [true, false] {
        let mut raw = with(Recovery::Rack);
        if early {
            set(&mut raw, Recovery::Rfc9260);
        }
        round_trip(&mut raw, 0);
        if !early {
            set(&mut raw, Recovery::Rfc9260);
        }
        give(&mut raw, 1);
        raw.wait(ms(900));
        assert_eq!(probes(&raw), (0, 0));
    }
}

/// During a recovery only the new controller's own window counts.
#[test]
fn another_controller_in_the_middle_of_a_recovery() {
    for (before, after) in [
        (Algorithm::Bbr, Algorithm::Cubic),
        (Algorithm::Cubic, Algorithm::Rfc9260),
        (Algorithm::Swift, Algorithm::Bbr),
        (Algorithm::Rfc9260, Algorithm::Swift),
    ] {
        let mut raw = with(Recovery::Rack);
        let address = address(CLIENT, 0).ip();
        let choose = |raw: &mut Raw, algorithm| {
            let (now, server) = (raw.pair.now, raw.server);
            let endpoint = &mut raw.pair.hosts[SERVER].endpoint;
            endpoint.set_path_congestion(now, server, address, Some(algorithm)).unwrap();
        };
        choose(&mut raw, before);
        give(&mut raw, 500);
        let sent = |raw: &Raw| 500 - raw.server().status(raw.server).unwrap().pending_messages as u32;
        let mut acked = 0;
        for _ in 0..4 {
            raw.wait(ms(39));
            acked = sent(&raw);
            raw.say_sack(acked, 1 << 20, &[]);
        }
        raw.wait(ms(39));
        let in_flight = (sent(&raw) - acked) as u16;
        assert!(in_flight >= 8, "{before:?}: {in_flight}");
        raw.say_sack(acked, 1 << 20, &[(3, in_flight)]);
        raw.wait(ms(15));
        assert!(raw.server().status(raw.server).unwrap().in_fast_recovery, "{before:?}");
        choose(&mut raw, after);
        for _ in 0..4 {
            raw.wait(ms(10));
            raw.say_sack(acked, 1 << 20, &[(3, (sent(&raw) - acked) as u16)]);
        }
        assert_eq!(raw.server().paths(raw.server).unwrap()[0].congestion, after.name());
        // The transfer continues to its end.
        let mut rounds = 0;
        while raw.server().status(raw.server).unwrap().send_buffered > 0 {
            raw.wait(ms(39));
            raw.say_sack(sent(&raw), 1 << 20, &[]);
            rounds += 1;
            assert!(rounds < 400, "{before:?} to {after:?} stands still");
        }
    }
}

/// An association without negotiated ECN cannot use DCTCP, nor can one of its paths. The old controller stays.
#[test]
fn dctcp_needs_what_is_agreed_at_set_up() {
    for (ecn, taken) in [(false, false), (true, true)] {
        let (mut pair, client, _) = Pair::configured(|config| config.extensions.ecn = ecn).establish();
        let mut config = AssociationConfig { congestion: Algorithm::Dctcp, ..AssociationConfig::default() };
        config.extensions.ecn = ecn;
        let now = pair.now;
        let outcome = pair.hosts[CLIENT].endpoint.configure(now, client, Arc::new(config));
        assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
        let name = pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].congestion;
        assert_eq!(name, if taken { "dctcp" } else { "cubic" });
    }
    // If DCTCP was requested at set-up it may be set again, whatever the peer answered.
    let client = EndpointConfig {
        association: Arc::new(AssociationConfig {
            congestion: Algorithm::Dctcp,
            ..AssociationConfig::default()
        }),
        ..config(1, CLIENT)
    };
    let (mut pair, client, _) = Pair::with(client, config(1, SERVER)).establish();
    let config =
        AssociationConfig { congestion: Algorithm::Dctcp, nodelay: false, ..AssociationConfig::default() };
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.configure(now, client, Arc::new(config)).unwrap();
}

/// DCTCP applies to whole associations: when the association changes its controller, a path's DCTCP goes as well.
#[test]
fn no_path_keeps_dctcp_alone() {
    let ecn = |host| {
        let mut association = AssociationConfig::default();
        association.extensions.ecn = true;
        EndpointConfig { association: Arc::new(association), ..config(2, host) }
    };
    let (mut pair, client, _) = Pair::with(ecn(CLIENT), ecn(SERVER)).establish();
    pair.pass(ms(3000));
    let configure = |pair: &mut Pair, congestion| {
        let config = AssociationConfig { congestion, ..AssociationConfig::default() };
        let now = pair.now;
        pair.hosts[CLIENT].endpoint.configure(now, client, Arc::new(config)).unwrap();
    };
    configure(&mut pair, Algorithm::Dctcp);
    let (now, remote) = (pair.now, address(SERVER, 1).ip());
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    endpoint.set_path_congestion(now, client, remote, Some(Algorithm::Dctcp)).unwrap();
    configure(&mut pair, Algorithm::Cubic);
    let names: Vec<&str> =
        pair.hosts[CLIENT].endpoint.paths(client).unwrap().iter().map(|path| path.congestion).collect();
    assert_eq!(names, ["cubic", "cubic"]);
}

/// One path has its own controller. A change of the association's does not affect it, `None` removes it, and a
/// restart keeps it.
#[test]
fn path_may_have_its_own_controller() {
    let (mut pair, client, _) = Pair::with(config(2, CLIENT), config(2, SERVER)).establish();
    pair.pass(ms(3000));
    let names = |pair: &Pair| -> Vec<&str> {
        pair.hosts[CLIENT].endpoint.paths(client).unwrap().iter().map(|path| path.congestion).collect()
    };
    let choose = |pair: &mut Pair, path, algorithm| {
        let now = pair.now;
        let address = address(SERVER, path).ip();
        pair.hosts[CLIENT].endpoint.set_path_congestion(now, client, address, algorithm)
    };
    assert_eq!(names(&pair), ["cubic", "cubic"]);
    choose(&mut pair, 1, Some(Algorithm::Bbr)).unwrap();
    assert_eq!(names(&pair), ["cubic", "bbr"]);
    let config = AssociationConfig { congestion: Algorithm::Swift, ..AssociationConfig::default() };
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.configure(now, client, Arc::new(config)).unwrap();
    assert_eq!(names(&pair), ["swift", "bbr"]);
    // The other side restarts with the same ports.
    let restarted = Endpoint::new(super::config(2, SERVER), [9; 32], now).unwrap();
    pair.hosts[SERVER].endpoint = restarted;
    let remotes = pair.hosts[CLIENT].addresses.clone();
    let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
    pair.hosts[SERVER].endpoint.connect(now, request).unwrap();
    pair.pass(ms(3000));
    assert!(pair.hosts[CLIENT].events.iter().any(|(_, event)| matches!(event, Event::Restarted { .. })));
    assert_eq!(names(&pair), ["swift", "bbr"]);
    choose(&mut pair, 1, None).unwrap();
    assert_eq!(names(&pair), ["swift", "swift"]);
    assert_eq!(choose(&mut pair, 1, Some(Algorithm::Dctcp)), Err(PathError::Dctcp));
    assert_eq!(choose(&mut pair, 7, Some(Algorithm::Bbr)), Err(PathError::UnknownAddress));
}
