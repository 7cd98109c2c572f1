//! The probe budget: a peer that acknowledges nothing gets at most twice the packets that RFC 9260 would send it.

use strandline_sim::manual::{ManualPeer, Sent};
use strandline_sim::pair::Fate;
use strandline_wire::Tsn;
use strandline_wire::chunk::sack;

use super::rfc7829_3::TwoPaths;
use super::scene::Scene;
use super::*;

/// DATA packets that RFC 9260 sends to a silent peer in a minute: at 0, 1, 3, 7, 15 and 31 seconds.
const RFC9260_IN_A_MINUTE: usize = 6;

/// As many over two paths, used in turn (section 6.4.1), each with an RTO of its own: at 0, 1, 2, 4, 6, 10, 14, 22, 30
/// and 46 seconds.
const RFC9260_OVER_TWO_PATHS: usize = 10;

/// Runs a minute in which everything that A sends is lost. Returns the times of its packets with DATA in
/// milliseconds.
fn silent_minute(scene: &mut Scene, messages: usize) -> Vec<u64> {
    scene.pair.filter(|from, _| if from == Side::A { Fate::Drop } else { Fate::Pass });
    scene.give(messages);
    scene.run(ms(60_000));
    scene.sent().iter().map(|seen| seen.ms).collect()
}

#[test]
fn a_silent_peer_gets_twelve_packets_a_minute() {
    for delay in [Duration::from_micros(100), ms(30), ms(150)] {
        let mut scene = Scene::on(link(delay, 1000), |_| ());
        let times = silent_minute(&mut scene, 1);
        assert!(times.len() <= 2 * RFC9260_IN_A_MINUTE, "{delay:?}: {times:?}");
        assert!(times.iter().filter(|ms| **ms < 1000).count() <= 3, "{delay:?}: {times:?}");
        // HEARTBEATs, one per HB.interval, are sent in RFC 9260 as well.
        let from_a = scene.pair.captured().iter().filter(|captured| captured.from == Side::A).count();
        assert!(from_a <= 2 * (RFC9260_IN_A_MINUTE + 2), "{delay:?}: {from_a}");
    }
}

/// A whole window was on its way. RFC 9260 sends it once, and a packet at each time-out.
#[test]
fn flight_to_a_silent_peer_goes_once() {
    for delay in [Duration::from_micros(100), ms(30), ms(150)] {
        let mut scene = Scene::on(link(delay, 1000), |_| ());
        let flight = 3;
        let times = silent_minute(&mut scene, flight);
        let by_rfc9260 = flight + RFC9260_IN_A_MINUTE - 1;
        assert!(times.len() <= 2 * by_rfc9260, "{delay:?}: {times:?}");
        let again = times.iter().filter(|ms| **ms > 0).count();
        assert!(again <= 2 * (RFC9260_IN_A_MINUTE - 1) + 1, "{delay:?}: {times:?}");
    }
}

/// Runs a minute in which both paths lose everything, with this many messages of a packet each. Returns the packets
/// with DATA.
fn minute_on_two_silent_paths(paths: &mut TwoPaths, messages: usize) -> Vec<String> {
    // Both round-trip times are known.
    paths.run(ms(70_000), 0);
    paths.run(ms(1000), 1000);
    paths.run(ms(5000), 0);
    paths.cut(0);
    paths.cut(1);
    paths.pair.clear_captured();
    for _ in 0..messages {
        paths.pair.send(Side::A, paths.a, 0, vec![1; FULL]);
    }
    paths.run(ms(60_000), 0);
    let sent = paths.pair.captured().iter().filter(|captured| captured.from == Side::A);
    let with_data = sent.filter(|captured| !data(captured).is_empty());
    with_data.map(|captured| format!("{:?} {}", captured.at, captured.datagram.destination.ip())).collect()
}

/// With the default parameters, without the limit on silence, and with the paths' states of RFC 9260.
#[test]
fn two_silent_paths_get_twice_the_packets() {
    for (silence_max, potentially_failed) in [(Some(ms(300)), Some(0)), (None, Some(0)), (None, None)] {
        for (delay, messages) in [(Duration::from_micros(100), 1), (ms(30), 1), (ms(150), 1), (ms(30), 2)] {
            let mut paths = TwoPaths::new([link(delay, 1000), link(delay, 1000)], |config| {
                config.path_silence_max = silence_max;
                config.potentially_failed_retrans_max = potentially_failed;
            });
            let went = minute_on_two_silent_paths(&mut paths, messages);
            let most = 2 * messages * RFC9260_OVER_TWO_PATHS;
            assert!(went.len() <= most, "{silence_max:?} {delay:?}: {} {went:#?}", went.len());
            // Each path was tried, again and again.
            assert!(went.len() >= 8 * messages, "{silence_max:?} {delay:?}: {went:#?}");
            for of in paths.pair.addresses(Side::B) {
                let to_it = went.iter().filter(|packet| packet.ends_with(&format!(" {}", of.ip()))).count();
                assert!(to_it <= 2 * messages * RFC9260_IN_A_MINUTE, "{of}: {went:#?}");
            }
        }
    }
}

