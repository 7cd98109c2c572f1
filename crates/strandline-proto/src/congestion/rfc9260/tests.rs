#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::congestion::{Algorithm, Congestion};

const PMDCS: u32 = 1452;

fn full(acked_bytes: u32) -> Ack {
    Ack::of(Time::ZERO, acked_bytes, u32::MAX)
}

fn not_full(acked_bytes: u32) -> Ack {
    Ack { flight_before: 0, window_full: false, ..full(acked_bytes) }
}

/// A controller in congestion avoidance with the given window.
fn avoiding(cwnd: u32) -> Rfc9260 {
    Rfc9260 {
        cwnd,
        ssthresh: cwnd - 1,
        partial_bytes_acked: 0,
        pmdcs: PMDCS,
        before: Undo::default(),
        l_max: L_MAX,
    }
}

#[test]
fn section_7_2_1_initial_window() {
    let initial = |pmdcs, ipv6| Rfc9260::new(pmdcs, ipv6).window();
    assert_eq!(initial(1468, false), 3 * 1468, "Ethernet, IPv4");
    assert_eq!(initial(1448, true), 3 * 1448, "Ethernet, IPv6");
    assert_eq!(initial(500, false), 2000, "small: 4 packets");
    assert_eq!(initial(8960, false), 17_920, "jumbo: 2 packets");
    assert_eq!(Rfc9260::new(PMDCS, false).slow_start_threshold(), u32::MAX);
}

#[test]
fn section_7_2_1_slow_start_grows_by_acknowledged_bytes() {
    let grown = |acked: u32| {
        let mut controller = Rfc9260::new(PMDCS, false);
        let start = controller.window();
        controller.on_ack(&full(acked));
        controller.window() - start
    };
    assert_eq!(grown(100), 100);
    assert_eq!(grown(3 * PMDCS), PMDCS, "L = 1");
    assert_eq!(grown(10 * PMDCS), 5 * PMDCS, "a SACK in place of five");
    assert_eq!(grown(1000 * PMDCS), L_MAX * PMDCS);
}

/// RFC 6356: of several coupled windows each grows by its share.
#[test]
fn coupled_windows_grow_by_their_share() {
    let packets_after_100 = |algorithm: Algorithm, share: f32| {
        let mut congestion = Congestion::new(algorithm, PMDCS, false);
        congestion.on_fast_retransmit(Time::ZERO); // Ends slow start.
        let before = congestion.window();
        for _ in 0..100 {
            let ack = Ack { share, ..full(congestion.window()) };
            congestion.on_ack(&ack);
        }
        (congestion.window() - before) / PMDCS
    };
    for algorithm in [Algorithm::Rfc9260, Algorithm::Dctcp] {
        assert_eq!(packets_after_100(algorithm, 1.0), 100, "{algorithm:?}");
        assert_eq!(packets_after_100(algorithm, 0.25), 25, "{algorithm:?}");
    }
}

#[test]
fn section_7_2_1_after_loss_one_packet_per_sack() {
    let mut controller = Rfc9260::new(PMDCS, false);
    controller.cwnd = 100 * PMDCS;
    controller.on_timeout(Time::ZERO);
    controller.on_ack(&full(10 * PMDCS));
    assert_eq!(controller.window(), 2 * PMDCS);
}

#[test]
fn section_7_2_1_slow_start_needs_a_full_window() {
    let mut controller = Rfc9260::new(PMDCS, false);
    let start = controller.window();
    controller.on_ack(&not_full(PMDCS));
    controller.on_ack(&Ack { in_fast_recovery: true, ..full(PMDCS) });
    assert_eq!(controller.window(), start);
}

#[test]
fn section_7_2_1_slow_start_up_to_and_including_ssthresh() {
    let mut controller = Rfc9260 {
        cwnd: 9000,
        ssthresh: 9000,
        partial_bytes_acked: 0,
        pmdcs: PMDCS,
        before: Undo::default(),
        l_max: L_MAX,
    };
    controller.on_ack(&full(PMDCS));
    assert_eq!(controller.window(), 9000 + PMDCS);
    controller.on_ack(&full(PMDCS));
    assert_eq!(controller.window(), 9000 + PMDCS, "congestion avoidance now");
}

