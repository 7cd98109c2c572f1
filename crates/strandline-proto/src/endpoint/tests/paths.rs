//! Multi-homing: RFC 9260 sections 5.4, 6.4, 8.2 and 8.3.

use super::*;
use crate::config::SackFrequency;
use crate::error::PathError;
use crate::event::PathChange;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::stats::Reachability;

fn two_paths(change: impl Fn(&mut AssociationConfig)) -> (Pair, AssociationId, AssociationId) {
    let mut association = AssociationConfig {
        rto_initial: Duration::from_millis(100),
        rto_min: Duration::from_millis(100),
        ..AssociationConfig::default()
    };
    change(&mut association);
    let association = Arc::new(association);
    let with = |host| EndpointConfig { association: Arc::clone(&association), ..config(2, host) };
    Pair::with(with(CLIENT), with(SERVER)).establish()
}

fn on_path(path: u8) -> impl Fn(&Sent) -> bool {
    move |sent| [address(CLIENT, path).ip(), address(SERVER, path).ip()].contains(&sent.destination.ip())
}

#[test]
fn addresses_are_exchanged_and_confirmed_by_heartbeat() {
    let (mut pair, client, server) = two_paths(|_| {});
    pair.pass(Duration::from_secs(2));
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let paths = pair.hosts[host].endpoint.paths(id).unwrap();
        assert_eq!(paths.len(), 2);
        assert!(paths.iter().all(|path| path.state == Reachability::Active), "{paths:?}");
        let confirmed = Event::PathChanged { address: address(1 - host, 1), change: PathChange::Confirmed };
        assert!(pair.hosts[host].events.contains(&(id, confirmed)), "{:?}", pair.hosts[host].events);
    }
}

#[test]
fn nothing_but_heartbeats_goes_to_an_unconfirmed_address() {
    let (mut pair, client, _) = two_paths(|_| {});
    pair.send(CLIENT, client, 0, &vec![0; 20_000]);
    pair.pass_dropping(Duration::from_secs(3), on_path(1));
    let kinds: Vec<_> = pair.log.iter().filter(|sent| on_path(1)(sent)).map(Sent::kinds).collect();
    assert!(!kinds.is_empty());
    assert!(kinds.iter().all(|kinds| kinds[..] == [kind::HEARTBEAT]), "{kinds:?}");
}

/// A HEARTBEAT that measures the round trip of a large flow confirms no address, and goes to none that is unconfirmed.
#[test]
fn unconfirmed_source_of_a_flow_is_not_measured() {
    let (mut pair, client, server) = two_paths(|config| config.rto_initial = Duration::from_secs(10));
    let probes = |sent: &Sent| sent.destination == address(CLIENT, 1) && has(kind::HEARTBEAT)(sent);
    pair.pass_dropping(Duration::from_millis(500), probes);
    pair.hosts[CLIENT].endpoint.set_primary(pair.now, client, address(SERVER, 1).ip()).unwrap();
    for _ in 0..20 {
        pair.send(CLIENT, client, 0, &vec![0; 50_000]);
        pair.pass_dropping(Duration::from_millis(100), probes);
        assert!(pair.recv(SERVER, server).is_some());
    }
    let to_server = |sent: &&Sent| sent.destination == address(SERVER, 1) && has(kind::DATA)(sent);
    assert!(pair.log.iter().filter(to_server).count() > 300);
    assert_eq!(pair.log.iter().filter(|sent| probes(sent)).count(), 1, "only the one that verifies it");
}

