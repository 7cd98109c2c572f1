#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

const RTO: Duration = Duration::from_millis(200);
const UDP: u16 = 8;

fn v4() -> Pmtu {
    Pmtu::new(1280, 1500, UDP, false)
}

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

fn send_full_packets(pmtu: &mut Pmtu) {
    for _ in 0..PACKETS_BEFORE_PROBE {
        pmtu.on_packet_sent(pmtu.packet_len());
    }
}

/// Lets data flow on a path that carries IP packets of up to `carries` bytes until no probe is due. Returns the
/// probed sizes.
fn search(pmtu: &mut Pmtu, now: &mut Time, carries: u16) -> Vec<u16> {
    let mut probed = Vec::new();
    for nonce in 1.. {
        send_full_packets(pmtu);
        let Some(len) = pmtu.probe_due(*now) else { return probed };
        pmtu.on_probe_sent(*now, nonce);
        probed.push(pmtu.probe);
        assert!(probed.len() < 100, "the search does not end: {probed:?}");
        if len + usize::from(pmtu.overhead) <= usize::from(carries) {
            *now += RTO;
            assert_eq!(
                pmtu.on_ack(*now, nonce),
                Some(Time::from_nanos(now.as_nanos() - RTO.as_nanos() as u64))
            );
        } else {
            *now = pmtu.deadline(RTO);
            pmtu.on_timer(*now, RTO);
        }
    }
    unreachable!()
}

#[test]
fn packet_length_excludes_headers_and_is_aligned() {
    let len = |mtu, encapsulation, ipv6| Pmtu::new(mtu, mtu, encapsulation, ipv6).packet_len();
    assert_eq!(len(1500, 0, false), 1480);
    assert_eq!(len(1500, 8, false), 1472);
    assert_eq!(len(1500, 0, true), 1460);
    assert_eq!(len(1500, 8, true), 1452);
    assert_eq!(len(1499, 0, false), 1476);
    assert_eq!(len(1500, u16::MAX, false), 256, "an overhead that leaves nothing");
}

#[test]
fn ipv6_starts_with_what_every_link_carries() {
    assert_eq!(Pmtu::new(576, 1500, 0, true).mtu(), 1280);
    assert_eq!(Pmtu::new(576, 1500, 0, false).mtu(), 576);
    assert_eq!(Pmtu::new(1000, 1000, 0, true).mtu(), 1000, "unless it is configured to less");
}

#[test]
fn idle_paths_and_small_packets_start_no_search() {
    let mut pmtu = v4();
    assert_eq!(pmtu.probe_due(secs(0)), None);
    for _ in 0..1000 {
        pmtu.on_packet_sent(600);
    }
    assert_eq!((pmtu.probe_due(secs(1)), pmtu.deadline(RTO)), (None, Time::MAX));
    send_full_packets(&mut pmtu);
    assert_eq!(pmtu.probe_due(secs(1)), Some(1472));
}

#[test]
fn the_largest_size_is_tried_first() {
    let (mut pmtu, mut now) = (v4(), secs(0));
    assert_eq!(search(&mut pmtu, &mut now, 1500), [1500]);
    assert_eq!((pmtu.mtu(), pmtu.deadline(RTO)), (1500, Time::MAX));
    now += RAISE_AFTER * 2;
    assert_eq!(search(&mut pmtu, &mut now, 1500), [0; 0], "nothing larger to find");
}

/// Most paths carry Ethernet frames, whatever the local link carries, and next likely is the link's MTU.
#[test]
fn ethernet_comes_before_the_largest_size() {
    let wide = || (Pmtu::new(1280, 9000, UDP, false), secs(0));
    let (mut pmtu, mut now) = wide();
    assert_eq!(search(&mut pmtu, &mut now, 9000), [1500, 9000]);
    assert_eq!((pmtu.mtu(), pmtu.deadline(RTO)), (9000, Time::MAX));
    let (mut pmtu, mut now) = wide();
    assert_eq!(search(&mut pmtu, &mut now, 1500)[..5], [1500, 9000, 9000, 9000, 5250]);
    assert_eq!(pmtu.mtu(), 1500);
    let (mut pmtu, mut now) = wide();
    assert_eq!(search(&mut pmtu, &mut now, 1400)[..4], [1500, 1500, 1500, 1390]);
    assert_eq!(pmtu.mtu(), 1390);
}

