//! BBR on a bottleneck in virtual time: packets of one size, a queue, random loss.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const PMDCS: u32 = 1_000;
const STEP: Duration = Duration::from_micros(100);

/// A simulated path: a bottleneck of `rate` bytes per second with `delay` and a queue of `queue` bytes, fed by BBR.
struct Path {
    bbr: Bbr,
    now: Time,
    rate: u64,
    delay: Duration,
    queue: u64,
    /// Every n-th packet is lost; 0 for none.
    loss_every: u64,
    /// Queueing delay that competing flows cause all the time.
    others: Duration,
    /// Bytes per second that the application supplies, if limited.
    offered: Option<u64>,
    /// When the bottleneck has sent all queued packets.
    busy_until: Time,
    /// For each packet: when it was sent, when its acknowledgement arrives or its loss is detected, and whether it
    /// arrived.
    wire: VecDeque<(Time, Time, bool)>,
    flight: u32,
    /// Period of host stalls. In each period the host stands still for a fifth: it sends nothing, and
    /// acknowledgements arrive together afterwards.
    stalls: Option<Duration>,
    /// If set, every other packet is not reported: the bytes withheld so far.
    withheld: Option<u32>,
    credit: f64,
    offered_credit: f64,
    sent: u64,
    delivered: u64,
    dropped: u64,
}

impl Path {
    fn new(rate: u64, delay: Duration, queue: u64) -> Self {
        Self {
            bbr: Bbr::new(PMDCS),
            now: Time::ZERO,
            rate,
            delay,
            queue,
            loss_every: 0,
            others: Duration::ZERO,
            offered: None,
            busy_until: Time::ZERO,
            wire: VecDeque::new(),
            flight: 0,
            stalls: None,
            withheld: None,
            credit: 0.0,
            offered_credit: 0.0,
            sent: 0,
            delivered: 0,
            dropped: 0,
        }
    }

    fn send_packet(&mut self) {
        self.sent += 1;
        self.flight += PMDCS;
        self.bbr.on_sent(self.now, PMDCS);
        let waiting = self.busy_until.since(self.now).as_nanos() * u128::from(self.rate) / 1_000_000_000;
        self.busy_until = self.busy_until.max(self.now + self.others);
        let random = self.loss_every > 0 && self.sent.is_multiple_of(self.loss_every);
        if random || waiting > u128::from(self.queue) {
            self.dropped += 1;
            self.wire.push_back((self.now, self.now.max(self.busy_until) + self.delay, false));
            return;
        }
        let takes = Duration::from_nanos(u64::from(PMDCS) * 1_000_000_000 / self.rate);
        self.busy_until = self.now.max(self.busy_until) + takes;
        self.wire.push_back((self.now, self.busy_until + self.delay, true));
    }

    fn step(&mut self) {
        self.now += STEP;
        let stands_still =
            |each: Duration| self.now.as_nanos() as u128 % each.as_nanos() < each.as_nanos() / 5;
        let stands_still = self.stalls.is_some_and(stands_still);
        // The pacer makes up for a late timer.
        let saved_s = if self.stalls.is_some() { 0.012 } else { 0.002 };
        let rate = self.bbr.pacing_rate().unwrap_or(u64::MAX / 2) as f64;
        self.credit = (self.credit + rate * STEP.as_secs_f64()).min(rate * saved_s + f64::from(PMDCS));
        if stands_still {
            return;
        }
        while let Some((sent_at, at, arrived)) =
            self.wire.front().copied().filter(|(_, at, _)| *at <= self.now)
        {
            self.wire.pop_front();
            let flight_before = self.flight;
            let at = if self.stalls.is_some() { self.now } else { at };
            if !arrived {
                self.flight -= PMDCS;
                self.bbr.on_lost(PMDCS);
                continue;
            }
            self.delivered += u64::from(PMDCS);
            if let Some(withheld) =
                self.withheld.as_mut().filter(|_| (self.delivered / u64::from(PMDCS)).is_multiple_of(2))
            {
                *withheld += PMDCS;
                continue;
            }
            self.flight -= PMDCS;
            self.acknowledge(at, PMDCS, flight_before, sent_at);
        }
        self.offered_credit += self.offered.unwrap_or(0) as f64 * STEP.as_secs_f64();
        while self.flight < self.bbr.window() && self.credit > 0.0 {
            if self.offered.is_some() && self.offered_credit < f64::from(PMDCS) {
                break;
            }
            self.offered_credit -= f64::from(PMDCS);
            self.credit -= f64::from(PMDCS);
            self.send_packet();
        }
    }