#[test]
fn a_dead_primary_fails_over_and_returns() {
    let (mut pair, client, server) = two_paths(|config| {
        config.path_retrans_max = 2;
        config.heartbeat_interval = Some(Duration::from_millis(500));
    });
    pair.pass(Duration::from_secs(2));
    pair.hosts[CLIENT].events.clear();
    for number in 0..20u8 {
        pair.send(CLIENT, client, 0, &[number; 1000]);
        pair.pass_dropping(Duration::from_millis(500), on_path(0));
    }
    for number in 0..20u8 {
        assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![number; 1000]);
    }
    let changed = |change| Event::PathChanged { address: address(SERVER, 0), change };
    assert!(pair.hosts[CLIENT].events.contains(&(client, changed(PathChange::Inactive))));
    let used = |pair: &Pair| -> Vec<(bool, bool)> {
        let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
        paths.iter().map(|path| (path.primary, path.in_use)).collect()
    };
    assert_eq!(used(&pair), [(true, false), (false, true)]);
    // The path works again: heartbeats detect it, and data returns to the primary.
    pair.pass(Duration::from_secs(30));
    assert!(pair.hosts[CLIENT].events.contains(&(client, changed(PathChange::Active))));
    assert_eq!(used(&pair), [(true, true), (false, false)]);
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"back");
    pair.run();
    assert!(on_path(0)(&pair.log[0]));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "back");
}

#[test]
fn acknowledgements_avoid_an_address_that_is_dead() {
    let (mut pair, client, _) = two_paths(|config| {
        config.path_retrans_max = 2;
        config.heartbeat_interval = Some(Duration::from_millis(200));
    });
    pair.pass(Duration::from_secs(2));
    pair.pass_dropping(Duration::from_secs(5), on_path(0));
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"from the other address");
    pair.collect();
    while let Some(mut sent) = pair.wire.pop_front() {
        sent.source = address(CLIENT, 0);
        pair.deliver(&sent);
    }
    pair.pass_dropping(Duration::from_millis(300), on_path(0));
    let sacks: Vec<bool> =
        pair.log.iter().filter(|sent| has(kind::SACK)(sent)).map(|sent| on_path(1)(sent)).collect();
    assert!(!sacks.is_empty() && sacks.iter().all(|avoids| *avoids), "{sacks:?}");
}

#[test]
fn timed_out_data_moves_to_the_other_path() {
    let (mut pair, client, server) = two_paths(|_| {});
    pair.pass(Duration::from_secs(2));
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"detour");
    pair.pass_dropping(Duration::from_millis(300), |sent| on_path(0)(sent) && has(kind::DATA)(sent));
    let data: Vec<bool> =
        pair.log.iter().filter(|sent| has(kind::DATA)(sent)).map(|sent| on_path(1)(sent)).collect();
    assert_eq!(data, [false, true]);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "detour");
}

#[test]
fn an_init_ack_from_another_address_is_accepted() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    pair.collect();
    while let Some(mut sent) = pair.wire.pop_front() {
        if has(kind::INIT_ACK)(&sent) {
            sent.source = address(SERVER, 1);
        }
        pair.deliver(&sent);
    }
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
}

#[test]
fn the_primary_can_be_chosen() {
    let (mut pair, client, _) = two_paths(|_| {});
    let second = address(SERVER, 1).ip();
    pair.pass(Duration::from_secs(2));
    pair.hosts[CLIENT].endpoint.set_primary(pair.now, client, second).unwrap();
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"this way");
    pair.run();
    assert!(on_path(1)(&pair.log[0]));
    let unknown = "203.0.113.1".parse().unwrap();
    let refused = pair.hosts[CLIENT].endpoint.set_primary(pair.now, client, unknown);
    assert_eq!(refused, Err(crate::error::PathError::UnknownAddress));
}

#[test]
fn dead_idle_peer_is_found_by_heartbeats() {
    let (mut pair, client, _) = Pair::configured(|config| {
        config.heartbeat_interval = Some(Duration::from_secs(5));
        config.association_retrans_max = 3;
    })
    .establish();
    pair.pass_dropping(Duration::from_secs(200), |_| true);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    assert!(pair.hosts[CLIENT].endpoint.status(client).is_some(), "kept until it is released");
}

