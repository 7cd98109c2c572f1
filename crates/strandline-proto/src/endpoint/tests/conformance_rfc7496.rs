//! RFC 7496: what giving messages up does not change (section 3.1), and the limit of messages without one of their own.

use super::raw::*;
use super::*;
use crate::config::Recovery;
use crate::congestion::Algorithm;
use crate::event::FailureCause;
use crate::reliability::Reliability;
use crate::stats::PathStatus;

const ONCE: Reliability = Reliability::retransmissions(0);

fn open(change: impl Fn(&mut AssociationConfig)) -> Raw {
    conformance_rfc3758::open_as(|config| {
        config.recovery = Recovery::Rfc9260;
        config.congestion = Algorithm::Rfc9260;
        change(config);
    })
}

fn send(raw: &mut Raw, reliability: Reliability, context: u32) {
    let info = SendInfo::on(StreamId(1)).reliability(reliability).context(context);
    raw.pair.hosts[SERVER].endpoint.send_slice(raw.pair.now, raw.server, info, &[7; 1000]).unwrap();
}

fn path(raw: &Raw) -> PathStatus {
    raw.server().paths(raw.server).unwrap().remove(0)
}

/// Returns the contexts and causes of messages that failed, and forgets the events.
fn abandoned(raw: &mut Raw) -> Vec<(u32, FailureCause)> {
    raw.pair.collect();
    let failed = |(_, event)| match event {
        Event::SendFailed(failed) => Some((failed.info.context, failed.cause)),
        _ => None,
    };
    raw.pair.hosts[SERVER].events.drain(..).filter_map(failed).collect()
}

/// A chunk that is abandoned instead of being retransmitted counts as lost: after T3-rtx, and after loss detection.
#[test]
fn section_3_1_giving_up_costs_window_and_rto() {
    for by_time_out in [true, false] {
        let mut raw = open(|_| {});
        (0..4).for_each(|context| send(&mut raw, ONCE, context));
        assert_eq!(raw.heard().iter().filter(|sent| has(kind::DATA)(sent)).count(), 4);
        let before = path(&raw);
        if by_time_out {
            raw.wait(before.rto + Duration::from_millis(10));
        } else {
            for last in 2..5 {
                raw.say_sack(0, 65_536, &[(2, last)]);
            }
        }
        let after = path(&raw);
        let lost = FailureCause::RetransmissionsExhausted;
        let expected: Vec<_> = (0..if by_time_out { 4 } else { 1 }).map(|context| (context, lost)).collect();
        assert_eq!(abandoned(&mut raw), expected);
        assert!(after.ssthresh < before.ssthresh, "{before:?} {after:?}");
        assert_eq!(after.cwnd < before.cwnd, by_time_out, "at most half of so small a window is in flight");
        assert_eq!(after.rto > before.rto, by_time_out);
        assert_eq!(after.error_count, u16::from(by_time_out));
    }
}

/// Time-outs count as errors whether or not the message is abandoned, and the limits of errors hold.
#[test]
fn section_3_1_error_counters_are_not_affected() {
    let ends = [ONCE, Reliability::FULL].map(|reliability| {
        let mut raw = open(|config| config.association_retrans_max = 3);
        send(&mut raw, reliability, 0);
        raw.heard();
        let begun = raw.pair.now;
        while raw.pair.closed(SERVER).is_none() {
            raw.wait(Duration::from_millis(100));
            assert!(raw.pair.now.since(begun) < Duration::from_secs(600));
        }
        assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
        raw.pair.now.since(begun)
    });
    assert_eq!(ends[0], ends[1]);
}

/// The limit of the association holds for messages without one of their own, from the time on that it is set.
#[test]
fn a_default_limit_holds_for_messages_without_one() {
    let mut raw = open(|config| config.extensions.default_reliability = ONCE);
    send(&mut raw, Reliability::DEFAULT, 0);
    send(&mut raw, Reliability::FULL, 1);
    send(&mut raw, Reliability::retransmissions(9), 2);
    raw.heard();
    raw.wait(path(&raw).rto + Duration::from_millis(10));
    assert_eq!(abandoned(&mut raw), [(0, FailureCause::RetransmissionsExhausted)]);
    let mut config = (*raw.pair.hosts[SERVER].endpoint.context.config.association).clone();
    config.extensions.default_reliability = Reliability::DEFAULT;
    raw.pair.hosts[SERVER].endpoint.configure(raw.pair.now, raw.server, Arc::new(config)).unwrap();
    send(&mut raw, Reliability::DEFAULT, 3);
    raw.wait(Duration::from_secs(20));
    assert_eq!(abandoned(&mut raw), []);
    // What is left fails with the limit that it was given with.
    raw.pair.hosts[SERVER].endpoint.abort(raw.pair.now, raw.server, bytes::Bytes::new()).unwrap();
    raw.pair.collect();
    let limits = raw.pair.hosts[SERVER].events.iter().filter_map(|(_, event)| match event {
        Event::SendFailed(failed) => Some(failed.info.reliability),
        _ => None,
    });
    let given = [Reliability::FULL, Reliability::retransmissions(9), Reliability::DEFAULT];
    assert_eq!(limits.collect::<Vec<_>>(), given);
}

/// Messages that have their priority by default make room for others, too.
#[test]
fn default_priorities_make_room() {
    let mut raw = open(|config| {
        config.extensions.default_reliability = Reliability::priority(5);
        config.send_buffer = Some(3000);
    });
    raw.say_sack(0, 0, &[]);
    (0..3).for_each(|context| send(&mut raw, Reliability::DEFAULT, context));
    let info = SendInfo::on(StreamId(1));
    let full = raw.pair.hosts[SERVER].endpoint.send_slice(raw.pair.now, raw.server, info, &[7; 1000]);
    assert!(full.is_err(), "all have the same priority");
    send(&mut raw, Reliability::FULL, 3);
    let failed = abandoned(&mut raw);
    assert!(failed.len() == 1 && failed[0].1 == FailureCause::LowPriority, "{failed:?}");
}