    fn acknowledge(&mut self, at: Time, bytes: u32, flight_before: u32, sent_at: Time) {
        self.bbr.on_ack(&Ack {
            window_full: self.offered.is_none(),
            all_acked: self.flight == 0,
            latest_rtt: Some(at.since(sent_at)),
            ..Ack::of(at, bytes, flight_before)
        });
    }

    /// Reports the withheld data at once, with a packet that was sent a round trip ago.
    fn report_withheld(&mut self) {
        let (bytes, flight_before) = (self.withheld.take().unwrap(), self.flight);
        self.flight -= bytes;
        let sent_at = Time::from_nanos(self.now.as_nanos() - self.delay.as_nanos() as u64);
        self.acknowledge(self.now, bytes, flight_before, sent_at);
    }

    fn bandwidth(&self) -> u64 {
        self.bbr.path.as_ref().unwrap().model.bandwidth()
    }

    /// Runs for `time`. Returns the delivered bytes per second.
    fn run(&mut self, time: Duration) -> u64 {
        let (end, before) = (self.now + time, self.delivered);
        while self.now < end {
            self.step();
        }
        ((self.delivered - before) as f64 / time.as_secs_f64()) as u64
    }

    fn queue_delay(&self) -> Duration {
        self.busy_until.since(self.now)
    }
}

mod ecn;

const MS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn it_fills_a_path_and_leaves_no_queue() {
    for (rate, delay) in [(1_250_000, 60), (12_500_000, 60), (12_500_000, 20), (12_500_000, 200)] {
        let mut path = Path::new(rate, MS(delay), 10 * rate);
        path.run(Duration::from_secs(3));
        let mut delays = Vec::new();
        let mut reached = 0;
        for _ in 0..100 {
            reached += path.run(MS(100));
            delays.push(path.queue_delay());
        }
        delays.sort_unstable();
        assert!(reached / 100 >= rate / 100 * 93, "{rate} {delay}: {}", reached / 100);
        assert!(delays[50] <= MS(delay) / 4 + MS(5), "{rate} {delay}: {:?}", delays[50]);
        assert_eq!(path.dropped, 0, "with such a queue nothing is lost");
    }
}

#[test]
fn random_losses_cost_only_their_share() {
    for (loss_every, share) in [(100, 90), (20, 85), (10, 80)] {
        let mut path = Path::new(12_500_000, MS(60), 1_500_000);
        path.loss_every = loss_every;
        path.run(Duration::from_secs(3));
        let reached = path.run(Duration::from_secs(10));
        assert!(reached >= 12_500_000 / 100 * share, "1 in {loss_every}: {reached}");
    }
}

/// A queue of a tenth of the bandwidth-delay product: its overflows limit the flight.
#[test]
fn a_short_queue_does_not_overflow_for_long() {
    let mut path = Path::new(12_500_000, MS(60), 75_000);
    path.run(Duration::from_secs(5));
    let (sent, dropped) = (path.sent, path.dropped);
    let reached = path.run(Duration::from_secs(20));
    assert!(reached >= 12_500_000 / 100 * 80, "{reached}");
    let (sent, dropped) = (path.sent - sent, path.dropped - dropped);
    assert!(dropped * 100 <= sent * 3, "{dropped} of {sent}");
}