#[test]
fn links_name_the_size_that_they_take() {
    let mut pmtu = Pmtu::new(1500, u16::MAX, UDP, false);
    send_full_packets(&mut pmtu);
    assert_eq!(pmtu.probe_due(secs(0)), Some(65_504));
    pmtu.on_probe_sent(secs(0), 5);
    assert!(!pmtu.on_packet_too_big(secs(0), 1500));
    assert_eq!((pmtu.mtu(), pmtu.deadline(RTO), pmtu.probe_due(secs(1))), (1500, Time::MAX, None));
}

#[test]
fn search_halves_with_three_probes_a_size() {
    let (mut pmtu, mut now) = (v4(), secs(0));
    let probed = search(&mut pmtu, &mut now, 1400);
    assert_eq!(probed, [1500, 1500, 1500, 1390, 1445, 1445, 1445, 1417, 1417, 1417]);
    assert_eq!(pmtu.mtu(), 1390);
}

#[test]
fn search_ends_within_its_granularity() {
    for carries in (1280..9000).step_by(37) {
        let (mut pmtu, mut now) = (Pmtu::new(1280, 9000, UDP, true), secs(0));
        search(&mut pmtu, &mut now, carries);
        let largest = pmtu.packet_len() + usize::from(pmtu.overhead);
        let missed = usize::from(carries).checked_sub(largest);
        assert!(missed.is_some_and(|missed| missed < 36), "{largest} of {carries}");
    }
}

#[test]
fn probe_timer_is_rto_or_a_second() {
    let mut pmtu = v4();
    send_full_packets(&mut pmtu);
    assert!(pmtu.probe_due(secs(0)).is_some());
    pmtu.on_probe_sent(secs(0), 5);
    assert_eq!(pmtu.probe_due(secs(0)), None, "one at a time");
    assert_eq!(pmtu.deadline(RTO), secs(1));
    assert_eq!(pmtu.deadline(Duration::from_secs(3)), secs(3));
    pmtu.on_timer(secs(2), Duration::from_secs(3));
    assert_eq!(pmtu.deadline(Duration::from_secs(3)), secs(3), "not yet");
    pmtu.on_timer(secs(3), Duration::from_secs(3));
    assert_eq!((pmtu.deadline(RTO), pmtu.probe_due(secs(3))), (Time::MAX, None), "again when data flows");
    send_full_packets(&mut pmtu);
    assert_eq!(pmtu.probe_due(secs(3)), Some(1472));
}

#[test]
fn only_the_nonce_of_the_latest_probe_counts() {
    let mut pmtu = v4();
    assert_eq!(pmtu.on_ack(secs(0), 0), None, "0 is no nonce");
    send_full_packets(&mut pmtu);
    pmtu.on_probe_sent(secs(0), 5);
    assert_eq!(pmtu.on_ack(secs(1), 6), None);
    pmtu.on_timer(secs(1), RTO);
    assert_eq!(pmtu.on_ack(secs(2), 5), Some(secs(0)), "late, but the size got through");
    assert_eq!(pmtu.mtu(), 1500);
    assert_eq!(pmtu.on_ack(secs(2), 5), None);
}

#[test]
fn the_raise_timer_searches_again() {
    let (mut pmtu, mut now) = (v4(), secs(0));
    search(&mut pmtu, &mut now, 1400);
    now += Duration::from_secs(599);
    assert_eq!(search(&mut pmtu, &mut now, 1500), [0; 0]);
    now += Duration::from_secs(1);
    assert_eq!(search(&mut pmtu, &mut now, 1500), [1500]);
    assert_eq!(pmtu.mtu(), 1500);
}

#[test]
fn black_hole_falls_to_base_then_floor() {
    for (ipv6, steps) in [(false, &[1200, 576, 576][..]), (true, &[1280, 1280])] {
        let mut pmtu = Pmtu::new(1500, 1500, 0, ipv6);
        assert!(!pmtu.on_timeout(9000), "once is no sign");
        for (round, &mtu) in steps.iter().enumerate() {
            // Right after a fall one more time-out is enough.
            let falls = round == 0 || (round == 1 && !ipv6);
            assert_eq!((pmtu.on_timeout(9000), pmtu.mtu()), (falls, mtu));
        }
    }
}

#[test]
fn consecutive_full_packet_time_outs_show_black_hole() {
    let mut pmtu = Pmtu::new(1500, 1500, 0, false);
    for _ in 0..10 {
        assert!(!pmtu.on_timeout(0));
    }
    for _ in 0..10 {
        assert!(!pmtu.on_timeout(9000));
        pmtu.on_acked(1468);
    }
    assert!(!pmtu.on_timeout(9000));
    pmtu.on_acked(100);
    assert!(pmtu.on_timeout(9000), "small packets get through a black hole");
}

