//! Made-up traces: each breaks one bound, beside one that keeps it.

mod reduction;

use strandline_proto::stats::PathStatus;

use super::*;
use crate::pair::{Pair, Side};

const MTU: u32 = 1500;

/// Returns a path in use with these numbers.
fn path(cwnd: u32, flight: u32) -> PathStatus {
    let config = strandline_proto::config::EndpointConfig::default;
    let mut pair = Pair::new(config(), config(), strandline_netem::LinkConfig::default());
    let (a, _) = pair.connect();
    let mut path = pair.side(Side::A).endpoint.paths(a).expect("it stands")[0].clone();
    (path.cwnd, path.ssthresh, path.flight, path.mtu) = (cwnd, cwnd, flight, MTU as u16);
    (path.congestion, path.pacing_rate, path.srtt) = ("cubic", None, Some(Duration::from_millis(60)));
    (path.recovery_window, path.error_count) = (None, 0);
    path
}

fn events(ms: u64) -> Events {
    let now = Time::ZERO + Duration::from_millis(ms);
    Events {
        now,
        recoveries: 0,
        entered: 0,
        probes: 0,
        timeouts: 0,
        undone: 0,
        marks_answered: 0,
        exempt: 0,
        opened: false,
        several: false,
        gave_up: false,
    }
}

/// Sends `packets` packets of new data.
fn send(bounds: &mut Bounds, was: &PathStatus, packets: u32, events: Events) -> Result<(), Violation> {
    let sent = packets * MTU;
    let mut path = was.clone();
    path.flight += sent;
    let traffic = Traffic { sent, new: sent, packets, ..Traffic::default() };
    let config = AssociationConfig::default();
    bounds.after(Step {
        was,
        path: &path,
        traffic,
        mtu: MTU,
        events,
        config: &config,
        lost: None,
        marked: None,
    })
}

/// Retransmits `packets` packets.
fn send_again(bounds: &mut Bounds, was: &PathStatus, packets: u32, events: Events) -> Result<(), Violation> {
    let traffic = Traffic { sent: packets * MTU, packets, ..Traffic::default() };
    let config = AssociationConfig::default();
    let mtu = u32::from(was.mtu);
    bounds.after(Step { was, path: was, traffic, mtu, events, config: &config, lost: None, marked: None })
}

/// Acknowledges `packets` packets with one SACK.
fn acknowledged(bounds: &mut Bounds, path: &PathStatus, packets: u32, events: Events) {
    bounds.before((packets * MTU, 1), path, events, Marks::default()).expect("it keeps the bounds");
}

fn is_about(outcome: Result<(), Violation>, what: &str) {
    let Violation(text) = outcome.expect_err("it breaks a bound");
    assert!(text.contains(what), "{text}");
}

#[test]
fn burst_beyond_acknowledged_and_limit() {
    let was = path(100 * MTU, 50 * MTU);
    // An eighth of the window may be sent, 12 packets here, and one more that begins within.
    for (packets, keeps) in [(13, true), (15, false)] {
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        let outcome = send(&mut bounds, &was, packets, events(1));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "burst") }
    }
}

/// 60,000 bytes may have been gathered on a short path (decision 131), and one packet begins within.
#[test]
fn burst_gathered_on_short_path() {
    let (short, long) = (Duration::from_millis(4), Duration::from_millis(5));
    for (srtt, sacks, packets, keeps) in
        [(short, 1, 41, true), (short, 1, 43, false), (short, 0, 41, false), (long, 1, 41, false)]
    {
        let mut was = path(100 * MTU, 50 * MTU);
        was.srtt = Some(srtt);
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        bounds.clocked.2 = sacks;
        let outcome = send(&mut bounds, &was, packets, events(1));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "burst") }
    }
}

/// Ten packets, or an eighth of a larger window, and one that begins within.
#[test]
fn burst_after_pause_exceeding_initial_window() {
    for (window, packets, keeps) in [(12, 11, true), (12, 12, false), (100, 13, true), (100, 15, false)] {
        let was = path(window * MTU, 0);
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        bounds.clocked = Default::default();
        let outcome = send(&mut bounds, &was, packets, events(1));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "burst") }
    }
}