/// On a short path the queue of Startup makes a round trip many times as long as the minimum. Rates are still
/// measured, and the queue drains.
#[test]
fn a_short_path_keeps_no_queue() {
    let mut path = Path::new(12_500_000, MS(1), 500_000);
    path.run(Duration::from_secs(2));
    let reached = path.run(Duration::from_secs(4));
    assert!(reached >= 12_500_000 / 100 * 93, "{reached}");
    let mut delays = Vec::new();
    for _ in 0..100 {
        path.run(MS(10));
        delays.push(path.queue_delay());
    }
    delays.sort_unstable();
    assert!(delays[50] <= MS(5), "{:?}", delays[50]);
}

/// Losses of the overflow at the start are detected while the queue already drains. They do not limit the later
/// flight.
#[test]
fn start_losses_do_not_bound_later_growth() {
    for queue in [125_000, 187_500, 250_000, 375_000] {
        let mut path = Path::new(12_500_000, MS(20), queue);
        path.run(MS(500));
        let reached = path.run(MS(1_500));
        assert!(reached >= 12_500_000 / 100 * 88, "{queue}: {reached}");
    }
}

/// A SACK can report only some hundred gap blocks. After many losses, data beyond them is reported only when they are
/// repaired, and then all at once. That is no bandwidth sample.
#[test]
fn late_batched_reports_are_no_bandwidth() {
    let mut path = Path::new(12_500_000, MS(20), 500_000);
    path.run(Duration::from_secs(1));
    path.withheld = Some(0);
    path.run(MS(30));
    assert!(path.withheld.unwrap() > 50 * PMDCS);
    path.report_withheld();
    path.run(MS(100));
    assert!(path.bandwidth() <= 12_500_000 / 100 * 105, "{}", path.bandwidth());
}

/// Returns the rounds of Startup at a steady rate after the last one whose bandwidth grew by a quarter. The first
/// packet meets no queue, all others one of length `queue`.
fn rounds_without_growth(queue: Duration) -> u32 {
    let mut bbr = Bbr::new(PMDCS);
    let mut now = Time::ZERO + Duration::from_secs(1);
    let (mut full_bandwidth, mut grew_in) = (0, 0);
    for packet in 0..1_000 {
        now += MS(1);
        let rtt = if packet == 0 { MS(20) } else { MS(20) + queue };
        bbr.on_ack(&Ack { latest_rtt: Some(rtt), ..Ack::of(now, PMDCS, 20 * PMDCS) });
        let path = bbr.path.as_ref().unwrap();
        if path.full_bandwidth != full_bandwidth {
            (full_bandwidth, grew_in) = (path.full_bandwidth, path.model.rounds());
        }
        if path.state != State::Startup {
            return path.model.rounds() - grew_in;
        }
    }
    panic!("the start does not end");
}

/// The window doubles in each round of Startup. A third round on a full path would add another window to its queue.
#[test]
fn start_with_a_queue_ends_after_two_rounds() {
    assert_eq!(rounds_without_growth(MS(10)), 2);
    assert_eq!(rounds_without_growth(MS(0)), 3);
    // A queue of less than a quarter of the round trip may be that of a batch.
    assert_eq!(rounds_without_growth(MS(4)), 3);
}

/// Rounds shorter than the measurement interval cannot show growth: three of them pass in half a millisecond.
#[test]
fn short_path_start_lasts_until_growth_shows() {
    for delay_us in [50, 100, 200, 1_000] {
        let mut path = Path::new(1_000_000_000, Duration::from_micros(delay_us), 4_000_000);
        path.run(Duration::from_millis(60));
        let bandwidth = path.bandwidth();
        assert!(bandwidth > 800_000_000, "{bandwidth} bytes a second, {delay_us} us");
    }
}

/// Returns the state after a round of Startup in which twelve of 32 packets were lost, in `moments` loss events.
fn after_losses(moments: u32) -> State {
    let mut bbr = Bbr::new(PMDCS);
    let mut now = Time::ZERO + Duration::from_secs(1);
    for packet in 0..55 {
        now += MS(1);
        bbr.on_ack(&Ack { latest_rtt: Some(MS(20)), ..Ack::of(now, PMDCS, 20 * PMDCS) });
        if packet == 30 {
            (0..moments).for_each(|_| bbr.on_lost(12 / moments * PMDCS));
        }
    }
    bbr.path.unwrap().state
}

