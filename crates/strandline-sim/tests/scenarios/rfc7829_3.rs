//! RFC 7829 section 3: a potentially failed path, which is left at once and returned to at once, and the detection of
//! a silent path before T3-rtx.

use strandline_netem::Change;
use strandline_proto::congestion::Algorithm;
use strandline_proto::event::{Event, PathChange};
use strandline_proto::stats::{PathStatus, Reachability};
use strandline_sim::pair::Fate;

use super::*;

/// Two hosts with two addresses each, and a path between the first two and one between the second two.
pub struct TwoPaths {
    pub pair: Pair,
    pub a: AssociationId,
    pub b: AssociationId,
    /// Size of each message in bytes.
    pub size: usize,
    /// Numbers of the next message to send and to read.
    next: [u32; 2],
}

impl TwoPaths {
    /// Sets up an association with both paths confirmed.
    pub fn new(links: [LinkConfig; 2], change: impl Fn(&mut AssociationConfig)) -> Self {
        let host = |last: [u8; 2]| EndpointConfig {
            local_addresses: vec![[10, 0, last[0], last[1]].into(), [10, 1, last[0], last[1]].into()],
            ..endpoint(&change)
        };
        let mut pair = Pair::new(host([0, 1]), host([1, 1]), LinkConfig::default());
        for (path, link) in links.into_iter().enumerate() {
            Self::change_path(&mut pair, path, &Change::Config(link));
        }
        let (a, b) = pair.connect();
        let mut paths = Self { pair, a, b, size: 1000, next: [0, 0] };
        paths.run(ms(2000), 0);
        assert!(paths.paths().iter().all(|path| path.state == Reachability::Active), "{:?}", paths.paths());
        paths
    }

    fn change_path(pair: &mut Pair, path: usize, change: &Change) {
        let (a, b) = (pair.addresses(Side::A)[path].ip(), pair.addresses(Side::B)[path].ip());
        pair.network.link(a, b).change(change.clone());
        pair.network.link(b, a).change(change.clone());
    }

    pub fn change(&mut self, path: usize, change: &Change) {
        Self::change_path(&mut self.pair, path, change);
    }

    pub fn cut(&mut self, path: usize) {
        Self::change_path(&mut self.pair, path, &Change::Cut);
    }

    pub fn heal(&mut self, path: usize) {
        Self::change_path(&mut self.pair, path, &Change::Heal);
    }

    pub fn paths(&self) -> Vec<PathStatus> {
        self.pair.a.endpoint.paths(self.a).unwrap()
    }

    /// Keeps `ahead` bytes in the send buffer and reads, which checks that nothing is lost, duplicated or out of
    /// order.
    pub fn run(&mut self, time: Duration, ahead: usize) {
        let Self { pair, a, b, size, next } = self;
        let (a, b, size) = (*a, *b, *size);
        let mut act = |pair: &mut Pair| {
            while pair.a.endpoint.status(a).unwrap().send_buffered < ahead {
                let mut message = vec![0; size];
                message[..4].copy_from_slice(&next[0].to_be_bytes());
                pair.send(Side::A, a, 0, message);
                next[0] += 1;
            }
            for message in pair.recv_all(Side::B, b) {
                assert_eq!(message.data[..4], next[1].to_be_bytes());
                next[1] += 1;
            }
        };
        act(pair);
        pair.run_until(time, |pair| {
            act(pair);
            false
        });
    }

    /// Stops sending, and checks that everything arrives.
    pub fn finish(&mut self) {
        self.run(ms(20_000), 0);
        assert_eq!(self.next[0], self.next[1], "all has arrived");
    }

    /// Returns how long nothing new is read from now on.
    pub fn standstill(&mut self, ahead: usize) -> Duration {
        // What was in flight when the path was cut still arrives.
        self.run(ms(60), ahead);
        let (began, read) = (self.pair.now, self.next[1]);
        while self.next[1] == read {
            self.run(ms(1), ahead);
            assert!(self.pair.now.since(began) < ms(100_000), "it never goes on: {:?}", self.paths());
        }
        self.pair.now.since(began) + ms(60)
    }

    pub fn changes(&mut self, path: usize) -> Vec<PathChange> {
        let address = self.pair.addresses(Side::B)[path];
        let of = |event| match event {
            Event::PathChanged { address: of, change } if of.ip() == address.ip() => Some(change),
            _ => None,
        };
        self.pair.events(Side::A).into_iter().filter_map(of).collect()
    }

