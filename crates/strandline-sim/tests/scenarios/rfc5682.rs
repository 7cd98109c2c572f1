//! RFC 5682, F-RTO: after a time-out only the first packet is retransmitted. If the earlier flight turns out to have
//! arrived, nothing else is, and the old window is restored.

use core::cell::Cell;
use std::rc::Rc;

use strandline_proto::congestion::Algorithm;
use strandline_proto::time::Time;
use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// Blocks the path from now on: what A sends within `time` arrives after that, and the first chunk sent `ahead`
/// before the others.
fn stands_still(scene: &mut Scene, messages: usize, time: Duration, ahead: Duration) {
    stands_still_and_loses(scene, messages, time, ahead, None);
}

/// As [`stands_still`], and loses the first transmission of chunk `lost.0` and the first `lost.1` SACKs.
fn stands_still_and_loses(
    scene: &mut Scene,
    messages: usize,
    time: Duration,
    ahead: Duration,
    lost: Option<(u32, usize)>,
) {
    let (until, first) = (scene.pair.now + time, scene.first);
    let mut sacks = lost.map_or(0, |(_, sacks)| sacks);
    let mut lost = lost.map(|(number, _)| first + number);
    let now = Rc::new(Cell::new(scene.pair.now));
    let clock = Rc::clone(&now);
    let is_first = move |packet: &Packet<'_>| {
        let mut chunks = packet.chunks().flatten().filter_map(|chunk| chunk.parse().ok());
        chunks.any(|chunk| matches!(chunk, Chunk::Data(data) if data.tsn == first))
    };
    scene.pair.filter(move |from, packet| {
        let mut chunks = packet.chunks().flatten().filter_map(|chunk| chunk.parse().ok());
        let mut is_lost = |tsn| chunks.any(|chunk| matches!(chunk, Chunk::Data(data) if data.tsn == tsn));
        if from == Side::A && lost.take_if(|tsn| is_lost(*tsn)).is_some() {
            return Fate::Drop;
        }
        if from == Side::B && sacks > 0 {
            sacks -= 1;
            return Fate::Drop;
        }
        let until = if is_first(packet) {
            Time::from_nanos(until.as_nanos() - ahead.as_nanos() as u64)
        } else {
            until
        };
        let left = until.since(clock.get());
        if from == Side::A && !left.is_zero() { Fate::Delay(left) } else { Fate::Pass }
    });
    scene.give(messages);
    let end = scene.pair.now + time.max(ms(1500)) + ms(1500);
    let b = scene.b;
    while scene.pair.now < end {
        now.set(scene.pair.now);
        scene.pair.run_until(ms(1), |pair| {
            pair.recv_all(Side::B, b);
            false
        });
    }
}

/// The answers are in flight when T3-rtx expires, or arrive long after: that to the second chunk proves that it was
/// spurious.
#[test]
fn needless_time_out_sends_little_and_is_undone() {
    for late in [985, 1100, 1250, 1800] {
        let mut scene = Scene::new(|_| ());
        let before = scene.path().cwnd;
        stands_still(&mut scene, 8, ms(late), ms(0));
        let stats = scene.stats();
        assert_eq!((stats.timeouts, stats.undone), (1, 1), "{late}: {:?}", scene.sent());
        // The lowest chunk, besides the probes, which send the highest one.
        let again: Vec<u32> = scene.sent_again().into_iter().filter(|number| *number != 7).collect();
        assert_eq!(again, [0], "{late}: {:?}", scene.sent());
        assert!(scene.path().cwnd >= before, "{late}: {before} before, {:?}", scene.path());
        let path = scene.path();
        let measured = path.srtt.unwrap() + path.rttvar.unwrap() * 4;
        assert_eq!(path.rto, measured.max(ms(1000)), "{late}: not backed off");
        assert!(scene.all_is_acknowledged());
    }
}

