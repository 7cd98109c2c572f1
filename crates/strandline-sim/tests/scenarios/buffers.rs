//! Auto-tuned buffers. No RFC defines the tuning; RFC 9260 sections 6.2 and 6.2.1 set its limits.

use strandline_netem::{Change, Loss};
use strandline_proto::congestion::Algorithm;
use strandline_wire::Tsn;

use super::*;

const MI: u32 = 1 << 20;

/// Returns most of the bytes per second that a link of `mbps` Mbit/s delivers, without headers and with a small
/// tolerance.
fn most_of(mbps: u64) -> u64 {
    mbps * 1_000_000 / 8 * 93 / 100
}

/// Nothing is configured: after slow start the link is full.
#[test]
fn defaults_fill_long_paths() {
    for (mbps, delay, start, seconds) in [(100, 100, 15, 5), (1000, 30, 5, 1)] {
        let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(delay), mbps));
        let (a, b) = pair.connect();
        stream(&mut pair, a, b, ms(1000 * start));
        pair.clear_captured();
        let bytes = stream(&mut pair, a, b, ms(1000 * seconds));
        let status = pair.b.endpoint.status(b).unwrap();
        assert!(bytes >= seconds * most_of(mbps), "{mbps} Mbit/s: {bytes} bytes, {status:?}");
        assert!(status.receive_buffer > 2 * MI, "{status:?}");
    }
}

/// Losses are so frequent that no run of packets is complete, and repairs take several round trips, during which
/// later data must be held. The window still grows.
#[test]
fn the_window_grows_where_much_is_lost() {
    let bbr = |config: &mut AssociationConfig| config.congestion = Algorithm::Bbr;
    let mut pair = Pair::new(endpoint(bbr), endpoint(bbr), link(ms(30), 100));
    let (a, b) = pair.connect();
    let ends = [Side::A, Side::B].map(|side| pair.addresses(side)[0].ip());
    pair.network.link(ends[0], ends[1]).change(Change::Loss(Loss::EveryNth(10)));
    let bytes = stream(&mut pair, a, b, ms(5000));
    let status = pair.b.endpoint.status(b).unwrap();
    assert!(bytes > 5 * 9_000_000, "{bytes} bytes, {status:?}");
    assert!(status.receive_buffer > 2 * MI, "{status:?}");
}

/// While the peer's window limits the sender, the rate of acknowledgements is not that of the path.
#[test]
fn growing_window_is_not_the_paths_limit() {
    let bbr = |config: &mut AssociationConfig| config.congestion = Algorithm::Bbr;
    let mut pair = Pair::new(endpoint(bbr), endpoint(bbr), link(ms(100), 100));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(3000));
    pair.clear_captured();
    let bytes = stream(&mut pair, a, b, ms(2000));
    assert!(bytes > 2 * 10_000_000, "{bytes} bytes, {:?}", pair.a.endpoint.status(a).unwrap());
}

/// On a short path nothing grows.
#[test]
fn short_path_needs_only_the_initial_buffer() {
    let short = LinkConfig { queue_bytes_max: 100_000, ..link(ms(1), 100) };
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), short);
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(500));
    let (sender, receiver) = (pair.a.endpoint.status(a).unwrap(), pair.b.endpoint.status(b).unwrap());
    assert!(receiver.receive_buffer <= 2 * MI, "{receiver:?}");
    assert!(sender.send_buffer <= 2 * MI, "{sender:?}");
}

/// A reader that does not read makes no window grow.
#[test]
fn window_grows_only_for_reading_applications() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 1000));
    let (a, b) = pair.connect();
    let message = Bytes::from(vec![7; FULL]);
    for _ in 0..200 {
        while pair.a.endpoint.send(pair.now, a, SendInfo::default(), message.clone()).is_ok() {}
        pair.run_for(ms(10));
    }
    let status = pair.b.endpoint.status(b).unwrap();
    assert_eq!((status.receive_buffer, status.a_rwnd), (MI, 0), "{status:?}");
}