#[test]
fn heartbeats_can_be_switched_off() {
    let (mut pair, client, _) = Pair::configured(|config| config.heartbeat_interval = None).establish();
    pair.log.clear();
    pair.pass(Duration::from_secs(3600));
    assert!(pair.log.is_empty());
    pair.hosts[CLIENT].endpoint.request_heartbeat(pair.now, client, address(SERVER, 0).ip()).unwrap();
    pair.run();
    assert_eq!(pair.kinds(), [[kind::HEARTBEAT], [kind::HEARTBEAT_ACK]]);
}

#[test]
fn heartbeats_are_refused_outside_an_association() {
    let mut pair = Pair::new();
    let client = pair.connect();
    let (now, to) = (pair.now, address(SERVER, 0).ip());
    let request = |pair: &mut Pair, id| pair.hosts[CLIENT].endpoint.request_heartbeat(now, id, to);
    assert_eq!(request(&mut pair, client), Err(PathError::NotEstablished), "it is being set up");
    pair.run();
    assert_eq!(request(&mut pair, client), Ok(()));
    pair.hosts[CLIENT].endpoint.shutdown(now, client).unwrap();
    pair.collect();
    assert_eq!(pair.state(CLIENT, client), "SHUTDOWN-SENT");
    assert_eq!(request(&mut pair, client), Err(PathError::NotEstablished), "it is shutting down");
}

#[test]
fn the_encapsulation_port_follows_the_peer() {
    let (mut pair, client, server) = Pair::established();
    pair.send(CLIENT, client, 0, b"from a new port");
    pair.collect();
    let mut sent = pair.wire.pop_front().unwrap();
    sent.source.set_port(40_000);
    pair.deliver(&sent);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "from a new port");
    let paths = pair.hosts[SERVER].endpoint.paths(server).unwrap();
    assert_eq!(paths[0].address.port(), 40_000);
}

#[test]
fn the_path_mtu_is_searched_while_data_flows() {
    let (mut pair, client, server) = Pair::established();
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].mtu, 1280);
    pair.send(CLIENT, client, 0, &vec![0; 200_000]);
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].mtu, 1500);
    assert!(pair.recv(SERVER, server).is_some());
    assert!(pair.log.iter().any(|sent| sent.bytes.len() == 1472 && has(kind::HEARTBEAT)(sent)));
}

#[test]
fn smaller_mtu_is_found_and_kept() {
    let (mut pair, client, server) = Pair::established();
    for _ in 0..60 {
        pair.send(CLIENT, client, 0, &vec![0; 20_000]);
        pair.pass_dropping(Duration::from_secs(1), |sent| sent.bytes.len() > 1400 - 28);
        assert!(pair.recv(SERVER, server).is_some());
    }
    let mtu = pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].mtu;
    assert!((1368..=1400).contains(&mtu), "{mtu}");
    let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
    assert_eq!((status.stats.timeouts, status.stats.retransmissions), (0, 0), "a lost probe costs no data");
}

#[test]
fn unnamed_address_is_given_up() {
    let mut pair = Pair::new();
    let nobody: SocketAddr = "203.0.113.9:9899".parse().unwrap();
    let remotes = vec![nobody, address(SERVER, 0)];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.send(CLIENT, client, 0, b"to the right one");
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert_eq!(paths.iter().map(|path| path.address).collect::<Vec<_>>(), [address(SERVER, 0)]);
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "to the right one");
    let data = |sent: &&Sent| has(kind::DATA)(sent) && sent.destination.ip() == nobody.ip();
    assert_eq!(pair.log.iter().filter(data).count(), 0);
}

/// A probe depends on data that flows, not on the size of the messages: none of these fills packets completely.
#[test]
fn mtu_search_works_with_any_message_size() {
    for size in [1, 64, 200, 420, 650, 900, 1200] {
        let (mut pair, client, server) = Pair::established();
        for _ in 0..50 {
            for _ in 0..8000_usize.div_ceil(size + 16) {
                pair.send(CLIENT, client, 0, &vec![0; size]);
            }
            pair.run();
            while pair.recv(SERVER, server).is_some() {}
            pair.pass(Duration::from_millis(1));
        }
        let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
        assert_eq!(paths[0].mtu, 1500, "with messages of {size} bytes");
    }
}

