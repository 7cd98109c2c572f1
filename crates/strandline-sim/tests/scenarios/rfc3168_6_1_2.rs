//! RFC 3168 section 6.1.2 with several paths: a mark concerns the path that its packet took, and ECNE and CWR reach
//! the other side whatever path data uses by then.

use strandline_netem::Change;
use strandline_proto::config::Multipath;
use strandline_proto::stats::PathStatus;
use strandline_sim::pair::{Fate, with_chunk};

use super::rfc7829_3::TwoPaths;
use super::*;

/// Two paths of 60 ms, without data on the second one so far.
fn two() -> TwoPaths {
    TwoPaths::new([link(ms(30), 20), link(ms(30), 20)], |config| config.extensions.ecn = true)
}

/// Enough in flight that the window, not the queue of the path, is the limit.
const AHEAD: usize = 200_000;

/// Marks the next packets with data of A.
fn mark_next(paths: &mut TwoPaths, packets: usize) {
    let (mut left, mut is_data) = (packets, with_chunk(kind::DATA));
    paths.pair.filter(move |from, packet| {
        let marks = from == Side::A && left > 0 && is_data(packet);
        left -= usize::from(marks);
        if marks { Fate::Mark } else { Fate::Pass }
    });
}

/// Returns when packets with such a chunk were sent, and on which path.
fn went(paths: &TwoPaths, side: Side, kind: u8) -> Vec<(strandline_proto::time::Time, usize)> {
    let addresses = paths.pair.addresses(side.other());
    let of = |captured: &&Captured| captured.from == side && captured.chunk_kinds().contains(&kind);
    let path = |captured: &Captured| {
        let to = captured.datagram.destination.ip();
        addresses.iter().position(|address| address.ip() == to).expect("an address of it")
    };
    paths.pair.captured().iter().filter(of).map(|captured| (captured.at, path(captured))).collect()
}

fn ssthreshs(paths: &TwoPaths) -> [u32; 2] {
    [0, 1].map(|path| paths.paths()[path].ssthresh)
}

/// A packet on the first path is marked, and data moves to the second one before that is reported.
fn marked_then_moved(paths: &mut TwoPaths) -> PathStatus {
    paths.run(ms(1000), AHEAD);
    mark_next(paths, 1);
    paths.pair.clear_captured();
    paths.run(ms(10), AHEAD);
    let before = paths.paths()[0].clone();
    let second = paths.pair.addresses(Side::B)[1].ip();
    let (now, a) = (paths.pair.now, paths.a);
    paths.pair.a.endpoint.set_primary(now, a, second).unwrap();
    before
}

#[test]
fn marked_paths_window_shrinks_and_cwr_moves() {
    let mut paths = two();
    let before = marked_then_moved(&mut paths);
    let mut second = 0;
    for _ in 0..600 {
        paths.run(ms(1), AHEAD);
        let now = paths.paths()[1].cwnd;
        assert!(now >= second, "nothing was marked there: {:?}", paths.paths());
        second = now;
    }
    let (cwnd, [first, _]) = (paths.paths()[0].cwnd, ssthreshs(&paths));
    assert!(cwnd < before.cwnd / 4 * 3 && first < before.ssthresh, "{before:?} and {cwnd}");
    assert_eq!(paths.pair.b.endpoint.status(paths.b).unwrap().stats.marks_received, 1);
    let (told, answered) = (went(&paths, Side::B, kind::ECNE), went(&paths, Side::A, kind::CWR));
    assert!(answered.iter().all(|(_, path)| *path == 1), "{answered:?}");
    // Reported until the first CWR has arrived, which takes 30 ms and a packet; and each report is answered.
    let (last, first) = (told.last().unwrap().0, answered[0].0);
    assert!(last.since(first) < ms(40) && told.len() > 1, "{told:?} {answered:?}");
    assert!(answered.len() <= told.len());
    assert_eq!(paths.paths()[0].cwnd, cwnd, "once");
    paths.finish();
}

/// The CWR is lost: ECNE is repeated, each one is answered again, and the window shrinks once.
#[test]
fn lost_cwr_is_repeated_without_second_cut() {
    let mut paths = two();
    marked_then_moved(&mut paths);
    paths.pair.drop_some(Side::A, 3, with_chunk(kind::CWR));
    while went(&paths, Side::A, kind::CWR).is_empty() {
        paths.run(ms(1), AHEAD);
    }
    let shrunk = (paths.paths()[0].cwnd, paths.paths()[0].ssthresh);
    paths.run(ms(1000), AHEAD);
    let (told, answered) = (went(&paths, Side::B, kind::ECNE), went(&paths, Side::A, kind::CWR));
    assert!(answered.len() > 3, "{answered:?}");
    let (last, arrives) = (told.last().unwrap().0, answered[3].0);
    assert!(last > answered[2].0 && last.since(arrives) < ms(40), "{told:?} {answered:?}");
    assert_eq!((paths.paths()[0].cwnd, paths.paths()[0].ssthresh), shrunk);
    paths.finish();
}