/// A burst of losses does not show that the path is full.
#[test]
fn loss_burst_does_not_end_startup() {
    assert_eq!(after_losses(1), State::Startup);
    assert_eq!(after_losses(4), State::Startup);
    assert_ne!(after_losses(6), State::Startup);
}

/// A host that stalls receives acknowledgements in lumps.
#[test]
fn lumps_of_acknowledgements_are_no_bandwidth() {
    for each in [20, 35, 50] {
        let mut path = Path::new(12_500_000, MS(20), 500_000);
        path.stalls = Some(MS(each));
        path.run(Duration::from_secs(3));
        let reached = path.run(Duration::from_secs(3));
        let told = path.bandwidth();
        // Stalls look like the queue of a competing flow, and the larger flight then makes lumps larger.
        assert!(told <= 12_500_000 / 100 * 107, "{each} ms: {told}");
        assert!(reached >= 12_500_000 / 100 * 85, "{each} ms: {reached}");
    }
}

/// While round-trip times stay close to the minimum, the sender rarely holds back to measure it.
#[test]
fn flow_without_queue_seldom_probes_rtt() {
    let mut path = Path::new(12_500_000, MS(40), 1_500_000);
    path.run(Duration::from_secs(2));
    let mut looked = 0;
    for step in 0..400_000 {
        // The delay grows slightly all the time, so that no sample is a new minimum.
        path.delay = MS(40) + Duration::from_micros(100 + step / 400);
        let before = path.bbr.path.as_ref().is_some_and(|model| model.state == State::ProbeRtt);
        path.step();
        let now = path.bbr.path.as_ref().is_some_and(|model| model.state == State::ProbeRtt);
        looked += u32::from(now && !before);
    }
    assert!((1..=3).contains(&looked), "{looked} times in 40 seconds");
}

/// Random losses beside the queue of Startup do not limit the flight.
#[test]
fn random_losses_do_not_bound_inflight() {
    let mut path = Path::new(12_500_000, MS(20), 1_500_000);
    path.loss_every = 10;
    path.run(Duration::from_secs(3));
    assert_eq!(path.bbr.path.as_ref().unwrap().model.in_flight_high(), u64::MAX);
}

#[test]
fn slower_application_keeps_the_bandwidth() {
    let mut path = Path::new(12_500_000, MS(20), 1_500_000);
    path.run(Duration::from_secs(3));
    let before = path.bbr.pacing_rate().unwrap();
    path.offered = Some(1_000_000);
    path.run(MS(1_500));
    assert!(path.bbr.pacing_rate().unwrap() >= before / 2, "as long as it is remembered");
    path.offered = None;
    path.run(Duration::from_secs(3));
    assert!(path.run(Duration::from_secs(2)) >= 11_000_000);
}

#[test]
fn a_path_that_changes_is_found_out() {
    for (rate, delay, seconds) in [(2_500_000, 40, 15), (1_250_000, 100, 20)] {
        let mut path = Path::new(1_250_000, MS(40), 500_000);
        path.run(Duration::from_secs(5));
        (path.rate, path.delay) = (rate, MS(delay));
        path.run(Duration::from_secs(seconds));
        let reached = path.run(Duration::from_secs(5));
        assert!(reached >= rate / 100 * 88, "{rate} bytes a second, {delay} ms: {reached}");
    }
}

/// A queue that never drains belongs to competing flows, which include it in their round-trip time. The flight is
/// then 2.5 times the bandwidth-delay product, and 2 times when they are gone.
#[test]
fn queueing_competitors_raise_inflight() {
    let mut path = Path::new(12_500_000, MS(60), 2_000_000);
    path.run(Duration::from_secs(5));
    let product = |path: &Path| path.bbr.path.as_ref().unwrap().model.in_flight(100);
    assert!(u64::from(path.bbr.window()) <= product(&path) / 100 * 230);
    path.others = MS(40);
    let share = |path: &mut Path| {
        path.run(MS(20));
        u64::from(path.bbr.window()) * 100 / product(path)
    };
    assert!((0..500).any(|_| share(&mut path) >= 240));
    path.others = Duration::ZERO;
    path.run(Duration::from_secs(15));
    assert!((0..500).all(|_| share(&mut path) <= 235));
}

