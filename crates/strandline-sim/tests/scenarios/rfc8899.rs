//! RFC 8899 section 4.3 and RFC 9260 section 7.3: a path MTU that falls without a message that reports it.

use core::net::IpAddr;

use strandline_netem::Change;
use strandline_proto::config::Recovery;
use strandline_proto::endpoint::Reconfigure;
use strandline_proto::event::{CloseReason, Event};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection, Streams};
use strandline_sim::pair::Fate;

use super::rfc7829_3::TwoPaths;
use super::*;

/// Returns a pair whose addresses are of one family and whose links carry 1,500 bytes. The path MTU is already known.
fn pair(ipv6: bool, change: impl Fn(&mut AssociationConfig)) -> (Pair, AssociationId, AssociationId) {
    let link = LinkConfig { size_max: 1500, ..LinkConfig::with_delay(ms(5)) };
    let at = |side: u16| {
        let own = if ipv6 {
            IpAddr::from([0x2001, 0xdb8, 0, side, 0, 0, 0, 1])
        } else {
            [10, 0, side as u8, 1].into()
        };
        EndpointConfig { local_addresses: vec![own], ..endpoint(&change) }
    };
    let mut pair = Pair::new(at(0), at(1), link);
    let (a, b) = pair.connect();
    (pair, a, b)
}

/// Makes both directions drop longer packets, whether they may be fragmented or not.
fn narrow(pair: &mut Pair, size: usize) {
    let (a, b) = (pair.addresses(Side::A)[0].ip(), pair.addresses(Side::B)[0].ip());
    for (from, to) in [(a, b), (b, a)] {
        pair.network.link(from, to).change(Change::SizeMax(size));
    }
}

/// Sends a message of 20,000 bytes and returns how long it took to arrive.
fn transfer(pair: &mut Pair, a: AssociationId, b: AssociationId, limit: Duration) -> Option<Duration> {
    let began = pair.now;
    pair.send(Side::A, a, 0, vec![7; 20_000]);
    let mut got = 0;
    let arrived = pair.run_until(limit, |pair| {
        got += pair.recv_all(Side::B, b).iter().map(|message| message.data.len()).sum::<usize>();
        got == 20_000
    });
    arrived.then(|| pair.now.since(began))
}

fn mtu(pair: &Pair, a: AssociationId) -> usize {
    usize::from(pair.a.endpoint.paths(a).unwrap()[0].mtu)
}

#[test]
fn a_path_mtu_that_falls_costs_seconds() {
    for (ipv6, size, limit) in [
        (true, 1400, 5),
        (true, 1280, 5),
        (false, 1400, 5),
        (false, 1200, 5),
        (false, 1199, 10),
        (false, 700, 10),
        (false, 576, 10),
    ] {
        let (mut pair, a, b) = pair(ipv6, |_| {});
        for _ in 0..5 {
            transfer(&mut pair, a, b, ms(1000)).expect("nothing is lost yet");
        }
        assert_eq!(mtu(&pair, a), 1500);
        narrow(&mut pair, size);
        let took = transfer(&mut pair, a, b, Duration::from_secs(limit));
        assert!(took.is_some(), "{size}, IPv6 {ipv6}\n{}", pair.printed().join("\n"));
        assert!(mtu(&pair, a) <= size);
        // Afterwards as fast as before, and the search finds the path MTU.
        pair.run_for(Duration::from_secs(2));
        let took = transfer(&mut pair, a, b, Duration::from_secs(5)).expect("a second message");
        assert!(took < ms(500), "{size}, IPv6 {ipv6}: {took:?}");
        for _ in 0..60 {
            transfer(&mut pair, a, b, Duration::from_secs(5)).expect("further messages");
            pair.run_for(ms(1000));
        }
        let found = mtu(&pair, a);
        assert!(found <= size && found + 32 >= size, "{size}, IPv6 {ipv6}: found {found}");
    }
}

/// The shortest I-DATA chunks are a fifth longer than the shortest DATA chunks: a packet of them can be too
/// long where one of as many DATA chunks is not.
#[test]
fn short_interleaved_messages_find_the_path_mtu() {
    for recovery in [Recovery::Rfc9260, Recovery::Rack] {
        let (mut pair, a, b) = pair(false, |config| {
            config.extensions.interleaving = true;
            config.recovery = recovery;
        });
        narrow(&mut pair, 577);
        for _ in 0..25 {
            pair.send(Side::A, a, 0, vec![7]);
        }
        let mut got = 0;
        let arrived = pair.run_until(Duration::from_secs(30), |pair| {
            got += pair.recv_all(Side::B, b).len();
            got == 25
        });
        assert!(arrived, "{recovery:?}: {got}");
    }
}