#[test]
fn intervals_double_across_time_outs() {
    let mut scene = Scene::on(link(Duration::from_micros(100), 1000), |_| ());
    let times = silent_minute(&mut scene, 1);
    // T3-rtx waits a second or more, probes less.
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.iter().filter(|wait| **wait >= 900).count(), 5, "{times:?}");
    // The first one allows for a delayed acknowledgement; the others asked for an immediate one.
    let probes: Vec<u64> = waits.into_iter().filter(|wait| *wait < 900).skip(1).collect();
    assert_eq!(probes.len(), 5, "{times:?}");
    assert!(probes.windows(2).all(|pair| pair[1] >= 2 * pair[0] - 1), "{times:?}");
}

/// Returns an endpoint with a known round-trip time and one outstanding packet that its peer has answered without
/// acknowledging it.
fn outstanding(a_rwnd: u32) -> (ManualPeer, AssociationId, Tsn) {
    let (mut manual, id) = ManualPeer::accepted(EndpointConfig::default());
    let cumulative = Tsn(manual.initial_tsn.0.wrapping_sub(1));
    let info = SendInfo::default();
    manual.endpoint.send(manual.now, id, info, vec![1; 1000].into()).unwrap();
    manual.output();
    manual.advance(ms(10));
    let first = answer(&manual, cumulative.next(), a_rwnd, &[]);
    manual.handle(&first);
    let mut asks = info;
    asks.immediate = true;
    manual.endpoint.send(manual.now, id, asks, vec![1; 1000].into()).unwrap();
    (manual, id, cumulative.next())
}

fn answer(manual: &ManualPeer, cumulative: Tsn, a_rwnd: u32, duplicates: &[Tsn]) -> Vec<u8> {
    manual.packet(|builder| assert!(sack::write(builder, cumulative, a_rwnd, [].into_iter(), duplicates)))
}

fn with_data(sent: &[Sent]) -> usize {
    sent.iter().filter(|sent| sent.chunk_kinds().contains(&kind::DATA)).count()
}

/// Each probe of a closed window is answered: RFC 9260 probes after 1, 3, 7, 15 and 31 seconds.
#[test]
fn an_answered_window_probe_gets_none() {
    let (mut manual, _, cumulative) = outstanding(0);
    let (mut packets, end) = (0, manual.now + ms(60_000));
    while manual.now < end {
        let sent = manual.advance(ms(10));
        packets += with_data(&sent);
        if with_data(&sent) > 0 {
            let closed = answer(&manual, cumulative, 0, &[]);
            packets += with_data(&manual.handle(&closed));
        }
    }
    assert!((4..=RFC9260_IN_A_MINUTE).contains(&packets), "{packets}");
}

/// A peer whose window opens and closes, and that acknowledges nothing, is probed as rarely as a silent one.
#[test]
fn a_flapping_window_is_no_amplifier() {
    for interval in [1, 11, 50] {
        let (mut manual, _, cumulative) = outstanding(100_000);
        let mut packets = with_data(&manual.output());
        let end = manual.now + ms(60_000);
        while manual.now < end {
            packets += with_data(&manual.advance(ms(interval)));
            for a_rwnd in [0, 1500] {
                let says = answer(&manual, cumulative, a_rwnd, &[]);
                packets += with_data(&manual.handle(&says));
            }
        }
        assert!((4..=2 * RFC9260_IN_A_MINUTE).contains(&packets), "{interval}: {packets}");
    }
}

/// A peer ignores the I bit and reports duplicates only after its 200 ms: the probes that came sooner because of the
/// bit were spurious, and none follows the next message.
#[test]
fn duplicates_reported_late_are_learnt() {
    let (mut manual, id, cumulative) = outstanding(100_000);
    let mut went = with_data(&manual.advance(ms(200)));
    assert_eq!(went, 3, "two probes");
    let next = cumulative.next();
    let twice = answer(&manual, next, 100_000, &[next, next]);
    went += with_data(&manual.handle(&twice));
    let mut asks = SendInfo::default();
    asks.immediate = true;
    manual.endpoint.send(manual.now, id, asks, vec![1; 1000].into()).unwrap();
    went += with_data(&manual.advance(ms(200)));
    assert_eq!(went, 4, "no probe");
}
