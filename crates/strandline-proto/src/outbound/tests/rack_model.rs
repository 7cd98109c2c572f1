//! Loss detection by time, compared with an oracle that examines every chunk for every query, in the words of RFC
//! 8985 section 6.2: random losses, delays and lost SACKs on one path, and a peer that reports no duplicates. The
//! oracle is told the effects of answers that arrive too soon on the reordering window and the recovery
//! (`rfc3522.rs`).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// One-way delay in milliseconds.
const WAY_MS: u64 = 50;

/// A chunk as the oracle knows it.
#[derive(Debug, Clone)]
struct Known {
    /// When it was last sent.
    at: Time,
    /// Number among all transmissions.
    number: usize,
    resent: bool,
    lost: bool,
    acked: bool,
}

/// What an acknowledgement shows about the round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sample {
    Certain,
    /// The chunk had been retransmitted.
    OfAny,
    /// The previous SACK may have had no room for the chunk, which may have arrived long before.
    None,
}

#[derive(Debug)]
struct Oracle {
    chunks: Vec<Known>,
    /// The acknowledged chunk that was sent last, and how long its answer took.
    latest: (Time, i64),
    rtt: Duration,
    srtt_ns: u64,
    min_rtt: Duration,
    reordering: bool,
    /// Length of the window in quarters of the minimum round-trip time: more than one if retransmissions were
    /// spurious.
    quarters: u8,
    /// Everything before this is acknowledged.
    next: u32,
    /// TSNs in gap blocks, and how many SACKs reported something new beyond the first gap.
    gaps: BTreeSet<u32>,
    gap_sacks: u32,
    /// The maximum number of runs in gap blocks, and the chunks that the latest SACK may have had no room for.
    runs_max: usize,
    unnamed: core::ops::Range<u32>,
    exit: Option<u32>,
    /// The latest congestion event: number of transmissions and chunks before it.
    began: Option<(usize, usize)>,
    recovering: bool,
    transmissions: usize,
    deadline: Time,
}

impl Oracle {
    /// Creates an oracle after the first chunk of [`Fixture::with_rack`], which took 100 ms.
    fn new() -> Self {
        let rtt = Duration::from_millis(100);
        Self {
            chunks: Vec::new(),
            latest: (Time::ZERO, -1),
            rtt,
            srtt_ns: rtt.as_nanos() as u64,
            min_rtt: rtt,
            reordering: false,
            quarters: 1,
            next: 0,
            gaps: BTreeSet::new(),
            gap_sacks: 0,
            runs_max: 0,
            unnamed: 0..0,
            exit: None,
            began: None,
            recovering: false,
            transmissions: 0,
            deadline: Time::MAX,
        }
    }

    /// Sets the reordering window of the path, which spurious retransmissions widen.
    fn set_window(&mut self, quarters: u8) {
        self.quarters = quarters.max(1);
        self.reordering |= quarters > 1;
    }

    /// Resets the state after a spurious loss.
    fn on_undone(&mut self) {
        (self.exit, self.began, self.recovering) = (None, None, false);
    }

    fn on_sent(&mut self, tsn: u32, now: Time) {
        match self.chunks.get_mut(tsn as usize) {
            Some(known) => {
                assert!(known.lost, "only what is lost is sent again");
                (known.at, known.resent, known.lost) = (now, true, false);
                known.number = self.transmissions;
            }
            None => {
                assert_eq!(tsn as usize, self.chunks.len());
                let number = self.transmissions;
                self.chunks.push(Known { at: now, number, resent: false, lost: false, acked: false });
            }
        }
        self.transmissions += 1;
    }