/// Section 3.2: a pause of several time-outs. All of them were spurious, and the window before the first is restored.
/// Besides the probes, each retransmitted only the lowest chunk.
#[test]
fn pause_of_several_time_outs_is_undone() {
    for algorithm in
        [Algorithm::Cubic, Algorithm::Rfc9260, Algorithm::Dctcp, Algorithm::Swift, Algorithm::Bbr]
    {
        for (late, timeouts) in [(2500, 1), (3500, 2), (6500, 2), (7800, 3)] {
            let mut scene = Scene::new(|config| config.congestion = algorithm);
            let before = scene.path();
            stands_still(&mut scene, 8, ms(late), ms(0));
            let (stats, path) = (scene.stats(), scene.path());
            let case = format!("{algorithm:?} {late}");
            assert_eq!((stats.timeouts, stats.undone), (timeouts, 1), "{case}: {:?}", scene.sent());
            let early = scene.sent().into_iter().filter(|seen| seen.ms < 900);
            let highest = early.flat_map(|seen| seen.numbers).max();
            let again = scene.sent_again();
            assert!(again.iter().all(|number| *number == 0 || Some(*number) == highest), "{case}: {again:?}");
            assert_eq!(scene.times(0).len() as u32, 1 + timeouts, "{case}");
            assert!(path.cwnd >= before.cwnd, "{case}: {before:?}, {path:?}");
            assert!(path.ssthresh >= before.ssthresh, "{case}: {before:?}, {path:?}");
            let measured = path.srtt.unwrap() + path.rttvar.unwrap() * 4;
            assert_eq!(path.rto, measured.max(ms(1000)), "{case}: not backed off");
            assert!(scene.all_is_acknowledged());
        }
    }
}

/// One packet of the flight was lost: this shrinks the window of before the time-out.
#[test]
fn loss_among_late_data_shrinks_the_earlier_window() {
    for late in [1100, 1250, 1800] {
        for (lost, sacks) in [(2, 0), (2, 1), (2, 2), (2, 3), (4, 2), (4, 3), (4, 4)] {
            let mut scene = Scene::new(|_| ());
            let before = scene.path().cwnd;
            stands_still_and_loses(&mut scene, 8, ms(late), ms(0), Some((lost, sacks)));
            let (stats, path) = (scene.stats(), scene.path());
            assert_eq!((stats.timeouts, stats.undone), (1, 1), "{late}, {lost}, {sacks}: {:?}", scene.sent());
            assert!(path.cwnd >= before / 100 * 65, "{late}, {lost}, {sacks}: {before} before, {path:?}");
            assert!(scene.all_is_acknowledged());
        }
    }
}

/// The answer to the first chunk arrives alone. Two packets of new data test its meaning; before their answers, that
/// to older data arrives.
#[test]
fn new_data_asks_meanwhile() {
    let mut scene = Scene::new(|_| ());
    let before = scene.path().cwnd;
    stands_still(&mut scene, 60, ms(1150), ms(100));
    let stats = scene.stats();
    assert_eq!((stats.timeouts, stats.undone), (1, 1), "{:?}", scene.sent());
    let highest_before =
        scene.sent().iter().filter(|seen| seen.ms < 900).flat_map(|seen| seen.numbers.clone()).max();
    let highest_before = highest_before.unwrap();
    assert!(
        scene.sent_again().iter().all(|number| *number == 0 || *number >= highest_before),
        "{:?}",
        scene.sent()
    );
    let asked = scene.times(highest_before + 1);
    assert!((1080..1150).contains(&asked[0]), "{asked:?}");
    assert_eq!(scene.times(highest_before + 2)[0], asked[0], "two packets");
    assert!(scene.times(highest_before + 3)[0] > asked[0], "and no more");
    assert!(scene.path().cwnd >= before, "{before} before, {:?}", scene.path());
    assert!(scene.all_is_acknowledged());
}

/// Everything was lost: the answer to the first chunk shows it, and the others follow a round trip later.
#[test]
fn a_true_one_sends_all_again() {
    let mut scene = Scene::new(|_| ());
    // The probes are lost as well.
    for number in 0..8 {
        scene.fate(number, &[Fate::Drop; 5][..if number == 7 { 5 } else { 1 }]);
    }
    scene.give(8);
    scene.run(ms(3000));
    assert!(scene.all_is_acknowledged(), "{:?}", scene.sent());
    assert_eq!((scene.stats().timeouts, scene.stats().undone), (1, 0));
    let first = scene.times(0);
    for number in 0..7 {
        let times = scene.times(number);
        assert_eq!(times.len(), 2, "{number}: {:?}", scene.sent());
        assert!(times[1] <= first[1] + 200, "{number}: {:?}", scene.sent());
    }
}

/// RFC 9260 alone has no such mechanism: the window stays small.
#[test]
fn rfc_9260_alone_undoes_nothing() {
    let mut scene = Scene::new(|config| {
        *config =
            AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() };
    });
    let before = scene.path();
    stands_still(&mut scene, 4, ms(1100), ms(0));
    let stats = scene.stats();
    assert_eq!((stats.timeouts, stats.undone), (1, 0), "{:?}", scene.sent());
    assert!(scene.path().ssthresh < before.ssthresh, "{before:?} before, {:?}", scene.path());
}