/// RFC 9260 section 6.3.3 E3: how many chunks are retransmitted depends on the path MTU to the address that they are
/// sent to. A probe of a closed window is one packet (section 6.1 rule A), also on a path with a smaller MTU than that
/// of the path before, and fills it on a path with a larger one.
#[test]
fn window_probe_fits_its_path() {
    const SHORT: usize = 1280 - 28;
    let (mut pair, client, server) = two_paths(|config| {
        config.receive_buffer = Some(20_000);
        config.partial_delivery_point = 10_000;
    });
    // The first path is searched, while the second one is not confirmed.
    for _ in 0..60 {
        pair.send(CLIENT, client, 0, &[0; 10_000]);
        pair.pass_dropping(Duration::from_millis(50), on_path(1));
        assert!(pair.recv(SERVER, server).is_some());
    }
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].mtu, 1500);
    // Nobody reads these. Small messages take more room than their bytes.
    for number in 0..1200_u16 {
        pair.send(CLIENT, client, 0, &number.to_be_bytes());
    }
    pair.pass_dropping(Duration::from_millis(50), on_path(1));
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().peer_rwnd, 0);
    let mut probes = Vec::new();
    for _ in 0..3000 {
        pair.log.clear();
        pair.pass_dropping(Duration::from_millis(10), |sent| on_path(1)(sent) && sent.bytes.len() > SHORT);
        let data: Vec<_> = pair.log.iter().filter(|sent| has(kind::DATA)(sent)).collect();
        assert!(data.len() <= 1, "{} packets at once after {probes:?}", data.len());
        probes.extend(data.iter().map(|sent| (on_path(1)(sent), sent.bytes.len())));
    }
    // Both paths take part. Chunks that were sent on the second path fill a packet there.
    assert!(probes.len() > 3 && probes.len() < 20, "{probes:?}");
    assert!(probes.iter().all(|(second, len)| !second || *len <= SHORT), "{probes:?}");
    assert!(probes.iter().any(|(second, len)| *second && *len + 20 > SHORT), "{probes:?}");
}

/// T3-rtx of two paths expires at one instant while the peer answers that its window is closed: both probe it, and
/// neither is an error (RFC 9260 section 6.1 rule A), since only the future shows whether a probe is answered.
#[test]
fn window_probes_of_two_paths_are_no_errors() {
    let (mut pair, client, _) = two_paths(|config| {
        config.receive_buffer = Some(20_000);
        config.partial_delivery_point = 10_000;
        config.heartbeat_interval = None;
    });
    pair.pass(Duration::from_secs(2));
    for number in 0..1200_u16 {
        pair.send(CLIENT, client, 0, &number.to_be_bytes());
    }
    let paths = |pair: &Pair| pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    let both = (0..1000).any(|_| {
        pair.pass(Duration::from_millis(10));
        paths(&pair).iter().all(|path| path.flight > 0)
    });
    assert!(both, "{:?}", paths(&pair));
    pair.pass(Duration::from_millis(10));
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().peer_rwnd, 0);
    let association = pair.hosts[CLIENT].endpoint.table.at_mut(0).unwrap();
    let both = [PathIndex::FIRST, PathIndex::P1];
    let last = both.map(|index| association.paths.get(index).rtx_deadline).into_iter().max().unwrap();
    both.into_iter().for_each(|index| association.paths.get_mut(index).rtx_deadline = last);
    let timeouts = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap().stats.timeouts;
    let before = timeouts(&pair);
    while timeouts(&pair) == before {
        pair.pass(Duration::from_millis(1));
    }
    assert_eq!(timeouts(&pair), before + 2);
    for path in paths(&pair) {
        assert_eq!((path.state, path.error_count, path.timeouts), (Reachability::Active, 0, 0));
    }
}

