use super::*;

const PACKET: u32 = 1_000;
const BANDWIDTH: u64 = 10_000_000;

fn us(us: u64) -> Time {
    Time::ZERO + Duration::from_micros(us)
}

fn moment(now: Time, rounds: u32) -> Moment {
    Moment { now, bandwidth: BANDWIDTH, rounds, steady: true }
}

/// Acknowledges `packets` packets each time, `times` times, at the bandwidth divided by `slower`. Each begins a round.
fn run(aggregation: &mut Aggregation, from_us: &mut u64, packets: u32, times: u32, slower: u64) {
    for _ in 0..times {
        *from_us += u64::from(packets) * 100 * slower;
        let rounds = (*from_us / 100) as u32;
        aggregation.on_ack(packets * PACKET, 10_000_000, moment(us(*from_us), rounds));
    }
}

#[test]
fn steady_acknowledgements_exceed_nothing_but_one_of_them() {
    let (mut aggregation, mut now) = (Aggregation::new(us(0)), 0);
    run(&mut aggregation, &mut now, 2, 2_000, 1);
    assert_eq!(aggregation.excess(), u64::from(2 * PACKET));
}

#[test]
fn bunches_count_whole_and_are_forgotten() {
    let (mut aggregation, mut now) = (Aggregation::new(us(0)), 0);
    run(&mut aggregation, &mut now, 200, 20, 1);
    assert_eq!(aggregation.excess(), u64::from(200 * PACKET), "20 ms of the bandwidth");
    run(&mut aggregation, &mut now, 2, 200, 2);
    assert_eq!(aggregation.excess(), u64::from(200 * PACKET), "for 100 ms at least");
    run(&mut aggregation, &mut now, 2, 1_000, 2);
    assert_eq!(aggregation.excess(), u64::from(2 * PACKET));
}

#[test]
fn acknowledgements_of_a_bunch_add_up() {
    let mut aggregation = Aggregation::new(us(0));
    for packet in 0..50 {
        aggregation.on_ack(PACKET, 10_000_000, moment(us(20_000 + packet), 1));
    }
    let excess = aggregation.excess();
    assert!((49_000..=50_000).contains(&excess), "{excess}");
}

#[test]
fn excess_is_limited() {
    let mut aggregation = Aggregation::new(us(0));
    aggregation.on_ack(5_000_000, 300_000, moment(us(20_000), 1));
    assert_eq!(aggregation.excess(), 300_000);
    aggregation.on_ack(5_000_000, 5_000_000, moment(us(20_000), 1));
    assert_eq!(aggregation.excess(), BANDWIDTH / 10);
}

#[test]
fn startup_remembers_two_rounds() {
    let mut aggregation = Aggregation::new(us(0));
    let start = |now, rounds| Moment { steady: false, ..moment(now, rounds) };
    aggregation.on_ack(500_000, 5_000_000, start(us(10_000), 1));
    for round in 2..4 {
        assert_eq!(aggregation.excess(), 500_000, "before round {round}");
        // Late enough that this is no more than the bandwidth.
        aggregation.on_ack(1, 5_000_000, start(us(100_000 * u64::from(round)), round));
    }
    assert_eq!(aggregation.excess(), 1);
}

#[test]
fn late_reports_are_no_bunch() {
    let mut aggregation = Aggregation::new(us(0));
    aggregation.on_ack(PACKET, 5_000_000, moment(us(100), 1));
    aggregation.interrupt(us(200));
    aggregation.on_ack(PACKET, 5_000_000, moment(us(200), 1));
    assert_eq!(aggregation.excess(), u64::from(PACKET));
}