#[test]
fn needless_time_out_is_undone() {
    let mut path = Path::new(1_250_000, MS(40), 500_000);
    path.run(Duration::from_secs(3));
    let before = path.bbr.window();
    path.bbr.on_timeout(path.now);
    assert_eq!(path.bbr.window(), PMDCS);
    path.bbr.on_timeout(path.now);
    path.bbr.on_undo();
    assert_eq!(path.bbr.window(), before);
    path.bbr.on_timeout(path.now);
    path.bbr.cwnd = 2 * before;
    path.bbr.on_timeout(path.now);
    path.bbr.on_undo();
    assert_eq!(path.bbr.window(), 2 * before, "the largest before a time-out");
}

/// On a short path one acknowledgement often covers everything in flight. The flight is empty then, but the
/// sender is not idle: the rate is that of the trains.
#[test]
fn trains_that_are_acknowledged_whole_show_the_rate() {
    let mut bbr = Bbr::new(PMDCS);
    let mut now = Time::ZERO + Duration::from_secs(1);
    let rtt = Duration::from_micros(70);
    for _ in 0..60_000 / 70 {
        bbr.on_idle(0);
        let train = bbr.window().min(16_000);
        bbr.on_sent(now, train);
        now += rtt;
        bbr.on_ack(&Ack { latest_rtt: Some(rtt), ..Ack::of(now, train, train) });
    }
    let bandwidth = bbr.path.as_ref().unwrap().model.bandwidth();
    let trains = 16_000 * 1_000_000 / 70;
    assert!((trains / 2..=trains).contains(&bandwidth), "{bandwidth} of {trains}");
}

/// Rounds of a short path are shorter than the time over which rates are measured: a probe for bandwidth
/// lasts until it can show growth.
#[test]
fn probe_of_short_path_finds_the_bandwidth() {
    let mut path = Path::new(1_250_000, MS(1), 500_000);
    path.run(Duration::from_secs(3));
    assert!(path.bandwidth() < 1_500_000, "{}", path.bandwidth());
    path.rate = 12_500_000;
    // Two probes.
    path.run(Duration::from_secs(7));
    let reached = path.run(Duration::from_secs(1));
    assert!(reached >= 12_500_000 / 100 * 85, "{reached}");
}

/// After five seconds without data the minimum round-trip time is old. The first samples afterwards met no queue and
/// renew it, so that the transfer needs no probe in its first moments.
#[test]
fn pause_needs_no_rtt_probe() {
    let mut path = Path::new(12_500_000, MS(40), 1_500_000);
    path.run(Duration::from_secs(4));
    path.offered = Some(0);
    path.run(Duration::from_secs(12));
    path.bbr.on_idle(12);
    path.offered = None;
    // A little longer than before, so that no sample is close to the old minimum.
    path.delay = MS(41);
    let end = path.now + MS(1_000);
    while path.now < end {
        path.step();
        assert_ne!(path.bbr.path.as_ref().unwrap().state, State::ProbeRtt);
    }
}

/// Answers of a megabyte with pauses between them, all in Startup: a queue of one bandwidth-delay product takes each,
/// although the window has grown to more than twice of what the path holds.
#[test]
fn answers_after_pauses_do_not_overflow_the_queue() {
    let mut path = Path::new(12_500_000, MS(60), 750_000);
    for number in 0..8 {
        path.bbr.on_idle(0);
        (path.offered, path.offered_credit) = (Some(0), 1_000_000.0);
        let before = path.delivered;
        path.run(MS(if number == 0 { 700 } else { 200 }));
        assert_eq!((path.flight, path.dropped), (0, 0), "answer {number}");
        assert!(path.delivered - before >= 999_000, "answer {number}: {}", path.delivered - before);
    }
    assert_eq!(path.bbr.path.as_ref().unwrap().state, State::Startup);
    assert!(path.bbr.window() > 1_400_000, "{}", path.bbr.window());
}