#[test]
fn a_fixed_buffer_stays_as_it_is() {
    let fixed = |config: &mut AssociationConfig| {
        config.receive_buffer = Some(MI);
        config.send_buffer = Some(MI);
    };
    let mut pair = Pair::new(endpoint(fixed), endpoint(fixed), link(ms(100), 100));
    let (a, b) = pair.connect();
    let bytes = stream(&mut pair, a, b, ms(5000));
    assert!(bytes < 5 * u64::from(MI) * 6, "no more than a window in each round trip: {bytes}");
    assert_eq!(pair.b.endpoint.status(b).unwrap().receive_buffer, MI);
    assert_eq!(pair.a.endpoint.status(a).unwrap().send_buffer, MI);
}

/// Returns the right edge of the window after each SACK of one association, in bytes beyond its first TSN.
fn right_edges(pair: &Pair, first: Tsn, tag: u32) -> Vec<u64> {
    let edge = |captured: &Captured| {
        let packet = Packet::parse(&captured.datagram.bytes).ok()?;
        let sack = packet.chunks().flatten().find_map(|chunk| match chunk.parse() {
            Ok(Chunk::Sack(sack)) => Some((sack.cumulative_tsn(), sack.a_rwnd())),
            _ => None,
        });
        let (tsn, a_rwnd) = sack.filter(|_| packet.verification_tag().0 == tag)?;
        Some(u64::from(tsn.distance_from(first)) * FULL as u64 + u64::from(a_rwnd))
    };
    pair.captured().iter().filter(|captured| captured.from == Side::B).filter_map(edge).collect()
}

/// Returns an association whose receive window has grown, at an endpoint whose associations may hold 8 MiB together.
fn grown_beside_others() -> (Pair, AssociationId, AssociationId) {
    let b_config = EndpointConfig { receive_bytes_max: 8 << 20, ..endpoint(|_| ()) };
    // No more than fits the path and its queue: data held for a loss would also use up the window.
    let a_config = endpoint(|config| config.send_buffer = Some(2 * MI));
    let mut pair = Pair::new(a_config, b_config, link(ms(50), 100));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(5000));
    let grown = pair.b.endpoint.status(b).unwrap().receive_buffer;
    assert!(grown > 3 * MI, "{grown}");
    (pair, a, b)
}

/// Other associations fill half of the shared limit: the window returns to its initial size, and no SACK revokes what
/// an earlier one granted.
#[test]
fn memory_pressure_shrinks_windows_without_taking_anything_back() {
    let (mut pair, a, b) = grown_beside_others();
    for _ in 0..5 {
        let (other, _) = pair.connect();
        let message = Bytes::from(vec![7; FULL]);
        for _ in 0..MI as usize / FULL {
            pair.a.endpoint.send(pair.now, other, SendInfo::default(), message.clone()).unwrap();
        }
        stream(&mut pair, a, b, ms(2000));
    }
    let buffers = pair.b.endpoint.buffers();
    assert!(buffers.receive_bytes > 4 << 20 && buffers.receive_bytes < 8 << 20, "{buffers:?}");
    stream(&mut pair, a, b, ms(5000));
    let status = pair.b.endpoint.status(b).unwrap();
    assert_eq!(status.receive_buffer, MI, "{status:?}");
    let first =
        pair.captured().iter().find_map(|captured| data(captured).first().map(|data| data.tsn)).unwrap();
    let edges = right_edges(&pair, first, status.peer_tag.0);
    let taken_back = edges.windows(2).position(|pair| pair[1] < pair[0]);
    assert!(edges.len() > 1000 && taken_back.is_none(), "{taken_back:?} of {}", edges.len());
}