    /// Returns the number of packets of A with such a chunk on a path.
    pub fn sent(&self, path: usize, kind: u8) -> usize {
        let to = self.pair.addresses(Side::B)[path].ip();
        let wanted = |captured: &&Captured| {
            captured.from == Side::A
                && captured.datagram.destination.ip() == to
                && captured.chunk_kinds().contains(&kind)
        };
        self.pair.captured().iter().filter(wanted).count()
    }
}

fn lan() -> LinkConfig {
    LinkConfig { queue_bytes_max: 200_000, ..link(Duration::from_micros(100), 1000) }
}

fn wide() -> LinkConfig {
    LinkConfig { queue_bytes_max: 200_000, ..link(ms(30), 20) }
}

/// With default parameters: on a LAN within 400 ms under load, otherwise within a second.
#[test]
fn cut_path_is_left_within_detection_time() {
    for (name, link, ahead, limit) in [
        ("LAN, full load", lan(), 500_000, ms(400)),
        ("LAN, a message at a time", lan(), 1000, ms(800)),
        ("60 ms, full load", wide(), 200_000, ms(1000)),
        ("60 ms, a message at a time", wide(), 1000, ms(1000)),
    ] {
        let mut paths = TwoPaths::new([link.clone(), link], |_| ());
        paths.run(ms(1000), ahead);
        paths.changes(0);
        paths.cut(0);
        let standstill = paths.standstill(ahead);
        assert!(standstill <= limit, "{name}: {standstill:?}");
        assert_eq!(paths.changes(0), [PathChange::PotentiallyFailed], "{name}");
        paths.finish();
    }
}

/// Without the limit on silence only T3-rtx detects it: rule 2.
#[test]
fn rule_2_one_time_out_is_enough() {
    let mut paths = TwoPaths::new([lan(), lan()], |config| config.path_silence_max = None);
    paths.run(ms(1000), 500_000);
    paths.changes(0);
    paths.cut(0);
    let standstill = paths.standstill(500_000);
    assert!(standstill > ms(900) && standstill < ms(1200), "{standstill:?}");
    assert_eq!(paths.changes(0), [PathChange::PotentiallyFailed]);
    paths.finish();
}

/// Rule 1: no limit, or one of as many errors as make the path inactive, is RFC 9260.
#[test]
fn rule_1_without_the_state_inactivity_decides() {
    for retrans_max in [None, Some(2)] {
        let mut paths = TwoPaths::new([lan(), lan()], |config| {
            config.path_retrans_max = 2;
            config.potentially_failed_retrans_max = retrans_max;
        });
        paths.run(ms(1000), 500_000);
        paths.changes(0);
        paths.cut(0);
        paths.run(ms(30_000), 500_000);
        assert_eq!(paths.changes(0), [PathChange::Inactive]);
        paths.finish();
    }
}

/// Rules 3, 5 and 6: data stays away, and HEARTBEATs are sent once per RTO, which doubles.
#[test]
fn rules_3_5_and_6_heartbeats_probe_without_data() {
    let mut paths = TwoPaths::new([lan(), lan()], |_| ());
    paths.run(ms(1000), 100_000);
    paths.cut(0);
    paths.run(ms(500), 100_000);
    assert_eq!(paths.paths()[0].state, Reachability::PotentiallyFailed);
    paths.pair.clear_captured();
    // The RTO is 2 s after the time-out: the first was sent at once, the others follow after 2, 4 and 8 s.
    paths.run(ms(15_000), 1000);
    assert_eq!((paths.sent(0, kind::DATA), paths.sent(0, kind::HEARTBEAT)), (0, 3));
    assert!(paths.sent(1, kind::DATA) > 50);
}

/// Rule 5: if heartbeats are switched off, none is sent.
#[test]
fn rule_5_heartbeats_that_are_off_stay_off() {
    let mut paths = TwoPaths::new([lan(), lan()], |_| ());
    let mut config = AssociationConfig { heartbeat_interval: None, ..AssociationConfig::default() };
    config.path_mtu_initial = 1500;
    let now = paths.pair.now;
    paths.pair.a.endpoint.configure(now, paths.a, Arc::new(config)).unwrap();
    paths.run(ms(1000), 100_000);
    paths.cut(0);
    paths.pair.clear_captured();
    paths.run(ms(10_000), 1000);
    assert_eq!(paths.paths()[0].state, Reachability::PotentiallyFailed);
    assert_eq!(paths.sent(0, kind::HEARTBEAT), 0);
}