/// What is given up leaves the flight at once, without an acknowledgement.
#[test]
fn burst_in_place_of_abandoned_data() {
    let was = path(24 * MTU, 10 * MTU);
    for (left, keeps) in [(0, true), (1, false)] {
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        bounds.clocked = Default::default();
        let mut path = was.clone();
        path.flight = (11 + left) * MTU;
        let traffic = Traffic { sent: 11 * MTU, new: 11 * MTU, packets: 11, ..Traffic::default() };
        let (events, config) = (events(2), AssociationConfig::default());
        let step = Step {
            was: &was,
            path: &path,
            traffic,
            mtu: MTU,
            events,
            config: &config,
            lost: None,
            marked: None,
        };
        let outcome = bounds.after(step);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "burst") }
    }
}

#[test]
fn more_than_the_rate_over_time() {
    let mut was = path(100 * MTU, 10 * MTU);
    was.pacing_rate = Some(1_000_000);
    for (each_ms, keeps) in [(1, true), (3, false)] {
        let mut bounds = Bounds::default();
        let mut outcome = Ok(());
        for step in 0..100 {
            let events = events(2 * step);
            acknowledged(&mut bounds, &was, 1, events);
            // 1,500 or 4,500 bytes in each 2 ms, in which the rate yields 2,000.
            outcome = outcome.and_then(|()| send(&mut bounds, &was, each_ms, events));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "pacing") }
    }
}

/// The saved credit is ten packets of the current size, or 4 ms at the rate of the first packet. Then it is used up.
#[test]
fn a_new_bucket_is_full_when_first_used() {
    let (slow, fast) = ((1280, 100_000), (MTU, 100_000));
    for (first, later, packets, keeps) in [
        (slow, fast, 11, true),
        (slow, fast, 12, false),
        (slow, (MTU, 6_000_000), 17, true),
        (slow, (MTU, 6_000_000), 18, false),
        (fast, slow, 11, false),
    ] {
        let mut was = path(400 * MTU, 10 * MTU);
        let mut bounds = Bounds::default();
        for (mtu, rate) in [first, later] {
            (was.mtu, was.pacing_rate) = (mtu as u16, Some(rate));
            bounds.before((0, 0), &was, events(1), Marks::default()).expect("it keeps the bounds");
        }
        let outcome = send_again(&mut bounds, &was, packets, events(1));
        if keeps {
            outcome.expect("allowed")
        } else {
            is_about(outcome, "pacing")
        }
        if keeps {
            bounds.before((0, 0), &was, events(1), Marks::default()).expect("it keeps the bounds");
            is_about(send_again(&mut bounds, &was, 2, events(1)), "pacing");
        }
    }
}

/// Data goes with COOKIE ECHOs after a SACK has measured the round-trip time: it is not paced, and takes nothing from
/// the ten packets of saved credit with which pacing begins.
#[test]
fn pacing_begins_after_the_set_up() {
    for (packets, keeps) in [(11, true), (12, false)] {
        let mut was = path(400 * MTU, 10 * MTU);
        was.pacing_rate = Some(100_000);
        let mut bounds = Bounds::default();
        bounds.before((0, 0), &was, events(1), Marks::default()).expect("it keeps the bounds");
        let traffic = Traffic { sent: 20 * MTU, packets: 20, set_up: true, ..Traffic::default() };
        let (config, events) = (&AssociationConfig::default(), events(1));
        let (path, lost, marked) = (&was, None, None);
        let step = Step { was: &was, path, traffic, mtu: MTU, events, config, lost, marked };
        bounds.after(step).expect("the set-up is not paced");
        let outcome = send_again(&mut bounds, &was, packets, events);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "pacing") }
    }
}

