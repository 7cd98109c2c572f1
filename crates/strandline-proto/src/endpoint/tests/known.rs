//! What an association leaves in the path cache for the next one with the same peer (RFC 9040).

use super::*;

static MESSAGE: [u8; 100_000] = [7; 100_000];
/// Lengths of SCTP packets in IP packets of 1,500 and 1,280 bytes, in UDP.
const FULL: usize = 1_472;
const SMALL: usize = 1_252;

/// Sends the message over a new association and ends it. Packets longer than `most` that may not be fragmented are
/// lost. Returns the longest sent packet with DATA.
fn transfer(pair: &mut Pair, most: usize) -> usize {
    let before = pair.log.len();
    pair.hosts[SERVER].events.clear();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, &MESSAGE);
    pair.pass_dropping(Duration::from_secs(30), |sent| sent.bytes.len() > most && !sent.fragment);
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, MESSAGE.as_slice());
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    pair.log[before..].iter().filter(|sent| has(kind::DATA)(sent)).map(|sent| sent.bytes.len()).max().unwrap()
}

/// Returns the SCTP packets with a COOKIE ECHO of an association that has data to send from the beginning.
fn echoes(pair: &mut Pair) -> Vec<usize> {
    let client = pair.connect();
    pair.send(CLIENT, client, 0, &MESSAGE);
    pair.run_to(kind::COOKIE_ECHO);
    pair.wire.iter().filter(|sent| has(kind::COOKIE_ECHO)(sent)).map(|sent| sent.bytes.len()).collect()
}

#[test]
fn next_association_starts_with_the_found_mtu() {
    let mut pair = Pair::new();
    assert_eq!(transfer(&mut pair, FULL), FULL);
    let sizes = echoes(&mut pair);
    assert!(sizes.contains(&FULL), "{sizes:?}");
    assert!(sizes.len() <= 11, "the window is the same: {sizes:?}");
}

#[test]
fn after_ten_minutes_it_is_looked_for_again() {
    let mut pair = Pair::new();
    transfer(&mut pair, FULL);
    pair.pass(Duration::from_secs(601));
    assert!(echoes(&mut pair).iter().all(|size| *size <= SMALL));
}

/// The first flight is lost for its size. Everything still arrives, and the next association does not begin with that
/// size.
#[test]
fn smaller_mtu_than_remembered_is_detected() {
    let mut pair = Pair::new();
    transfer(&mut pair, FULL);
    transfer(&mut pair, SMALL);
    assert!(echoes(&mut pair).iter().all(|size| *size <= SMALL));
}

/// A lost packet of the set-up is repeated by the known round-trip time, not after a second.
#[test]
fn set_up_uses_the_remembered_rtt() {
    for lost in [kind::INIT, kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK] {
        let mut pair = Pair::new();
        transfer(&mut pair, FULL);
        pair.hosts[SERVER].events.clear();
        let client = pair.connect();
        let mut gone = false;
        pair.pass_dropping(Duration::from_millis(250), |sent| {
            has(lost)(sent) && !core::mem::replace(&mut gone, true)
        });
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "{lost}");
        let rto = pair.hosts[CLIENT].endpoint.paths(client).unwrap()[0].rto;
        assert_eq!(rto, Duration::from_secs(1), "RTO.Min holds for data");
    }
}

#[test]
fn remembered_long_rtt_delays_no_set_up() {
    let mut pair = Pair::new();
    let client = pair.connect();
    for kind in [kind::INIT_ACK, kind::COOKIE_ACK] {
        pair.run_to(kind);
        pair.now += Duration::from_millis(900);
    }
    pair.run();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    let before = pair.log.len();
    pair.connect();
    pair.pass_dropping(Duration::from_millis(1_001), |_| true);
    assert_eq!(pair.kinds()[before..], [[kind::INIT], [kind::INIT]]);
}

#[test]
fn strict_mode_remembers_nothing() {
    let limited = |host| EndpointConfig { known_paths_max: 0, ..config(1, host) };
    let mut pair = Pair::with(limited(CLIENT), limited(SERVER));
    transfer(&mut pair, FULL);
    assert!(echoes(&mut pair).iter().all(|size| *size <= SMALL));
    let mut pair = Pair::configured(|config| *config = AssociationConfig::rfc9260());
    let client = pair.connect();
    pair.run();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run();
    let before = pair.log.len();
    pair.connect();
    pair.pass_dropping(Duration::from_millis(999), |_| true);
    assert_eq!(pair.kinds()[before..], [[kind::INIT]]);
}