/// Rule 4: with no active path, the potentially failed one with the fewest errors.
#[test]
fn rule_4_fewest_errors_among_failing_paths() {
    let mut paths = TwoPaths::new([lan(), lan()], |_| ());
    paths.run(ms(1000), 100_000);
    paths.cut(0);
    paths.run(ms(6000), 100_000);
    paths.cut(1);
    paths.run(ms(1500), 100_000);
    let states = paths.paths();
    assert!(states.iter().all(|path| path.state == Reachability::PotentiallyFailed), "{states:?}");
    assert!(states[1].error_count < states[0].error_count, "{states:?}");
    paths.heal(1);
    let standstill = paths.standstill(100_000);
    assert!(standstill < ms(7000), "{standstill:?}");
    paths.finish();
}

/// Rules 7 and 8: an answer brings the path back, and data with it. Without one it becomes inactive.
#[test]
fn rules_7_and_8_answer_recovers_and_silence_fails() {
    let mut paths = TwoPaths::new([lan(), lan()], |_| ());
    paths.run(ms(1000), 100_000);
    paths.changes(0);
    paths.cut(0);
    paths.run(ms(1000), 100_000);
    paths.heal(0);
    paths.run(ms(2000), 100_000);
    assert_eq!(paths.changes(0), [PathChange::PotentiallyFailed, PathChange::Active]);
    paths.pair.clear_captured();
    paths.run(ms(100), 100_000);
    assert!(paths.sent(0, kind::DATA) > 0 && paths.sent(1, kind::DATA) == 0);
    paths.cut(0);
    paths.run(ms(120_000), 1000);
    assert_eq!(paths.changes(0), [PathChange::PotentiallyFailed, PathChange::Inactive]);
    paths.finish();
}

/// A path that was silent for a moment is used again as soon as it answers, with the window that one loss leaves: its
/// flight is gone.
#[test]
fn short_silence_costs_no_more_than_loss() {
    let mut paths = TwoPaths::new([wide(), wide()], |_| ());
    paths.run(ms(5000), 300_000);
    let before = paths.paths()[0].cwnd;
    paths.cut(0);
    paths.run(ms(650), 300_000);
    paths.heal(0);
    paths.changes(0);
    paths.run(ms(3000), 300_000);
    let after = paths.paths()[0].clone();
    assert_eq!(after.state, Reachability::Active);
    assert!(after.cwnd >= before / 100 * 69, "{before} before, {after:?}");
    paths.finish();
}

/// Blocks a path: everything that A sends on it within `time` arrives at the end, in order.
fn stand_still(paths: &mut TwoPaths, path: usize, link: &LinkConfig, time: Duration, ahead: usize) {
    let end = paths.pair.now + time;
    while paths.pair.now < end {
        let left = end.since(paths.pair.now);
        let (a, b) = (paths.pair.addresses(Side::A)[path].ip(), paths.pair.addresses(Side::B)[path].ip());
        let held = LinkConfig { delay: link.delay + left, ..link.clone() };
        paths.pair.network.link(a, b).change(Change::Config(held));
        paths.run(left.min(Duration::from_micros(500)), ahead);
    }
    TwoPaths::change_path(&mut paths.pair, path, &Change::Config(link.clone()));
}

/// Rule 9: the other path is blocked, its data is retransmitted on the dead one, and then the originals arrive. That
/// is no answer from the dead path.
#[test]
fn rule_9_data_on_both_paths_proves_neither() {
    for pause in [1300, 1500, 1800] {
        let mut paths = TwoPaths::new([lan(), lan()], |_| ());
        paths.run(ms(1000), 100_000);
        paths.cut(0);
        paths.run(ms(400), 100_000);
        assert_eq!(paths.paths()[0].state, Reachability::PotentiallyFailed);
        paths.changes(0);
        paths.pair.clear_captured();
        stand_still(&mut paths, 1, &lan(), ms(pause), 100_000);
        assert!(paths.sent(0, kind::DATA) > 0, "{pause} ms: {:?}", paths.paths());
        paths.run(ms(100), 100_000);
        let states = paths.paths();
        let path = (states[0].state, states[0].error_count > 0);
        assert_eq!(path, (Reachability::PotentiallyFailed, true), "{pause} ms: {states:?}");
        paths.pair.clear_captured();
        paths.run(ms(3000), 100_000);
        assert!(!paths.changes(0).contains(&PathChange::Active), "{pause} ms");
        assert_eq!(paths.paths()[1].state, Reachability::Active, "{pause} ms");
        assert_eq!(paths.sent(0, kind::DATA), 0, "{pause} ms");
        paths.finish();
    }
}