    /// Steps 1 to 3.
    fn on_sack(&mut self, now: Time, next: u32, gaps: &BTreeSet<u32>) -> (BTreeSet<u32>, bool) {
        let overtaken = self.gaps.last().copied();
        let mut best: Option<((Time, i64), Sample)> = None;
        let mut beyond = false;
        for (tsn, chunk) in (0..).zip(&mut self.chunks) {
            if chunk.acked || !(tsn < next || gaps.contains(&tsn)) {
                continue;
            }
            chunk.acked = true;
            beyond |= tsn >= next;
            if chunk.resent && now.since(chunk.at) < self.min_rtt / 8 * 7 {
                continue; // The answer to an earlier transmission.
            }
            // Sent after the event began: its round trip is over.
            self.recovering &= self.began.is_some_and(|(number, _)| chunk.number < number);
            self.reordering |= !chunk.resent && overtaken.is_some_and(|highest| highest > tsn);
            let sent = (chunk.at, i64::from(tsn));
            let sample = match (chunk.resent, self.unnamed.contains(&tsn)) {
                (true, _) => Sample::OfAny,
                (false, true) => Sample::None,
                (false, false) => Sample::Certain,
            };
            if best.is_none_or(|(latest, _)| latest < sent) {
                best = Some((sent, sample));
            }
        }
        if let Some((sent, sample)) = best {
            let rtt = now.since(sent.0);
            if sample == Sample::Certain {
                self.srtt_ns = self.srtt_ns - self.srtt_ns / 8 + rtt.as_nanos() as u64 / 8;
                self.min_rtt = self.min_rtt.min(rtt);
            }
            if sent > self.latest {
                self.latest = sent;
                self.rtt = if sample == Sample::None { self.rtt } else { rtt };
            }
        }
        let before = self.next;
        self.next = before.max(next);
        self.gaps = gaps.clone();
        let runs = gaps.iter().filter(|tsn| !gaps.contains(&(**tsn + 1))).count();
        self.runs_max = self.runs_max.max(runs);
        let full = runs >= 16 && runs + runs / 16 >= self.runs_max;
        let last = gaps.last().filter(|_| full);
        self.unnamed = last.map_or(0..0, |last| *last + 1..self.chunks.len() as u32);
        if self.exit.is_some_and(|exit| self.next > exit) {
            self.exit = None;
        }
        if self.began.is_some_and(|(_, chunks)| self.next as usize >= chunks) {
            self.began = None;
            self.recovering = false;
        }
        self.gap_sacks = match (gaps.is_empty(), beyond) {
            (true, _) => 0,
            (false, true) if self.next != before => 1,
            (false, false) if self.next != before => 0,
            (false, true) => self.gap_sacks + 1,
            (false, false) => self.gap_sacks,
        };
        self.find_lost(now)
    }

    /// Steps 4 and 5, and whether the window shrinks. Chunks that a SACK has no room for are not lost, but examined
    /// again: of those sent once, the first that is not overdue.
    fn find_lost(&mut self, now: Time) -> (BTreeSet<u32>, bool) {
        let many = self.gap_sacks >= 3 || self.gaps.len() >= 3;
        let window = if !self.reordering && (self.exit.is_some() || many) {
            Duration::ZERO
        } else {
            (self.min_rtt / 4 * u32::from(self.quarters)).min(Duration::from_nanos(self.srtt_ns))
        };
        self.deadline = Time::MAX;
        let mut lost = BTreeSet::new();
        let (mut waits, mut shrinks, mut waits_unnamed) = (None, false, false);
        for (tsn, chunk) in (0_u32..).zip(&mut self.chunks) {
            if chunk.acked || chunk.lost || (chunk.at, i64::from(tsn)) >= self.latest {
                continue;
            }
            let at = chunk.at + self.rtt + window;
            if self.unnamed.contains(&tsn) {
                let is_looked_at = at > now && (chunk.resent || !waits_unnamed);
                waits_unnamed |= at > now && !chunk.resent;
                waits = if is_looked_at { waits.max(Some(at)) } else { waits };
            } else if at <= now {
                chunk.lost = true;
                shrinks |= self.began.is_none_or(|(number, _)| chunk.number >= number);
                lost.insert(tsn);
            } else {
                waits = waits.max(Some(at));
            }
        }
        self.deadline = waits.unwrap_or(Time::MAX);
        if shrinks {
            self.exit = Some(self.chunks.len() as u32 - 1);
            self.began = Some((self.transmissions, self.chunks.len()));
            self.recovering = true;
        }
        (lost, shrinks)
    }
}

/// What the network does to a transmission.
#[derive(Debug, Clone, Copy)]
enum Way {
    Lost,
    Late(u64),
}

#[derive(Debug, Clone)]
enum Happening {
    Give,
    Arrives(u32),
    Sack(u32, BTreeSet<u32>),
}

struct World {
    fixture: Fixture,
    oracle: Oracle,
    /// Pending events by time, and by number among those of one instant.
    agenda: BTreeMap<(Time, u64), Happening>,
    number: u64,
    ways: Vec<Way>,
    transmissions: usize,
    arrived: BTreeSet<u32>,
    sack_losses: Vec<bool>,
    sacks: usize,
}

impl World {
    fn plan(&mut self, at: Time, what: Happening) {
        self.number += 1;
        self.agenda.insert((at, self.number), what);
    }