/// The first packet after an idle period halves the window, which is in slow start then and is not paced. Without
/// Max.Burst the whole of it may go at once.
#[test]
fn idle_ends_in_slow_start_without_pacing() {
    let mut was = path(28 * MTU, 0);
    was.pacing_rate = Some(500_000);
    let config = AssociationConfig { burst_max: 0, ..AssociationConfig::default() };
    let idle_ms = was.rto.as_millis() as u64;
    // Packets sent, time since the last ones, window afterwards, threshold afterwards, rate afterwards.
    for (packets, after_ms, cwnd, ssthresh, rate, keeps) in [
        (14, idle_ms, 14 * MTU, 28 * MTU, None, true),
        (15, idle_ms, 14 * MTU, 28 * MTU, None, false),
        (14, idle_ms - 1, 14 * MTU, 28 * MTU, None, false),
        (14, idle_ms, 28 * MTU, 29 * MTU, None, false),
        (14, idle_ms, 14 * MTU, 14 * MTU, None, false),
        (14, idle_ms, 14 * MTU, 28 * MTU, Some(500_000), false),
    ] {
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        send(&mut bounds, &was, 1, events(1)).expect("allowed");
        let events = events(1 + after_ms);
        bounds.before((0, 0), &was, events, Marks::default()).expect("it keeps the bounds");
        let sent = packets * MTU;
        let mut path = was.clone();
        (path.cwnd, path.ssthresh, path.pacing_rate, path.flight) = (cwnd, ssthresh, rate, sent);
        let traffic = Traffic { sent, new: sent, packets, ..Traffic::default() };
        let (was, path, config) = (&was, &path, &config);
        let (lost, marked) = (None, None);
        let outcome = bounds.after(Step { was, path, traffic, mtu: MTU, events, config, lost, marked });
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "pacing") }
    }
}

#[test]
fn rate_above_the_allowed_windows_per_rtt() {
    // 150,000 bytes in 60 ms are 2.5 MB per second; 1.2 times as much is 3.
    for (rate, keeps) in [(2_990_000, true), (5_000_000, false)] {
        let mut was = path(100 * MTU, 10 * MTU);
        was.pacing_rate = Some(rate);
        let mut bounds = Bounds::default();
        acknowledged(&mut bounds, &was, 1, events(1));
        let outcome = send(&mut bounds, &was, 1, events(1));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "paced at more") }
    }
}

#[test]
fn a_second_packet_after_t3_rtx() {
    for (packets, keeps) in [(1, true), (2, false)] {
        let mut bounds = Bounds::default();
        bounds
            .before((0, 0), &path(10 * MTU, 5 * MTU), events(1), Marks::default())
            .expect("it keeps the bounds");
        let mut was = path(MTU, 0);
        (was.error_count, was.timeouts) = (1, 1);
        let expired = Events { timeouts: 1, exempt: 1, ..events(1000) };
        bounds.before((0, 0), &was, expired, Marks::default()).expect("it keeps the bounds");
        let outcome = send(&mut bounds, &was, packets, Events { timeouts: 0, ..expired });
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "T3-rtx") }
    }
}

/// T3-rtx expires again with a closed window, which is no time-out of the path, or the window opens: a packet may
/// probe.
#[test]
fn a_window_probe_after_t3_rtx() {
    let probe = Events { timeouts: 1, exempt: 1, ..events(3000) };
    let opened = Events { opened: true, ..events(3000) };
    for (event, packets, keeps) in
        [(probe, 1, true), (probe, 2, false), (opened, 1, true), (opened, 2, false), (events(3000), 1, false)]
    {
        let mut bounds = Bounds::default();
        let mut was = path(MTU, MTU);
        (was.error_count, was.timeouts) = (1, 1);
        let expired = Events { timeouts: 1, exempt: 1, ..events(1000) };
        bounds.before((0, 0), &was, expired, Marks::default()).expect("it keeps the bounds");
        send_again(&mut bounds, &was, 1, Events { timeouts: 0, ..expired }).expect("the packet of T3-rtx");
        bounds.before((0, 0), &was, event, Marks::default()).expect("it keeps the bounds");
        let outcome = send_again(&mut bounds, &was, packets, event);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "T3-rtx") }
    }
}