/// So does the window of an association that grew, fell silent, and has sent little since: too little to measure the
/// rate of its data.
#[test]
fn memory_pressure_shrinks_windows_of_who_was_silent() {
    let (mut pair, a, b) = grown_beside_others();
    let grown = pair.b.endpoint.status(b).unwrap().receive_buffer;
    pair.run_for(ms(1000));
    pair.recv_all(Side::B, b);
    pair.run_for(ms(3000));
    let message = Bytes::from(vec![7; FULL]);
    for _ in 0..5 {
        let (other, _) = pair.connect();
        for _ in 0..MI as usize / FULL {
            pair.a.endpoint.send(pair.now, other, SendInfo::default(), message.clone()).unwrap();
        }
        pair.run_for(ms(2000));
    }
    let buffers = pair.b.endpoint.buffers();
    assert!(buffers.receive_bytes > 4 << 20 && buffers.receive_bytes < 8 << 20, "{buffers:?}");
    pair.clear_captured();
    for _ in 0..grown as usize / FULL / 40 {
        for _ in 0..40 {
            pair.a.endpoint.send(pair.now, a, SendInfo::default(), message.clone()).unwrap();
        }
        pair.run_for(ms(500));
        assert_eq!(pair.recv_all(Side::B, b).len(), 40);
        pair.run_for(ms(3000));
    }
    let status = pair.b.endpoint.status(b).unwrap();
    assert_eq!(status.receive_buffer, MI, "it was {grown}");
    let first =
        pair.captured().iter().find_map(|captured| data(captured).first().map(|data| data.tsn)).unwrap();
    let edges = right_edges(&pair, first, status.peer_tag.0);
    assert!(edges.windows(2).all(|pair| pair[1] >= pair[0]), "nothing is taken back");
}

/// The send buffer follows the congestion window, and its content is accounted for until the end.
#[test]
fn send_buffer_follows_cwnd_and_is_accounted() {
    let a_config = EndpointConfig { send_bytes_max: 64 << 20, ..endpoint(|_| ()) };
    let mut pair = Pair::new(a_config, endpoint(|_| ()), link(ms(100), 100));
    let (a, b) = pair.connect();
    assert_eq!(pair.a.endpoint.status(a).unwrap().send_buffer, MI);
    stream(&mut pair, a, b, ms(10_000));
    let status = pair.a.endpoint.status(a).unwrap();
    assert!(status.send_buffer > 4 * MI && status.send_buffer <= 32 * MI, "{status:?}");
    assert!(status.send_buffered > 2 << 20, "{status:?}");
    let buffers = pair.a.endpoint.buffers();
    assert_eq!(buffers.send_bytes, status.send_buffered as u64);
    pair.run_for(ms(10_000));
    pair.recv_all(Side::B, b);
    pair.run_for(ms(10_000));
    assert_eq!(pair.a.endpoint.buffers().send_bytes, 0);
    assert!(pair.b.endpoint.buffers().receive_bytes < u64::from(MI), "{:?}", pair.b.endpoint.buffers());
    pair.send(Side::A, a, 0, vec![1; 5000]);
    assert_eq!(pair.a.endpoint.buffers().send_bytes, 5000);
    let now = pair.now;
    pair.a.endpoint.abort(now, a, Bytes::new()).unwrap();
    assert_eq!(pair.a.endpoint.buffers().send_bytes, 0);
}

/// When the limit of all associations is reached, each may still send a little ahead, and is notified when it may
/// send again.
#[test]
fn a_full_endpoint_still_lets_each_association_send() {
    let a_config = EndpointConfig { send_bytes_max: 1 << 20, ..endpoint(|_| ()) };
    let mut pair = Pair::new(a_config, endpoint(|_| ()), link(ms(20), 10));
    let (first, _) = pair.connect();
    let message = Bytes::from(vec![7; FULL]);
    let fill = |pair: &mut Pair, id| {
        let mut taken = 0;
        while pair.a.endpoint.send(pair.now, id, SendInfo::default(), message.clone()).is_ok() {
            taken += FULL;
        }
        taken
    };
    assert!(fill(&mut pair, first) > 900_000);
    let (second, b) = pair.connect();
    let taken = fill(&mut pair, second);
    assert!(taken > 60_000, "{taken} bytes of a new association");
    pair.events(Side::A);
    pair.run_for(ms(3000));
    let writable = |event: &(AssociationId, strandline_proto::event::Event)| {
        event.0 == second && event.1 == strandline_proto::event::Event::Writable
    };
    assert!(pair.events_with_ids(Side::A).iter().any(writable));
    assert_eq!(pair.recv_all(Side::B, b).len(), taken / FULL);
}