    /// Schedules what the sender sent just now.
    fn sent(&mut self, tsns: &[u32]) {
        let now = self.fixture.now;
        for tsn in tsns {
            self.oracle.on_sent(*tsn, now);
            let way = self.ways[self.transmissions % self.ways.len()];
            self.transmissions += 1;
            // So that every run ends.
            let way = if self.transmissions > 400 { Way::Late(0) } else { way };
            if let Way::Late(ms) = way {
                self.plan(now + Duration::from_millis(WAY_MS + ms), Happening::Arrives(*tsn));
            }
        }
    }

    fn check(&mut self, (lost, shrinks): &(BTreeSet<u32>, bool), acks: &Acks) {
        let bytes: u32 = lost.len() as u32 * ROOM as u32;
        let Oracle { latest, rtt, min_rtt, reordering, next, gap_sacks, exit, .. } = &self.oracle;
        assert_eq!(
            acks[0].lost.bytes,
            bytes,
            "lost by the oracle at {:?}: {lost:?} {:?}; latest {latest:?} {rtt:?}, least {min_rtt:?}, reordering {reordering}, \
             next {next}, {} gaps, {gap_sacks} SACKs, exit {exit:?}",
            self.fixture.now,
            lost.first().map(|tsn| &self.oracle.chunks[*tsn as usize]),
            self.oracle.gaps.len(),
        );
        assert_eq!(self.fixture.out.loss_deadline(), self.oracle.deadline);
        assert_eq!(acks[0].in_recovery, self.oracle.recovering);
        assert_eq!(acks[0].begins_congestion_event, *shrinks);
        let again = self.fixture.tsns(0);
        assert!(again.iter().copied().eq(lost.iter().copied()), "{again:?}, by the oracle {lost:?}");
        self.sent(&again);
    }

    /// Runs the next event, if there is any.
    fn step(&mut self) -> bool {
        let next = self.agenda.keys().next().copied();
        let deadline = self.fixture.out.loss_deadline();
        if deadline != Time::MAX && next.is_none_or(|(at, _)| deadline <= at) {
            let acks = self.fixture.loss_timer().expect("a deadline was set");
            let lost = self.oracle.find_lost(self.fixture.now);
            self.check(&lost, &acks);
            return true;
        }
        let Some(key) = next else { return false };
        let what = self.agenda.remove(&key).expect("it was there");
        self.fixture.now = key.0;
        match what {
            Happening::Give => {
                self.fixture.push(FULL);
                let tsns: Vec<u32> = self.fixture.packet(0).iter().map(|sent| sent.tsn).collect();
                self.sent(&tsns);
            }
            Happening::Arrives(tsn) => {
                self.arrived.insert(tsn);
                let next = (0..).find(|tsn| !self.arrived.contains(tsn)).expect("some TSN");
                let gaps = self.arrived.range(next..).copied().collect();
                self.sacks += 1;
                let lost = self.sack_losses[self.sacks % self.sack_losses.len()] && self.sacks < 300;
                if !lost {
                    let at = self.fixture.now + Duration::from_millis(WAY_MS);
                    self.plan(at, Happening::Sack(next, gaps));
                }
            }
            Happening::Sack(next, gaps) => {
                let mut runs: Vec<(u32, u32)> = Vec::new();
                for tsn in &gaps {
                    match runs.last_mut() {
                        Some((_, last)) if *last + 1 == *tsn => *last = *tsn,
                        _ => runs.push((*tsn, *tsn)),
                    }
                }
                let (_, acks) = self.fixture.sack(next, &runs);
                self.oracle.set_window(self.fixture.quarters());
                let lost = self.oracle.on_sack(self.fixture.now, next, &gaps);
                if acks[0].undo {
                    self.oracle.on_undone();
                }
                self.check(&lost, &acks);
            }
        }
        true
    }
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        6 => Just(Way::Late(0)),
        2 => Just(Way::Lost),
        2 => (1_u64..60).prop_map(Way::Late),
    ]
}

proptest! {
    #[test]
    fn what_is_lost_is_what_the_oracle_says(
        gaps_ms in prop::collection::vec(1_u64..20, 1..80),
        ways in prop::collection::vec(way(), 1..60),
        sack_losses in prop::collection::vec(prop::bool::weighted(0.2), 1..20),
    ) {
        let fixture = Fixture::with_rack(0);
        let mut at = fixture.now;
        let mut world = World {
            fixture,
            oracle: Oracle::new(),
            agenda: BTreeMap::new(),
            number: 0,
            ways,
            transmissions: 0,
            arrived: BTreeSet::new(),
            sack_losses,
            sacks: 0,
        };
        for gap in gaps_ms {
            at += Duration::from_millis(gap);
            world.plan(at, Happening::Give);
        }
        let mut steps = 0;
        while world.step() {
            steps += 1;
            prop_assert!(steps < 20_000, "it does not come to rest");
        }
    }
}