/// RFC 9260 section 7.2.4: the first packet of Fast Recovery is sent regardless of cwnd, as is that of T3-rtx. If
/// losses are detected by time, it is in proportion to what arrives.
#[test]
fn a_fast_retransmission_after_t3_rtx() {
    for (recovery, keeps) in [(Recovery::Rfc9260, true), (Recovery::Rack, false)] {
        let mut bounds = Bounds::default();
        let mut was = path(MTU, 0);
        (was.error_count, was.timeouts) = (1, 1);
        let expired = Events { timeouts: 1, exempt: 1, ..events(1000) };
        bounds.before((0, 0), &was, expired, Marks::default()).expect("it keeps the bounds");
        send(&mut bounds, &was, 1, Events { timeouts: 0, ..expired }).expect("the packet of T3-rtx");
        was.flight = MTU;
        let fast = Events { recoveries: 1, entered: 1, exempt: 1, ..events(1030) };
        bounds.before((0, 0), &was, fast, Marks::default()).expect("it keeps the bounds");
        let config = AssociationConfig { recovery, ..AssociationConfig::default() };
        let traffic = Traffic { sent: MTU, packets: 1, ..Traffic::default() };
        let (mut path, lost) = (was.clone(), None);
        path.flight = 2 * MTU;
        let step = Step {
            was: &was,
            path: &path,
            traffic,
            mtu: MTU,
            events: fast,
            config: &config,
            lost,
            marked: None,
        };
        let outcome = bounds.after(step);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "T3-rtx") }
    }
}

/// A window that loses packets of two successive round trips must shrink twice.
#[test]
fn losses_after_the_window_shrank() {
    let config = AssociationConfig::default();
    // The window when the second loss is known; when the lost data of the second loss was sent; the controller;
    // whether it keeps the bound.
    for (second, sent_ms, controller, keeps) in [
        (70, 50, "cubic", true),   // Sent in the same round trip.
        (70, 110, "cubic", false), // Sent after the reduction.
        (49, 110, "cubic", true),
        (49, 110, "dctcp", true),
        (70, 110, "dctcp", false),
        (70, 110, "swift", false),
        (70, 110, "bbr", true),
    ] {
        let mut bounds = Bounds::default();
        let mut outcome = Ok(());
        for (ms, cwnd, lost) in
            [(10, 100, None), (100, 70, Some(10)), (101, 70, None), (200, second, Some(sent_ms))]
        {
            let mut was = path(cwnd * MTU, 10 * MTU);
            was.congestion = controller;
            let events = Events { recoveries: u32::from(ms >= 100) + u32::from(ms >= 200), ..events(ms) };
            bounds.before((MTU, 1), &was, events, Marks::default()).expect("it keeps the bounds");
            let lost = lost.map(|ms| Time::ZERO + Duration::from_millis(ms));
            let traffic = Traffic { sent: MTU, packets: 1, ..Traffic::default() };
            let step = Step {
                was: &was,
                path: &was,
                traffic,
                mtu: MTU,
                events,
                config: &config,
                lost,
                marked: None,
            };
            outcome = outcome.and_then(|()| bounds.after(step));
        }
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "has not shrunk") }
    }
}

/// Runs a path of 100 packets through these windows and events.
fn windows(looks: &[(u64, u32, Events, Marks)]) -> Result<(), Violation> {
    let mut bounds = Bounds::default();
    looks.iter().try_for_each(|(_, cwnd, events, marks)| {
        bounds.before((MTU, 1), &path(cwnd * MTU, 10 * MTU), *events, *marks)
    })
}

fn lost(ms: u64) -> Events {
    Events { recoveries: 1, exempt: 1, ..events(ms) }
}

const NONE: Marks = Marks { sent_at: None, unknown: false };

#[test]
fn what_is_undone_gives_the_window_back() {
    let undone = |ms| Events { undone: 1, ..lost(ms) };
    for (after, keeps) in [(100, true), (120, true), (99, false), (70, false)] {
        let outcome =
            windows(&[(1, 100, events(1), NONE), (9, 70, lost(9), NONE), (20, after, undone(20), NONE)]);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "not what it was") }
    }
    // A mark reported at the same instant shrinks the window from there.
    for (after, keeps) in [(100, true), (50, true), (44, false)] {
        let told = Marks { sent_at: Some(Time::ZERO + Duration::from_millis(5)), unknown: false };
        let outcome =
            windows(&[(1, 100, events(1), NONE), (9, 70, lost(9), NONE), (20, after, undone(20), told)]);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "not what it was") }
    }
    // Three time-outs in a row: the window before the first.
    let expired = |ms| Events { timeouts: 1, exempt: 1, ..events(ms) };
    for (after, keeps) in [(100, true), (1, false), (50, false)] {
        let mut bounds = Bounds::default();
        let mut outcome = bounds.before((MTU, 1), &path(100 * MTU, 10 * MTU), events(1), NONE);
        for ms in [1000, 3000, 7000] {
            outcome = outcome.and_then(|()| bounds.before((0, 0), &path(MTU, 10 * MTU), expired(ms), NONE));
        }
        let undone = Events { undone: 1, ..events(7100) };
        let path = path(after * MTU, 10 * MTU);
        let outcome = outcome.and_then(|()| bounds.before((MTU, 1), &path, undone, NONE));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "not what it was") }
    }
}