/// T3-rtx never expires where short packets arrive and are acknowledged.
#[test]
fn losses_of_long_packets_show_black_hole() {
    let mut pmtu = Pmtu::new(1500, 1500, 0, false);
    for _ in 0..3 {
        for _ in 0..3 {
            pmtu.on_acked(100);
            assert!(!pmtu.on_lost(9000));
            assert!(!pmtu.on_lost(100), "a short one says nothing");
        }
        pmtu.on_acked(1468);
    }
    for round in 0..4 {
        pmtu.on_acked(100);
        assert_eq!(pmtu.on_lost(9000), round == 3);
    }
    assert_eq!(pmtu.mtu(), 1200);
}

#[test]
fn remembered_size_is_doubted_at_first_time_out() {
    let mut pmtu = Pmtu::new(1280, 1500, 0, false);
    pmtu.begin_at(secs(1), 1500);
    assert_eq!((pmtu.mtu(), pmtu.probe_due(secs(2))), (1500, None));
    assert!(pmtu.on_timeout(1400));
    assert_eq!(pmtu.mtu(), 1200);
    let mut pmtu = Pmtu::new(1280, 1500, 0, false);
    pmtu.begin_at(secs(1), 9000);
    assert_eq!(pmtu.mtu(), 1500, "no more than is configured");
    pmtu.on_acked(1472);
    assert!(!pmtu.on_timeout(1400), "it was confirmed");
}

#[test]
fn black_hole_below_base_goes_to_floor() {
    let mut pmtu = Pmtu::new(1280, 1500, 0, false);
    assert!(!pmtu.on_timeout(700), "once is no sign");
    assert!(pmtu.on_timeout(700));
    assert_eq!(pmtu.mtu(), 576);
    let mut pmtu = Pmtu::new(1280, 1500, 0, false);
    for _ in 0..10 {
        assert!(!pmtu.on_timeout(500), "every path carries that");
    }
}

#[test]
fn search_recovers_after_a_black_hole() {
    let (mut pmtu, mut now) = (Pmtu::new(1500, 1500, 0, false), secs(0));
    assert!(pmtu.on_black_hole(9000));
    search(&mut pmtu, &mut now, 1300);
    assert!((1300 - 32..=1300).contains(&pmtu.mtu()), "{}", pmtu.mtu());
}

#[test]
fn time_out_during_a_probe_says_nothing() {
    let mut pmtu = v4();
    for nonce in 1..10 {
        send_full_packets(&mut pmtu);
        assert_eq!(pmtu.probe_due(secs(nonce)), Some(1472));
        pmtu.on_probe_sent(secs(nonce), nonce);
        pmtu.on_timeout(0);
        assert_eq!(pmtu.deadline(RTO), Time::MAX);
    }
    assert_eq!(pmtu.probes_lost, 0);
}

#[test]
fn packet_too_big_probes_the_reported_size() {
    let mut pmtu = Pmtu::new(1500, 1500, 0, false);
    assert!(pmtu.on_packet_too_big(secs(0), 1400));
    assert_eq!((pmtu.mtu(), pmtu.probe_due(secs(0))), (1200, Some(1380)));
    pmtu.on_probe_sent(secs(0), 1);
    assert_eq!(pmtu.on_ack(secs(0), 1), Some(secs(0)));
    assert_eq!((pmtu.mtu(), pmtu.state), (1400, State::Complete));
}

#[test]
fn packet_too_big_below_base_goes_to_floor() {
    let mut pmtu = Pmtu::new(1500, 1500, 0, false);
    assert!(pmtu.on_packet_too_big(secs(0), 1000));
    assert_eq!((pmtu.mtu(), pmtu.probe_due(secs(0))), (576, Some(980)));
}

#[test]
fn packet_too_big_shortens_the_search() {
    let mut pmtu = v4();
    send_full_packets(&mut pmtu);
    pmtu.on_probe_sent(secs(0), 1);
    assert!(!pmtu.on_packet_too_big(secs(0), 1420));
    assert_eq!((pmtu.mtu(), pmtu.probe_due(secs(0)), pmtu.deadline(RTO)), (1280, Some(1392), Time::MAX));
    assert_eq!(pmtu.on_ack(secs(0), 1), None, "that probe cannot have come through");
    assert!(!pmtu.on_packet_too_big(secs(0), 1280));
    assert_eq!(pmtu.state, State::Complete);
}