/// Rule 10: with no active path left, the acknowledgement of data that was sent on one path only brings that path
/// back, without a HEARTBEAT.
#[test]
fn rule_10_data_on_one_path_recovers_it() {
    let mut paths = TwoPaths::new([lan(), lan()], |config| config.heartbeat_interval = None);
    paths.run(ms(1000), 20_000);
    paths.cut(0);
    paths.run(ms(1000), 20_000);
    paths.cut(1);
    paths.run(ms(1500), 20_000);
    let states = paths.paths();
    assert!(states.iter().all(|path| path.state == Reachability::PotentiallyFailed), "{states:?}");
    paths.heal(0);
    paths.heal(1);
    paths.run(ms(15_000), 20_000);
    assert!(paths.paths().iter().any(|path| path.state == Reachability::Active), "{:?}", paths.paths());
    paths.finish();
}

/// A path is blocked for longer than the limit on silence, and nothing is lost on it. The old window is restored,
/// whichever of its packets had been retransmitted as probes, and on which path, when it was left.
#[test]
fn silence_in_which_nothing_is_lost_is_undone() {
    for (delay, mbps) in [(100, 1000), (500, 1000), (5_000, 100), (10_000, 20), (30_000, 20)] {
        for pause in [470, 520, 590] {
            let link = LinkConfig { queue_bytes_max: 200_000, ..link(Duration::from_micros(delay), mbps) };
            let mut paths = TwoPaths::new([link.clone(), link.clone()], |_| ());
            paths.run(ms(1500), 60_000);
            let before = paths.paths()[0].clone();
            let undone = paths.pair.a.endpoint.status(paths.a).unwrap().stats.undone;
            stand_still(&mut paths, 0, &link, ms(pause), 60_000);
            let case = format!("{delay} us, {pause} ms");
            let stats = paths.pair.a.endpoint.status(paths.a).unwrap().stats;
            assert_eq!(stats.timeouts, 1, "{case}: {:?}", paths.paths());
            paths.run(ms(500), 60_000);
            let stats = paths.pair.a.endpoint.status(paths.a).unwrap().stats;
            assert_eq!(stats.undone, undone + 1, "{case}: {:?}", paths.paths());
            assert!(paths.paths()[0].cwnd >= before.cwnd, "{case}: {before:?} {:?}", paths.paths());
            paths.finish();
        }
    }
}

/// Section 5: with a limit for the primary path the other one becomes primary permanently.
#[test]
fn section_5_the_primary_path_switches_over() {
    let mut paths = TwoPaths::new([lan(), lan()], |config| config.primary_switchover_retrans_max = Some(0));
    paths.run(ms(1000), 100_000);
    paths.changes(1);
    paths.cut(0);
    paths.run(ms(1000), 100_000);
    assert_eq!(paths.changes(1), [PathChange::Primary]);
    paths.heal(0);
    paths.run(ms(5000), 100_000);
    let states = paths.paths();
    assert!(states[1].primary && states[0].state == Reachability::Active, "{states:?}");
    paths.pair.clear_captured();
    paths.run(ms(100), 100_000);
    assert!(paths.sent(0, kind::DATA) == 0 && paths.sent(1, kind::DATA) > 0);
}

/// From 1,500 bytes and 10 ms to 1,300 bytes and 100 ms, and back.
#[test]
fn paths_of_another_mtu_and_delay_take_over() {
    let small = LinkConfig { size_max: 1300, ..link(ms(50), 20) };
    let mut paths = TwoPaths::new([link(ms(5), 20), small], |config| config.path_mtu_initial = 1280);
    paths.run(ms(5000), 300_000);
    assert!(paths.paths()[0].mtu > 1400, "{:?}", paths.paths());
    for _ in 0..3 {
        paths.cut(0);
        let standstill = paths.standstill(300_000);
        assert!(standstill < ms(1500), "{standstill:?}");
        paths.run(ms(2000), 300_000);
        let states = paths.paths();
        assert!(states[1].mtu <= 1300 && states[1].srtt.unwrap() > ms(90), "{states:?}");
        paths.heal(0);
        paths.run(ms(6000), 300_000);
        assert_eq!(paths.paths()[0].state, Reachability::Active, "{:?}", paths.paths());
    }
    paths.finish();
}