/// An acknowledged FORWARD TSN ends a row of time-outs: those before it were for data that did not arrive.
#[test]
fn forward_tsn_ends_a_row_of_time_outs() {
    let expired = |ms| Events { timeouts: 1, exempt: 1, ..events(ms) };
    for (sacks, keeps) in [(1, true), (0, false)] {
        let mut bounds = Bounds::default();
        let looks = [
            ((MTU, 1), path(2 * MTU, MTU), events(1)),
            ((0, 0), path(MTU, MTU), expired(1000)),
            ((0, sacks), path(MTU, MTU), events(1100)),
            ((0, 0), path(MTU, MTU), expired(3000)),
            ((MTU, 1), path(MTU, 0), Events { undone: 1, ..events(3100) }),
        ];
        let outcome = looks
            .into_iter()
            .try_for_each(|(delivered, path, events)| bounds.before(delivered, &path, events, NONE));
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "not what it was") }
    }
}

/// Swift and DCTCP may halve the window for delay or marks at the instant of the loss, and that is not undone. A mark
/// that the reduction covered halves what is restored.
#[test]
fn reduction_beside_a_loss_is_not_undone() {
    let told = Marks { sent_at: Some(Time::ZERO + Duration::from_millis(5)), unknown: false };
    for (controller, after, keeps) in [
        ("swift", 37, true), // 75 restored, and halved.
        ("swift", 25, true),
        ("dctcp", 25, true),
        ("swift", 8, false),
        ("cubic", 37, false),
    ] {
        let mut bounds = Bounds::default();
        let undone = Events { undone: 1, marks_answered: 1, ..lost(40) };
        let outcome =
            [(100, events(1), NONE), (37, lost(9), NONE), (37, lost(15), told), (after, undone, NONE)]
                .into_iter()
                .try_for_each(|(cwnd, events, marks)| {
                    let mut path = path(cwnd * MTU, 10 * MTU);
                    path.congestion = controller;
                    bounds.before((MTU, 1), &path, events, marks)
                });
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "not what it was") }
    }
}

/// A mark that the reduction covered takes effect when that is undone, also if another loss came in between. A mark
/// that was answered, or never reported, does not.
#[test]
fn a_covered_mark_counts_after_an_undo() {
    let told = Marks { sent_at: Some(Time::ZERO + Duration::from_millis(5)), unknown: false };
    let second = |ms| Events { recoveries: 2, ..lost(ms) };
    let undone = |answered, events| Events { undone: 1, marks_answered: answered, ..events };
    for (told, answered, after, what) in [
        (told, 1, 50, None),
        (told, 1, 31, Some("not what it was")),
        (told, 0, 100, None),
        (told, 0, 69, Some("not what it was")),
        (NONE, 1, 50, Some("nobody reported")),
    ] {
        let first = [(1, 100, events(1), NONE), (9, 70, lost(9), NONE), (15, 70, lost(15), told)];
        let one = [&first[..], &[(40, after, undone(answered, lost(40)), NONE)]].concat();
        let both =
            [&first[..], &[(20, 50, second(20), NONE), (40, after, undone(answered, second(40)), NONE)]]
                .concat();
        for looks in [one, both] {
            match (windows(&looks), what) {
                (outcome, None) => outcome.expect("allowed"),
                (outcome, Some(what)) => is_about(outcome, what),
            }
        }
    }
}