#[test]
fn silly_reports_are_ignored() {
    for (ipv6, reports) in [
        (false, [0, 68, 575, 1500, 9000, 65_536, u32::MAX]),
        (true, [0, 1279, 576, 1500, 9000, 65_536, u32::MAX]),
    ] {
        let mut pmtu = Pmtu::new(1500, 1500, 0, ipv6);
        for report in reports {
            assert!(!pmtu.on_packet_too_big(secs(0), report), "{report}");
            assert_eq!((pmtu.mtu(), pmtu.state), (1500, State::Complete));
        }
    }
}

#[test]
fn returning_path_or_new_maximum_restarts() {
    let (mut pmtu, mut now) = (v4(), secs(0));
    search(&mut pmtu, &mut now, 1280);
    assert_eq!((pmtu.mtu(), pmtu.state), (1280, State::Complete));
    pmtu.on_path_returned();
    assert_eq!(search(&mut pmtu, &mut now, 1500), [1500]);
    assert!(!pmtu.set_max(9000));
    assert_eq!(search(&mut pmtu, &mut now, 9000), [9000]);
    assert!(pmtu.set_max(1400));
    assert_eq!((pmtu.mtu(), pmtu.state), (1400, State::Complete));
}

#[test]
fn equal_sizes_leave_the_search_off() {
    let (mut pmtu, mut now) = (Pmtu::new(1500, 1500, 0, false), secs(10_000));
    assert_eq!(search(&mut pmtu, &mut now, 9000), [0; 0]);
}

#[derive(Debug, Clone)]
enum Op {
    Packet(u16),
    Probe,
    Ack(bool),
    Timer(u32),
    Timeout(bool),
    Acked(u32),
    TooBig(u32),
    Max(u16),
    Returned,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => prop_oneof![any::<u16>(), Just(u16::MAX)].prop_map(Op::Packet),
        4 => Just(Op::Probe),
        2 => any::<bool>().prop_map(Op::Ack),
        2 => any::<u32>().prop_map(Op::Timer),
        1 => any::<bool>().prop_map(Op::Timeout),
        1 => any::<u32>().prop_map(Op::Acked),
        1 => prop_oneof![any::<u32>(), 0_u32..10_000].prop_map(Op::TooBig),
        1 => (576_u16..).prop_map(Op::Max),
        1 => Just(Op::Returned),
    ]
}

proptest! {
    #[test]
    fn stays_within_bounds_whatever_happens(
        initial in 576_u16..,
        max in 576_u16..,
        encapsulation: u16,
        ipv6: bool,
        ops in proptest::collection::vec(op(), 0..100),
    ) {
        let mut pmtu = Pmtu::new(initial, max, encapsulation, ipv6);
        let (mut now, mut nonce, mut max) = (secs(0), 0, max);
        for op in ops {
            let before = pmtu.mtu();
            let fell = match op {
                Op::Packet(len) => { pmtu.on_packet_sent(usize::from(len)); false }
                Op::Probe => {
                    if let Some(len) = pmtu.probe_due(now) {
                        prop_assert!(len.is_multiple_of(4) && len >= pmtu.packet_len());
                        nonce += 1;
                        pmtu.on_probe_sent(now, nonce);
                    }
                    false
                }
                Op::Ack(good) => { pmtu.on_ack(now, if good { nonce } else { nonce ^ 1 << 40 }); false }
                Op::Timer(ms) => { now += Duration::from_millis(u64::from(ms)); pmtu.on_timer(now, RTO); false }
                Op::Timeout(full) => pmtu.on_timeout(if full { 9000 } else { 0 }),
                Op::Acked(bytes) => { pmtu.on_acked(bytes); false }
                Op::TooBig(mtu) => pmtu.on_packet_too_big(now, mtu),
                Op::Max(new) => { max = new; pmtu.set_max(new) }
                Op::Returned => { pmtu.on_path_returned(); false }
            };
            prop_assert_eq!(fell, pmtu.mtu() < before);
            prop_assert!(pmtu.mtu() <= max);
            let floor = if ipv6 { 1280.min(max) } else { 576 };
            prop_assert!(pmtu.mtu() >= floor);
            prop_assert!(pmtu.packet_len().is_multiple_of(4));
            prop_assert!(pmtu.state == State::Complete || (pmtu.probe > pmtu.mtu() && pmtu.probe <= max));
        }
    }
}