/// A HEARTBEAT of the other path is lost when T3-rtx expires: the probe of the closed window stays, and is one packet
/// of the size that this path carries.
#[test]
fn window_probe_fits_the_path_that_is_left() {
    const SHORT: usize = 1280 - 28;
    let (mut pair, client, server) = two_paths(|config| {
        config.receive_buffer = Some(20_000);
        config.partial_delivery_point = 10_000;
        config.potentially_failed_retrans_max = Some(0);
        config.path_silence_max = None;
    });
    // Only the first path is searched.
    for _ in 0..60 {
        pair.send(CLIENT, client, 0, &[0; 10_000]);
        pair.pass_dropping(Duration::from_millis(50), on_path(1));
        assert!(pair.recv(SERVER, server).is_some());
    }
    pair.pass(Duration::from_secs(1));
    let too_long = |sent: &Sent| on_path(1)(sent) && sent.bytes.len() > SHORT;
    pair.hosts[CLIENT].endpoint.set_primary(pair.now, client, address(SERVER, 1).ip()).unwrap();
    for number in 0..1200_u16 {
        pair.send(CLIENT, client, 0, &number.to_be_bytes());
    }
    pair.pass_dropping(Duration::from_millis(50), too_long);
    let paths = |pair: &Pair| pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    let found: Vec<_> = paths(&pair).iter().map(|path| (path.state, path.mtu, path.flight > 0)).collect();
    assert_eq!(found, [(Reachability::Active, 1500, false), (Reachability::Active, 1280, true)]);
    let now = pair.now;
    let association = pair.hosts[CLIENT].endpoint.table.at_mut(0).unwrap();
    let config = Arc::clone(&association.config);
    let first = association.paths.get_mut(PathIndex::FIRST);
    first.on_heartbeat_sent(now, 7, 0, &config);
    let at = first.heartbeat.deadline(first.rto.rto());
    association.paths.get_mut(PathIndex::P1).rtx_deadline = at;
    let timeouts = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap().stats.timeouts;
    let before = timeouts(&pair);
    while timeouts(&pair) == before {
        pair.log.clear();
        pair.pass_dropping(Duration::from_millis(1), too_long);
    }
    // The next HEARTBEAT is answered at once.
    let failed = Event::PathChanged { address: address(SERVER, 0), change: PathChange::PotentiallyFailed };
    assert!(pair.hosts[CLIENT].events.contains(&(client, failed)));
    let data: Vec<_> = pair.log.iter().filter(|sent| has(kind::DATA)(sent)).collect();
    assert!(data.len() == 1 && on_path(1)(data[0]), "{} packets", data.len());
}

/// The path of the data is ambiguous, and the other one takes no data. At a time-out only the first packet is
/// retransmitted, and a late SACK shows that nothing else is lost (RFC 5682).
#[test]
fn beside_an_unconfirmed_path_the_first_packet_asks() {
    for state in [PathState::Active, PathState::Ambiguous] {
        let (mut pair, client, _) = two_paths(|config| config.sack_frequency = SackFrequency::Every(1));
        pair.pass(Duration::from_secs(2));
        let association = pair.hosts[CLIENT].endpoint.table.at_mut(0).unwrap();
        association.paths.get_mut(PathIndex::FIRST).state = state;
        association.paths.get_mut(PathIndex::P1).state = PathState::Unconfirmed;
        for _ in 0..4 {
            pair.send(CLIENT, client, 0, &[0; 1000]);
            pair.collect();
        }
        let mut sacks = Vec::new();
        pair.run_dropping(|sent| {
            let is_sack = has(kind::SACK)(sent);
            sacks.extend(is_sack.then(|| sent.clone()));
            is_sack
        });
        assert_eq!(sacks.len(), 4);
        let stats = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap().stats;
        while stats(&pair).timeouts == 0 {
            pair.pass_dropping(Duration::from_millis(1), |_| true);
        }
        pair.send(CLIENT, client, 0, &[1; 1000]);
        let before = stats(&pair).retransmissions;
        for sack in &sacks {
            pair.deliver(sack);
            assert_eq!(stats(&pair).retransmissions, before, "{state:?}");
        }
        assert_eq!(stats(&pair).data_sent, u64::from(5 + before), "{state:?}");
    }
}