/// A chunk that is lost a second time uses the other path, without a time-out.
#[test]
fn what_is_lost_twice_takes_the_other_path() {
    let mut paths = TwoPaths::new([wide(), wide()], |_| ());
    paths.run(ms(3000), 100_000);
    let mut victim = None;
    let mut lost = 0;
    paths.pair.filter(move |side, packet| {
        let data = packet.chunks().flatten().find_map(|chunk| match chunk.parse() {
            Ok(Chunk::Data(data)) => Some(data.tsn),
            _ => None,
        });
        let Some(tsn) = data.filter(|_| side == Side::A) else { return Fate::Pass };
        if lost < 2 && *victim.get_or_insert(tsn) == tsn {
            lost += 1;
            return Fate::Drop;
        }
        Fate::Pass
    });
    paths.pair.clear_captured();
    let before = paths.pair.a.endpoint.status(paths.a).unwrap().stats.timeouts;
    paths.run(ms(1000), 100_000);
    assert_eq!(paths.pair.a.endpoint.status(paths.a).unwrap().stats.timeouts, before);
    assert_eq!(paths.sent(1, kind::DATA), 1, "the third time");
    paths.finish();
}

/// A lost tail-loss probe is repeated on the other path, and counts as a probe there too.
#[test]
fn lost_probe_moves_to_the_other_path() {
    let mut paths = TwoPaths::new([wide(), wide()], |config| config.path_silence_max = None);
    paths.run(ms(3000), 3000);
    paths.run(ms(500), 0);
    paths.pair.clear_captured();
    let before = paths.pair.a.endpoint.status(paths.a).unwrap().stats;
    paths.pair.drop_some(Side::A, 2, strandline_sim::pair::with_chunk(kind::DATA));
    paths.run(ms(700), 1);
    let stats = paths.pair.a.endpoint.status(paths.a).unwrap().stats;
    let sent = [paths.sent(0, kind::DATA), paths.sent(1, kind::DATA)];
    assert_eq!(sent[1], 1, "{:#?}", paths.pair.printed());
    assert_eq!(stats.timeouts, before.timeouts);
    assert_eq!(stats.tail_probes - before.tail_probes, 2, "{:#?}", paths.pair.printed());
    paths.finish();
}

/// Loses a message on the first path, and its first tail-loss probe. Returns the time until the second probe. With
/// `load`, so much is sent on the other path after that time that pacing holds it back.
fn second_probe_after(load: Option<Duration>) -> Duration {
    // Paced from its first acknowledgement on.
    let mut paths = TwoPaths::new([wide(), link(ms(50), 20)], |config| {
        (config.congestion, config.path_silence_max) = (Algorithm::Rfc9260, None);
    });
    let ends = [0, 1].map(|path| paths.pair.addresses(Side::B)[path].ip());
    let choose = |paths: &mut TwoPaths, primary: usize| {
        let now = paths.pair.now;
        paths.pair.a.endpoint.set_primary(now, paths.a, ends[primary]).unwrap();
    };
    for (primary, ahead) in [(0, 3000), (1, 200_000)] {
        choose(&mut paths, primary);
        paths.run(ms(2000), ahead);
        paths.run(ms(300), 0);
    }
    choose(&mut paths, 0);
    let (a, began) = (paths.a, paths.pair.now);
    let probes = |pair: &Pair| pair.a.endpoint.status(a).unwrap().stats.tail_probes;
    let before = probes(&paths.pair);
    paths.pair.drop_some(Side::A, 2, strandline_sim::pair::with_chunk(kind::DATA));
    paths.run(ms(1), 1);
    if let Some(load) = load {
        let left = (began + load).since(paths.pair.now);
        paths.run(left, 0);
        choose(&mut paths, 1);
        paths.run(Duration::ZERO, 100_000);
        assert!(paths.paths()[1].flight < 40_000, "held back by pacing: {:?}", paths.paths());
    }
    let both = |pair: &mut Pair| probes(pair) == before + 2;
    assert!(paths.pair.run_until(ms(2000), both), "{:#?}", paths.pair.printed());
    let took = paths.pair.now.since(began);
    paths.finish();
    took
}

/// Pacing on the other path decides which path a probe takes. On one of them it is sent when it is due.
#[test]
fn probe_is_on_time_despite_pacing() {
    let alone = second_probe_after(None);
    for early in (1..=30).map(|tenths| Duration::from_micros(100 * tenths)) {
        let took = second_probe_after(Some(alone - early));
        // A far deadline is rounded up to a millisecond; one that is near when it is set again is not.
        assert!(
            took <= alone && took + Duration::from_nanos(1 << 20) > alone,
            "{early:?} after others: {took:?}, {alone:?}"
        );
    }
}