#[test]
fn an_unusable_path_ends_the_association_despite_heartbeats() {
    let (mut pair, a, b) = pair(false, |_| {});
    transfer(&mut pair, a, b, ms(1000)).expect("nothing is lost yet");
    // Too narrow for any data, wide enough for HEARTBEATs.
    narrow(&mut pair, 200);
    let began = pair.now;
    pair.send(Side::A, a, 0, vec![7; 20_000]);
    let (mut errors, mut timeouts, mut reason) = (0, 0, None);
    pair.run_until(Duration::from_secs(2000), |pair| {
        if let Some(status) = pair.a.endpoint.status(a) {
            errors = errors.max(status.error_count);
            timeouts = timeouts.max(status.stats.timeouts);
        }
        let events = pair.events(Side::A);
        reason = events.into_iter().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        });
        reason.is_some()
    });
    assert_eq!(reason, Some(CloseReason::TimedOut));
    assert_eq!((errors, timeouts), (11, 11), "Association.Max.Retrans and one more");
    // Each answered HEARTBEAT measures the round trip, so that the RTO starts anew from it.
    let took = pair.now.since(began).as_secs();
    assert!((30..=400).contains(&took), "{took} s");
    let answers = pair.captured().iter().filter(|packet| packet.chunk_kinds() == [kind::HEARTBEAT_ACK]);
    assert!(answers.count() > 0, "HEARTBEATs were answered");
}

/// Decision 98: chunks that were made for a longer path fit only if something fragments them. On IPv4 over UDP without
/// CAP_NET_RAW nothing does, if the link drops them silently.
#[test]
fn data_that_never_fits_is_reported() {
    let (mut pair, a, b) = pair(false, |_| {});
    pair.fragments = false;
    transfer(&mut pair, a, b, ms(1000)).expect("nothing is lost yet");
    narrow(&mut pair, 700);
    pair.events(Side::A);
    let began = pair.now;
    for _ in 0..3 {
        pair.send(Side::A, a, 0, vec![7; 20_000]);
    }
    let (mut failed, mut reason) = (Vec::new(), None);
    pair.run_until(Duration::from_secs(2000), |pair| {
        for event in pair.events(Side::A) {
            match event {
                Event::SendFailed(message) => failed.push(message.data.len()),
                Event::Closed(why) => reason = Some(why),
                _ => {}
            }
        }
        reason.is_some()
    });
    assert_eq!(reason, Some(CloseReason::TimedOut));
    assert_eq!(failed, [20_000; 3], "each message once");
    let took = pair.now.since(began).as_secs();
    assert!((30..=400).contains(&took), "{took} s");
    assert!(pair.recv_all(Side::B, b).is_empty());
}

/// Small messages of another stream arrive and are acknowledged all the time, while a message that was made
/// for a longer path never does.
#[test]
fn unfitting_data_is_reported_beside_other_data() {
    for recovery in [Recovery::Rfc9260, Recovery::Rack] {
        let (mut pair, a, b) = pair(false, |config| config.recovery = recovery);
        pair.fragments = false;
        transfer(&mut pair, a, b, ms(1000)).expect("nothing is lost yet");
        narrow(&mut pair, 700);
        pair.events(Side::A);
        let began = pair.now;
        pair.send(Side::A, a, 0, vec![7; 1400]);
        let (mut failed, mut reason, mut small) = (0, None, 0);
        while reason.is_none() && pair.now.since(began) < Duration::from_secs(2000) {
            pair.send(Side::A, a, 1, vec![7; 100]);
            pair.run_for(ms(100));
            small += pair.recv_all(Side::B, b).iter().filter(|message| message.data.len() == 100).count();
            for event in pair.events(Side::A) {
                match event {
                    Event::SendFailed(message) if message.data.len() == 1400 => failed += 1,
                    Event::Closed(why) => reason = Some(why),
                    _ => {}
                }
            }
        }
        assert_eq!((reason, failed), (Some(CloseReason::TimedOut), 1), "{recovery:?}");
        let took = pair.now.since(began).as_secs();
        assert!((30..=700).contains(&took), "{recovery:?}: {took} s");
        assert!(small > 2, "{recovery:?}: {small}");
    }
}

