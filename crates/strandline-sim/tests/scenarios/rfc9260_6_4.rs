//! RFC 9260 section 6.4 and decision 35: the first retransmission stays on its path; data lost there twice uses
//! another one.

use core::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use strandline_proto::config::{FastRetransmit, Recovery};
use strandline_sim::pair::Fate;
use strandline_wire::Tsn;

use super::rfc7829_3::TwoPaths;
use super::*;

/// Two paths of 20 ms; one chunk sent from now on is lost `losses` times. Returns the paths of its transmissions, and
/// the number of time-outs.
fn ways_of_a_chunk(losses: usize, change: impl Fn(&mut AssociationConfig)) -> (Vec<usize>, u32) {
    let mut paths = TwoPaths::new([link(ms(10), 50), link(ms(10), 50)], change);
    paths.run(ms(1000), 100_000);
    paths.pair.clear_captured();
    let unlucky: Rc<RefCell<Option<Tsn>>> = Rc::default();
    let (chosen, mut left) = (Rc::clone(&unlucky), losses);
    paths.pair.filter(move |from, packet| {
        for chunk in packet.chunks().flatten() {
            if let Ok(Chunk::Data(data)) = chunk.parse()
                && from == Side::A
                && left > 0
                && *chosen.borrow_mut().get_or_insert(data.tsn) == data.tsn
            {
                left -= 1;
                return Fate::Drop;
            }
        }
        Fate::Pass
    });
    let timeouts = |paths: &TwoPaths| paths.pair.a.endpoint.status(paths.a).unwrap().stats.timeouts;
    let before = timeouts(&paths);
    paths.run(ms(3000), 100_000);
    let addresses: BTreeMap<_, _> = paths
        .pair
        .addresses(Side::B)
        .iter()
        .enumerate()
        .map(|(path, address)| (address.ip(), path))
        .collect();
    let tsn = unlucky.borrow().unwrap();
    let carries =
        |captured: &&Captured| captured.from == Side::A && data(captured).iter().any(|data| data.tsn == tsn);
    let sent = paths.pair.captured().iter().filter(carries);
    (sent.map(|captured| addresses[&captured.datagram.destination.ip()]).collect(), timeouts(&paths) - before)
}

#[test]
fn the_first_retransmission_stays_on_its_path() {
    assert_eq!(ways_of_a_chunk(1, |_| ()), (vec![0, 0], 0));
}

#[test]
fn what_is_lost_twice_takes_another_path() {
    assert_eq!(ways_of_a_chunk(2, |_| ()), (vec![0, 0, 1], 0));
}

/// RFC 9260 alone: one fast retransmission, and then T3-rtx, after which another path is preferred (section 6.4.1).
#[test]
fn rfc_9260_changes_paths_only_by_time_out() {
    let pure = |config: &mut AssociationConfig| {
        *config =
            AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() };
    };
    assert_eq!(ways_of_a_chunk(1, pure), (vec![0, 0], 0));
    assert_eq!(ways_of_a_chunk(2, pure), (vec![0, 0, 1], 1));
}

/// Chunks lost on two paths, and detected at the same time, are each retransmitted on their own path.
#[test]
fn losses_on_two_paths_stay_on_each() {
    for recovery in [Recovery::Rack, Recovery::Rfc9260] {
        losses_on_two_paths(recovery);
    }
}

fn losses_on_two_paths(recovery: Recovery) {
    let mut paths = TwoPaths::new([link(ms(10), 50), link(ms(10), 50)], |config| config.recovery = recovery);
    paths.pair.segments_max = 16;
    paths.size = 600;
    let ahead = 60_000;
    paths.run(ms(1000), ahead);
    paths.pair.clear_captured();
    let ends = [0, 1].map(|path| paths.pair.addresses(Side::B)[path].ip());
    let (lost, used) = (Rc::new(RefCell::new(Vec::<Tsn>::new())), Rc::new(RefCell::new(0)));
    let (noted, number) = (Rc::clone(&lost), Rc::clone(&used));
    let mut told = false;
    paths.pair.filter(move |from, packet| {
        let mut noted = noted.borrow_mut();
        for chunk in packet.chunks().flatten() {
            match chunk.parse() {
                // The first packet on each path.
                Ok(Chunk::Data(data)) if from == Side::A && noted.len() == *number.borrow() => {
                    noted.push(data.tsn);
                    return Fate::Drop;
                }
                // No SACK until one reports some packets beyond both.
                Ok(Chunk::Sack(sack)) if from == Side::B && !told && !noted.is_empty() => {
                    let last = sack.gap_blocks().last().map_or(0, |block| u32::from(block.end));
                    let highest = sack.cumulative_tsn() + last;
                    told = noted.len() == 2 && highest.is_after(noted[1] + 5);
                    return if told { Fate::Pass } else { Fate::Drop };
                }
                _ => {}
            }
        }
        Fate::Pass
    });
    paths.run(ms(5), ahead);
    let now = paths.pair.now;
    *used.borrow_mut() = 1;
    paths.pair.a.endpoint.set_primary(now, paths.a, ends[1]).unwrap();
    paths.run(ms(1000), ahead);
    let lost = lost.borrow().clone();
    assert_eq!(lost.len(), 2, "{lost:?}");
    for (path, tsn) in lost.into_iter().enumerate() {
        let carries = |captured: &&Captured| {
            captured.from == Side::A && data(captured).iter().any(|data| data.tsn == tsn)
        };
        let way = |captured: &Captured| {
            ends.iter().position(|end| *end == captured.datagram.destination.ip()).unwrap()
        };
        let sent: Vec<usize> = paths.pair.captured().iter().filter(carries).map(way).collect();
        assert_eq!(sent, [path, path], "{recovery:?}");
    }
    paths.finish();
}