/// The mark is reported only when the marked data was retransmitted on the other path: all of it after a time-out, or
/// one packet as a tail-loss probe (decision 35). It still concerns the first path.
#[test]
fn moved_retransmission_leaves_its_mark_behind() {
    for (messages, by_probe) in [(5, false), (1, true)] {
        let mut paths = TwoPaths::new([link(ms(30), 20), link(ms(30), 20)], |config| {
            config.extensions.ecn = true;
            config.path_silence_max = config.path_silence_max.filter(|_| !by_probe);
        });
        paths.run(ms(500), 5000);
        paths.run(ms(1000), 0);
        paths.pair.clear_captured();
        mark_next(&mut paths, messages);
        let (of_a, of_b) = (paths.pair.addresses(Side::A), paths.pair.addresses(Side::B));
        for (a, b) in of_a.iter().zip(&of_b) {
            paths.pair.network.link(b.ip(), a.ip()).change(Change::Cut);
        }
        for _ in 0..messages {
            paths.pair.send(Side::A, paths.a, 0, vec![1; FULL]);
        }
        // B's report about the first path reaches A only when everything was retransmitted on the second one.
        let elsewhere =
            |paths: &TwoPaths| went(paths, Side::A, kind::DATA).iter().filter(|(_, path)| *path == 1).count();
        for _ in 0..1500 {
            paths.pair.run_for(ms(1));
            if elsewhere(&paths) >= messages {
                paths.pair.network.link(of_b[1].ip(), of_a[1].ip()).change(Change::Heal);
            }
        }
        assert!(elsewhere(&paths) >= messages, "{:#?}", paths.pair.printed());
        let stats = |endpoint: &strandline_proto::endpoint::Endpoint, id| endpoint.status(id).unwrap().stats;
        assert_eq!(stats(&paths.pair.b.endpoint, paths.b).marks_received, messages as u32);
        assert!(went(&paths, Side::B, kind::ECNE).iter().any(|(_, path)| *path == 1));
        assert_eq!(stats(&paths.pair.a.endpoint, paths.a).timeouts == 0, by_probe);
        let [first, second] = ssthreshs(&paths);
        assert!(first < u32::MAX, "{messages}: {:?}", paths.paths());
        assert_eq!(second, u32::MAX, "{messages}: {:?}", paths.paths());
    }
}

/// Two paths at once, which mark when more than this many bytes are queued.
fn at_once(mark_bytes: [usize; 2]) -> TwoPaths {
    let marking = |bytes| LinkConfig { mark_bytes: bytes, ..link(ms(30), 20) };
    TwoPaths::new(mark_bytes.map(marking), |config| {
        config.extensions.ecn = true;
        config.extensions.multipath = Multipath::Independent;
        (config.send_buffer, config.receive_buffer) = (Some(4 << 20), Some(4 << 20));
    })
}

/// Returns the numbers of marked packets that A has heard of for each path, and B's number of them.
fn reported(paths: &TwoPaths) -> ([u32; 2], u32) {
    let reported = [0, 1].map(|path| paths.paths()[path].marks_reported);
    (reported, paths.pair.b.endpoint.status(paths.b).unwrap().stats.marks_received)
}

/// With several paths at once each path's marks are reported by themselves, all of them, and shrink its window alone.
#[test]
fn marks_concern_their_own_path() {
    const NEVER: usize = usize::MAX;
    for thresholds in [[40_000, NEVER], [NEVER, 40_000], [40_000, 40_000]] {
        let mut paths = at_once(thresholds);
        paths.run(ms(3000), 3 * AHEAD);
        paths.run(ms(2000), 0);
        let (of_paths, received) = reported(&paths);
        assert_eq!(of_paths.iter().sum::<u32>(), received, "{thresholds:?}: {of_paths:?}");
        for (path, threshold) in thresholds.into_iter().enumerate() {
            assert_eq!(of_paths[path] > 0, threshold != NEVER, "{thresholds:?}: {of_paths:?}");
        }
        paths.finish();
    }
}

/// Two paths mark at one time: neither is answered only once the other one's CWR has arrived, and no mark is
/// lost by that.
#[test]
fn two_paths_mark_at_one_time() {
    let mut paths = at_once([usize::MAX; 2]);
    paths.run(ms(1500), 3 * AHEAD);
    let before = [0, 1].map(|path| paths.paths()[path].cwnd);
    for bytes in [0, usize::MAX] {
        for path in 0..2 {
            paths.change(path, &Change::Mark(bytes));
        }
        paths.run(ms(100), 3 * AHEAD);
    }
    paths.run(ms(300), 3 * AHEAD);
    let (of_paths, received) = reported(&paths);
    assert!(of_paths.iter().all(|marks| *marks > 0), "{of_paths:?}");
    assert_eq!(of_paths.iter().sum::<u32>(), received);
    for (path, before) in before.into_iter().enumerate() {
        let after = &paths.paths()[path];
        assert!(after.ssthresh < before, "{before} {after:?}");
    }
    paths.finish();
}