/// Control chunks that the path drops arrive as IP fragments: at once if the path MTU is known from data, and otherwise
/// once they were not answered. This is a request to reset as many streams as one may list.
#[test]
fn long_requests_fit_a_narrow_path() {
    for (known, limit) in [(false, Duration::from_secs(60)), (true, ms(500))] {
        let (mut pair, a, b) = pair(false, |config| config.extensions.peer_requests = PeerRequests::ALL);
        narrow(&mut pair, 700);
        if known {
            transfer(&mut pair, a, b, Duration::from_secs(30)).expect("the path MTU is found");
        }
        pair.events(Side::A);
        let streams: Streams = (0..256).map(StreamId).collect();
        let request = Reconfigure::ResetStreams(StreamDirection::Both, streams);
        request.ask(&mut pair.a.endpoint, pair.now, a).unwrap();
        let mut outcomes = Vec::new();
        pair.run_until(limit, |pair| {
            outcomes.extend(pair.events(Side::A).into_iter().filter_map(|event| match event {
                Event::StreamsReset { outcome, .. } => Some(outcome),
                _ => None,
            }));
            outcomes.len() == 2
        });
        // Nothing was sent on the incoming streams.
        assert_eq!(outcomes, [Outcome::Performed, Outcome::NothingToDo], "known: {known}");
    }
}

/// The longest packet of one path falls: to 200 bytes less than before, and to what carries HEARTBEATs and no data.
#[test]
fn one_narrow_path_of_two_costs_seconds() {
    for size in [1300, 200] {
        let path = LinkConfig { size_max: 1500, ..LinkConfig::with_delay(ms(5)) };
        let mut paths = TwoPaths::new([path.clone(), path], |_| ());
        paths.size = 1400;
        paths.run(ms(1000), 20_000);
        paths.change(0, &Change::SizeMax(size));
        let end = paths.pair.now + Duration::from_secs(120);
        while paths.pair.now < end {
            let standstill = paths.standstill(20_000);
            assert!(standstill <= ms(5000), "{size}: {standstill:?}\n{:?}", paths.paths());
        }
        paths.finish();
        let status = paths.pair.a.endpoint.status(paths.a).expect("it lives");
        assert!(status.error_count <= 1, "{size}: {}", status.error_count);
    }
}

/// A receiver that sends only SACKs, over a return path that is too narrow for all gap blocks.
#[test]
fn sacks_with_gaps_fit_a_narrow_return_path() {
    for size in [1500, 700] {
        let link = LinkConfig { size_max: 1500, ..link(ms(20), 100) };
        let mut pair = Pair::new(endpoint(|_| {}), endpoint(|_| {}), link);
        let (a, b) = pair.connect();
        assert!(stream(&mut pair, a, b, ms(2000)) > 10_000_000);
        let (from, to) = (pair.addresses(Side::B)[0].ip(), pair.addresses(Side::A)[0].ip());
        pair.network.link(from, to).change(Change::SizeMax(size));
        let timeouts = pair.a.endpoint.status(a).unwrap().stats.timeouts;
        let mut number = 0;
        pair.filter(move |side, packet| {
            let data = side == Side::A && packet.first_kind() == Some(kind::DATA);
            number += u32::from(data);
            if data && number % 2 == 0 && number < 1200 { Fate::Drop } else { Fate::Pass }
        });
        pair.clear_captured();
        assert!(stream(&mut pair, a, b, ms(4000)) > 1_000_000, "{size}");
        assert_eq!(pair.a.endpoint.status(a).unwrap().stats.timeouts, timeouts, "{size}");
        let lens = pair.captured().iter().filter(|packet| packet.chunk_kinds() == [kind::SACK]);
        let lens: Vec<_> = lens.map(|packet| packet.datagram.ip_len()).collect();
        let longest = lens.iter().max().copied().unwrap_or_default();
        // As long as the path carries once that is proved, and otherwise no longer than every path carries.
        assert!(
            if size == 1500 { longest > 700 } else { longest > 500 && longest <= 576 },
            "{size}: {longest}"
        );
    }
}