#[test]
fn section_7_2_2_one_packet_for_each_window_acked() {
    let cwnd = 10 * PMDCS;
    let mut controller = avoiding(cwnd);
    for _ in 0..9 {
        controller.on_ack(&full(PMDCS));
        assert_eq!(controller.window(), cwnd);
    }
    controller.on_ack(&full(PMDCS));
    assert_eq!(controller.window(), cwnd + PMDCS);
    assert_eq!(controller.partial_bytes_acked, 0);
}

#[test]
fn section_7_2_2_what_exceeds_the_window_is_kept() {
    let mut controller = avoiding(10_000);
    controller.on_ack(&full(9_999));
    controller.on_ack(&full(500));
    assert_eq!((controller.window(), controller.partial_bytes_acked), (10_000 + PMDCS, 499));
}

#[test]
fn section_7_2_2_unused_window_does_not_grow() {
    let mut controller = avoiding(10_000);
    for _ in 0..20 {
        controller.on_ack(&not_full(4_000));
    }
    assert_eq!((controller.window(), controller.partial_bytes_acked), (10_000, 10_000));
    controller.on_ack(&full(1));
    assert_eq!((controller.window(), controller.partial_bytes_acked), (10_000 + PMDCS, 1));
}

#[test]
fn section_7_2_2_nothing_outstanding_starts_the_count_again() {
    let mut controller = avoiding(10_000);
    controller.on_ack(&full(5_000));
    controller.on_ack(&Ack { all_acked: true, ..full(100) });
    assert_eq!(controller.partial_bytes_acked, 0);
}

#[test]
fn section_7_2_3_a_loss_halves() {
    let mut controller = avoiding(100_000);
    controller.on_ack(&full(5_000));
    controller.on_fast_retransmit(Time::ZERO);
    assert_eq!((controller.window(), controller.slow_start_threshold()), (50_000, 50_000));
    assert_eq!(controller.partial_bytes_acked, 0);
    for _ in 0..10 {
        controller.on_fast_retransmit(Time::ZERO);
    }
    assert_eq!(controller.window(), 4 * PMDCS);
}

#[test]
fn section_7_2_3_a_time_out_leaves_one_packet() {
    let mut controller = avoiding(100_000);
    controller.on_ack(&full(5_000));
    controller.on_timeout(Time::ZERO);
    assert_eq!((controller.window(), controller.slow_start_threshold()), (PMDCS, 50_000));
    assert_eq!(controller.partial_bytes_acked, 0);
    controller.on_timeout(Time::ZERO);
    assert_eq!((controller.window(), controller.slow_start_threshold()), (PMDCS, 4 * PMDCS));
}

#[test]
fn section_7_2_1_idle_time_halves_down_to_four_packets() {
    let mut controller = Rfc9260::new(PMDCS, false);
    controller.on_idle(5);
    assert_eq!(controller.slow_start_threshold(), u32::MAX, "not above 4 packets: nothing to do");
    controller.cwnd = 100_000;
    controller.on_idle(0);
    assert_eq!(controller.window(), 100_000);
    controller.on_idle(1);
    assert_eq!((controller.window(), controller.slow_start_threshold()), (50_000, 100_000));
    controller.on_idle(u32::MAX);
    assert_eq!(controller.window(), 4 * PMDCS);
    controller.on_timeout(Time::ZERO);
    controller.on_idle(3);
    assert_eq!(controller.window(), PMDCS, "idle time does not lift what a time-out left");
}

#[test]
fn a_larger_mtu_lifts_the_smallest_window() {
    let mut controller = Rfc9260::new(1000, false);
    controller.on_timeout(Time::ZERO);
    controller.on_mtu(1468);
    assert_eq!(controller.window(), 1468);
    controller.on_mtu(1000);
    assert_eq!(controller.window(), 1468);
}

