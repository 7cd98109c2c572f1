use super::*;

const FIRST: Duration = Duration::from_millis(10);
const RTO: Duration = Duration::from_secs(1);

/// Takes all probes that may be sent now and returns their intervals.
fn take(probes: &mut Probes, rto: Duration) -> Vec<u128> {
    let mut intervals = Vec::new();
    while let Some(interval) = probes.interval(FIRST, rto) {
        intervals.push(interval.as_millis() / FIRST.as_millis());
        probes.on_probe();
    }
    intervals
}

#[test]
fn intervals_double_over_time_outs() {
    let mut probes = Probes::default();
    assert_eq!(take(&mut probes, RTO), [1, 2]);
    for after in [vec![], vec![4], vec![8], vec![16]] {
        probes.on_timeout();
        assert_eq!(take(&mut probes, RTO), after);
    }
    probes.on_acked();
    assert_eq!(take(&mut probes, RTO), [1, 2]);
}

/// Time-outs without probes leave at most two probes, and later ones at most one.
#[test]
fn unused_probes_are_not_saved_up() {
    let mut probes = Probes::default();
    probes.on_timeout();
    assert_eq!(take(&mut probes.clone(), RTO), [1, 2]);
    for _ in 0..5 {
        probes.on_timeout();
        assert_eq!(take(&mut probes.clone(), RTO), [1]);
    }
}

#[test]
fn long_rtos_leave_one_probe() {
    assert_eq!(take(&mut Probes::default(), RTO_OF_TWO_MAX * 2), [1]);
}

#[test]
fn intervals_grow_without_overflow() {
    let mut probes = Probes::default();
    for _ in 0..1000 {
        probes.on_timeout();
        take(&mut probes, RTO);
    }
    assert_eq!(probes.interval(Duration::MAX, RTO), None);
    probes.on_timeout();
    assert_eq!(probes.interval(Duration::MAX, RTO), Some(Duration::MAX));
}

/// What a repeated COOKIE ECHO asks for never adds to what there is over several time-outs.
#[test]
fn repetitions_are_probes() {
    for probes_first in [false, true] {
        let mut probes = Probes::default();
        let mut packets = if probes_first { take(&mut probes, RTO).len() } else { 0 };
        for time_outs in 1..20 {
            probes.on_timeout();
            while probes.take_repetition(RTO) {
                packets += 1;
            }
            // At first one before its time.
            let due = if time_outs == 1 && probes_first { 3 } else { time_outs + 1 };
            assert_eq!(packets, due, "{time_outs}");
        }
        probes.on_acked();
        assert_eq!(take(&mut probes, RTO), [1, 2]);
    }
}