/// A loss is detected when T3-rtx expires, and only the time-out was spurious: the window after the loss is restored.
#[test]
fn time_out_beside_loss_is_undone_alone() {
    let both = Events { timeouts: 1, ..lost(1000) };
    let alone = Events { timeouts: 1, exempt: 1, ..events(1000) };
    let undone = |events: Events| Events { undone: 1, timeouts: 0, ..events };
    for (event, after, keeps) in
        [(both, 80, true), (both, 45, true), (both, 44, false), (both, 1, false), (alone, 80, false)]
    {
        let outcome = windows(&[
            (1, 100, events(1), NONE),
            (1000, 1, event, NONE),
            (1030, after, undone(Events { now: Time::ZERO + Duration::from_millis(1030), ..event }), NONE),
        ]);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "not what it was") }
    }
}

/// A mark shrinks the window once, and only for data sent before the reduction.
#[test]
fn a_window_falls_for_a_reason() {
    let told = |ms| Marks { sent_at: Some(Time::ZERO + Duration::from_millis(ms)), unknown: false };
    let outcome = windows(&[(1, 100, events(1), NONE), (9, 70, events(9), NONE)]);
    is_about(outcome, "for nothing");
    for (sent_ms, keeps) in [(50, true), (10, true), (9, true), (8, false)] {
        let outcome = windows(&[
            (1, 100, events(1), NONE),
            (9, 70, events(9), told(3)),
            (60, 49, events(60), told(sent_ms)),
        ]);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "for nothing") }
    }
    windows(&[(1, 100, events(1), NONE), (9, 70, lost(9), NONE)]).expect("a loss");
}

/// A falling path MTU leaves as many packets in the window: a mark on data sent before it still shrinks the window. A
/// window that shrank for a loss or a mark at that instant has answered it.
#[test]
fn a_smaller_mtu_answers_no_mark() {
    let told = |ms| Marks { sent_at: Some(Time::ZERO + Duration::from_millis(ms)), unknown: false };
    for (event, marks, keeps) in
        [(events(9), NONE, true), (lost(9), NONE, false), (events(9), told(3), false)]
    {
        let mut bounds = Bounds::default();
        bounds.before((MTU, 1), &path(100 * MTU, 10 * MTU), events(1), NONE).expect("it keeps the bounds");
        let later = |ms, cwnd, events: Events, marks| {
            let mut path = path(cwnd * MTU, 10 * MTU);
            path.mtu = 576;
            (path, Events { now: Time::ZERO + Duration::from_millis(ms), ..events }, marks)
        };
        let (path, event, marks) = later(9, 40, event, marks);
        bounds.before((MTU, 1), &path, event, marks).expect("it keeps the bounds");
        let (path, event, marks) = later(60, 28, event, told(5));
        let event = Events { timeouts: 0, exempt: 0, ..event };
        let outcome = bounds.before((MTU, 1), &path, event, marks);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "for nothing") }
    }
}

/// CWR claims that the window has shrunk for a mark.
#[test]
fn answered_mark_has_shrunk_the_window() {
    let config = AssociationConfig::default();
    for (cwnd, controller, keeps) in [(70, "cubic", true), (100, "cubic", false), (100, "dctcp", true)] {
        let mut bounds = Bounds::default();
        let sent_at = Some(Time::ZERO + Duration::from_millis(3));
        let marks = Marks { sent_at, unknown: false };
        for (ms, cwnd, marks) in [(1, 100, NONE), (2, 100, NONE), (9, cwnd, marks)] {
            let mut was = path(cwnd * MTU, 10 * MTU);
            was.congestion = controller;
            bounds.before((MTU, 1), &was, events(ms), marks).expect("it keeps the bounds");
        }
        let mut was = path(cwnd * MTU, 10 * MTU);
        was.congestion = controller;
        let traffic = Traffic { sent: MTU, packets: 1, ..Traffic::default() };
        let (events, lost) = (events(9), None);
        let step =
            Step { was: &was, path: &was, traffic, mtu: MTU, events, config: &config, lost, marked: sent_at };
        let outcome = bounds.after(step);
        if keeps { outcome.expect("allowed") } else { is_about(outcome, "marked") }
    }
}