#[test]
fn the_dispatching_enum_is_small() {
    assert!(size_of::<Rfc9260>() <= 32);
    assert!(size_of::<Congestion>() <= 80);
    let congestion = Congestion::new(Algorithm::Rfc9260, 1468, false);
    assert_eq!((congestion.window(), congestion.slow_start_threshold()), (3 * 1468, u32::MAX));
}

#[derive(Debug, Clone)]
enum Op {
    Ack { acked: u32, full: bool, recovery: bool, all: bool },
    FastRetransmit,
    Timeout,
    Idle(u32),
    Mtu(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u32>(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(acked, full, recovery, all)| Op::Ack { acked, full, recovery, all }),
        1 => Just(Op::FastRetransmit),
        1 => Just(Op::Timeout),
        1 => any::<u32>().prop_map(Op::Idle),
        1 => any::<u32>().prop_map(Op::Mtu),
    ]
}

proptest! {
    #[test]
    fn no_input_overflows_or_underflows_a_packet(
        pmdcs: u32,
        ipv6: bool,
        ops in proptest::collection::vec(op(), 0..60),
    ) {
        let mut congestion = Congestion::new(Algorithm::Rfc9260, pmdcs, ipv6);
        let mut pmdcs = pmdcs.max(1);
        for op in ops {
            let before = congestion.window();
            match op {
                Op::Ack { acked, full: window_full, recovery, all } => {
                    let ack = Ack { window_full, in_fast_recovery: recovery, all_acked: all, ..full(acked) };
                    congestion.on_ack(&ack);
                    prop_assert!(congestion.window() >= before);
                    let packets = (acked / pmdcs / 2).clamp(1, L_MAX);
                    prop_assert!(congestion.window() - before <= pmdcs.saturating_mul(packets), "more than L packets");
                    prop_assert!(window_full || congestion.window() == before);
                }
                Op::FastRetransmit => {
                    congestion.on_fast_retransmit(Time::ZERO);
                    let expected = (before / 2).max(pmdcs.saturating_mul(4));
                    prop_assert_eq!(congestion.window(), expected);
                    prop_assert_eq!(congestion.slow_start_threshold(), expected);
                }
                Op::Timeout => {
                    congestion.on_timeout(Time::ZERO);
                    prop_assert_eq!(congestion.window(), pmdcs);
                }
                Op::Idle(periods) => {
                    congestion.on_idle(periods);
                    prop_assert!(congestion.window() <= before);
                }
                Op::Mtu(mtu) => {
                    congestion.on_mtu(mtu);
                    pmdcs = mtu.max(1);
                }
            }
            prop_assert!(congestion.window() >= pmdcs);
        }
    }
}

/// The window grows between two losses. Undoing both restores the larger window.
#[test]
fn undo_restores_the_largest_window() {
    let mut controller = Rfc9260 { cwnd: 4_000, ssthresh: 4_000, ..Rfc9260::new(1_000, false) };
    controller.on_fast_retransmit(Time::ZERO);
    assert_eq!(controller.window(), 4_000, "the floor");
    controller.cwnd = 4_020;
    controller.on_fast_retransmit(Time::ZERO);
    assert_eq!(controller.window(), 4_000);
    controller.on_undo();
    assert_eq!(controller.window(), 4_020);
}

/// Of two losses the first is certain. Undoing the second restores the window between them.
#[test]
fn certain_loss_is_not_undone() {
    let mut controller = Rfc9260 { cwnd: 100_000, ..Rfc9260::new(1_000, false) };
    controller.on_fast_retransmit(Time::ZERO);
    let between = (controller.window(), controller.slow_start_threshold());
    controller.on_certain();
    controller.on_fast_retransmit(Time::ZERO);
    assert_eq!((between.0, controller.window()), (50_000, 25_000));
    controller.on_undo();
    assert_eq!((controller.window(), controller.slow_start_threshold()), between);
}