fn other_path(config: &mut AssociationConfig) {
    config.fast_retransmit = FastRetransmit::OtherPath;
}

/// If configured, the first retransmission uses another path, and the next one the first path again.
#[test]
fn losses_take_another_path_if_configured() {
    assert_eq!(ways_of_a_chunk(1, other_path), (vec![0, 1], 0));
    // Nothing else is sent there. A probe brings the chunk back, and the silence of the path finally counts as a
    // time-out.
    assert_eq!(ways_of_a_chunk(2, other_path), (vec![0, 1, 0], 1));
    // With RFC 9260's miss indications there is one fast retransmission, and then T3-rtx of the path where that was
    // sent.
    let pure = |config: &mut AssociationConfig| {
        *config =
            AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() };
        other_path(config);
    };
    assert_eq!(ways_of_a_chunk(1, pure), (vec![0, 1], 0));
    assert_eq!(ways_of_a_chunk(2, pure), (vec![0, 1, 0], 1));
}

/// The chunk counts in the flight of the path that it uses, and as a loss on the path where it was lost: the window
/// of that path shrinks, the other's does not, and new data stays where it was.
#[test]
fn each_path_has_its_own_recovery() {
    let mut paths = TwoPaths::new([link(ms(10), 50), link(ms(200), 50)], other_path);
    paths.run(ms(2000), 100_000);
    let before = paths.paths();
    assert_eq!(before[1].flight, 0);
    paths.pair.drop_some(Side::A, 1, strandline_sim::pair::with_chunk(kind::DATA));
    paths.run(ms(5), 100_000);
    paths.pair.clear_captured();
    paths.run(ms(60), 100_000);
    assert_eq!(paths.sent(1, kind::DATA), 1);
    let after = paths.paths();
    assert_eq!(after[1].flight, 1016, "one chunk: {after:?}");
    assert_eq!(after[1].cwnd, before[1].cwnd);
    assert!(after[0].cwnd < before[0].cwnd, "{before:?} {after:?}");
    assert!(paths.sent(0, kind::DATA) > 10);
    paths.run(ms(1000), 100_000);
    assert_eq!(paths.paths()[1].flight, 0);
    assert!(paths.paths()[1].cwnd >= before[1].cwnd, "an answer, and no loss");
    assert_eq!(paths.pair.a.endpoint.status(paths.a).unwrap().stats.timeouts, 0);
    paths.finish();
}

/// It may be set during the association. With one path, or no other active one, nothing changes.
#[test]
fn other_path_is_used_only_if_present() {
    let mut paths = TwoPaths::new([link(ms(10), 50), link(ms(10), 50)], |_| ());
    let lose = |paths: &mut TwoPaths| {
        paths.run(ms(1000), 100_000);
        paths.pair.clear_captured();
        paths.pair.drop_some(Side::A, 1, strandline_sim::pair::with_chunk(kind::DATA));
        paths.run(ms(500), 100_000);
        (paths.sent(1, kind::DATA), paths.pair.a.endpoint.status(paths.a).unwrap().stats.timeouts)
    };
    assert_eq!(lose(&mut paths), (0, 0));
    let mut config = AssociationConfig { path_mtu_initial: 1500, ..AssociationConfig::default() };
    other_path(&mut config);
    let now = paths.pair.now;
    paths.pair.a.endpoint.configure(now, paths.a, Arc::new(config)).unwrap();
    assert_eq!(lose(&mut paths), (1, 0));
    paths.cut(1);
    let now = paths.pair.now;
    let other = paths.pair.addresses(Side::B)[1].ip();
    paths.pair.a.endpoint.request_heartbeat(now, paths.a, other).unwrap();
    paths.run(ms(3000), 100_000);
    assert_ne!(paths.paths()[1].state, strandline_proto::stats::Reachability::Active);
    assert_eq!(lose(&mut paths), (0, 0));

    let mut pair = Pair::new(endpoint(other_path), endpoint(other_path), link(ms(10), 50));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(1000));
    pair.drop_some(Side::A, 3, strandline_sim::pair::with_chunk(kind::DATA));
    assert!(stream(&mut pair, a, b, ms(1000)) > 1_000_000);
    let stats = pair.a.endpoint.status(a).unwrap().stats;
    assert!(stats.retransmissions >= 3 && stats.timeouts == 0, "{stats:?}");
}