#[test]
fn later_recovery_keeps_the_time_outs_window() {
    let mut path = Path::new(1_250_000, MS(40), 500_000);
    path.run(Duration::from_secs(3));
    path.bbr.on_timeout(path.now);
    path.bbr.on_fast_retransmit(path.now);
    path.bbr.on_undo();
    assert_eq!(path.bbr.window(), PMDCS);
}

#[derive(Debug, Clone)]
enum Op {
    /// Sampled and latest round-trip time in microseconds; `None` if not measured.
    Ack {
        acked: u32,
        flight: u32,
        flags: u8,
        rtt_us: Option<u32>,
        latest_us: Option<u32>,
    },
    Lost(u32),
    Sent(u32),
    FastRetransmit,
    Timeout,
    Undo,
    Ecn,
    Starved(u32),
    Idle(u32),
    Mtu(u32),
    Wait(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = || prop_oneof![0_u32..100_000, any::<u32>()];
    let time = || prop::option::of(prop_oneof![1_u32..200_000, any::<u32>()]);
    prop_oneof![
        8 => (bytes(), bytes(), any::<u8>(), time(), time()).prop_map(|(acked, flight, flags, rtt_us, latest_us)| {
            Op::Ack { acked, flight, flags, rtt_us, latest_us }
        }),
        2 => bytes().prop_map(Op::Lost),
        4 => bytes().prop_map(Op::Sent),
        1 => Just(Op::FastRetransmit),
        1 => Just(Op::Timeout),
        1 => Just(Op::Undo),
        1 => Just(Op::Ecn),
        1 => bytes().prop_map(Op::Starved),
        1 => any::<u32>().prop_map(Op::Idle),
        1 => any::<u32>().prop_map(Op::Mtu),
        4 => prop_oneof![0_u32..50_000, any::<u32>()].prop_map(Op::Wait),
    ]
}

proptest! {
    /// For any sequence the window is at least a packet, the rate positive, and growth at most what was acknowledged.
    #[test]
    fn any_sequence_keeps_the_bounds(ops in prop::collection::vec(op(), 1..300)) {
        let mut bbr = Bbr::new(PMDCS);
        let mut now = Time::ZERO + Duration::from_secs(1);
        let span = |us: u32| Duration::from_micros(us.into());
        for op in ops {
            let before = bbr.window();
            let mut grows_by = 0;
            match op {
                Op::Ack { acked, flight, flags, rtt_us, latest_us } => {
                    bbr.on_ack(&Ack {
                        window_full: flags & 1 != 0,
                        cumulative_advanced: flags & 2 != 0,
                        in_fast_recovery: flags & 4 != 0,
                        all_acked: flags & 8 != 0,
                        ecn_echoed: flags & 16 != 0,
                        rtt: rtt_us.map(span),
                        latest_rtt: latest_us.map(span),
                        ..Ack::of(now, acked, flight)
                    });
                    grows_by = acked;
                }
                Op::Lost(bytes) => bbr.on_lost(bytes),
                Op::Sent(bytes) => bbr.on_sent(now, bytes),
                Op::FastRetransmit => bbr.on_fast_retransmit(now),
                Op::Timeout => {
                    bbr.on_timeout(now);
                    prop_assert!(bbr.window() <= bbr.pmdcs.max(before));
                }
                Op::Undo => {
                    bbr.on_undo();
                    grows_by = u32::MAX;
                }
                Op::Ecn => bbr.on_ecn(now),
                Op::Starved(flight) => bbr.on_starved(flight),
                Op::Idle(periods) => bbr.on_idle(periods),
                Op::Mtu(pmdcs) => {
                    bbr.on_mtu(pmdcs % 9000);
                    grows_by = u32::MAX;
                }
                Op::Wait(us) => now += span(us),
            }
            prop_assert!(bbr.window() >= bbr.pmdcs);
            prop_assert!(bbr.pacing_rate().is_none_or(|rate| rate > 0));
            prop_assert!(bbr.window() <= before.saturating_add(grows_by).max(bbr.window_min()));
        }
    }
}
