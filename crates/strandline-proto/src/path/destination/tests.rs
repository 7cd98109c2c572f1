#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_order;
mod late;

use super::super::reachability::{HeartbeatAnswer, HeartbeatLoss};
use super::*;

const MIDDLE: u32 = 1 << 31;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Time {
    Time::ZERO + ms(millis)
}

fn config() -> AssociationConfig {
    AssociationConfig {
        rto_min: ms(1),
        path_mtu_initial: 1500,
        congestion: Algorithm::Rfc9260,
        ..AssociationConfig::default()
    }
}

fn unconfirmed() -> Path {
    Path::new("192.0.2.1:9899".parse().unwrap(), None, &config(), Link::UDP, Time::ZERO)
}

fn active() -> Path {
    let mut path = unconfirmed();
    assert_eq!(path.confirm(), Some(PathChange::Confirmed));
    path
}

/// Sends `packets` full packets.
fn send(path: &mut Path, now: Time, packets: u32) {
    for _ in 0..packets {
        path.on_data_sent(now, path.payload_max(), path.data_chunk_len_max(), true, false);
    }
}

fn sack(bytes: u32) -> PathSack {
    PathSack {
        acked_bytes: bytes,
        answered: true,
        answered_in_time: true,
        flight_drop: bytes,
        cumulative_advanced: true,
        ..PathSack::default()
    }
}

#[test]
fn sizes() {
    let sizes = [
        ("Path", size_of::<Path>(), 296),
        ("Congestion", size_of::<Congestion>(), 80),
        ("RtoEstimator", size_of::<RtoEstimator>(), 12),
        ("Heartbeat", size_of::<Heartbeat>(), 32),
        ("Pmtu", size_of::<Pmtu>(), 32),
    ];
    for (name, size, limit) in sizes {
        println!("{name}: {size} bytes");
        assert!(size <= limit, "{name}: {size} bytes, more than {limit}");
    }
}

#[test]
fn sizes_follow_mtu_family_and_encapsulation() {
    let path = |remote: &str, overhead| {
        Path::new(remote.parse().unwrap(), None, &config(), Link { overhead, mtu: 1500 }, Time::ZERO)
    };
    let v4 = path("192.0.2.1:0", 0);
    assert_eq!((v4.payload_max(), v4.congestion.window()), (1480, 4404));
    let v6 = path("[2001:db8::1]:0", 0);
    assert_eq!((v6.payload_max(), v6.congestion.window()), (1460, 4344));
    let udp = path("192.0.2.1:9899", 8);
    assert_eq!((udp.payload_max(), udp.data_chunk_len_max()), (1472, 1460));
    let mapped = path("[::ffff:192.0.2.1]:9899", 8);
    assert_eq!(mapped.payload_max(), 1472, "IPv4 on the wire");
}

// --- RFC 5682 --------------------------------------------------------------------------------------------------------

/// F-RTO packets not sent when the SACK arrives do not exceed the window later.
#[test]
fn two_packets_ask_at_once_or_never() {
    let mut path = active();
    path.frto_packets = FrtoPackets::packets(2);
    send(&mut path, at(0), 1);
    assert!(path.frto_packets.is_some());
    send(&mut path, at(0), 1);
    assert!(!path.frto_packets.is_some());
    for end in [Path::end_burst, |path: &mut Path| path.on_probe(at(1))] {
        path.frto_packets = FrtoPackets::packets(2);
        send(&mut path, at(0), 1);
        end(&mut path);
        assert!(!path.frto_packets.is_some());
    }
}

// --- section 6.1 -----------------------------------------------------------------------------------------------------

#[test]
fn rule_b_window_is_exceeded_by_one_packet() {
    let mut path = active();
    path.allow_burst(Time::ZERO, &config());
    let window = path.congestion.window(); // 4404: three packets of 1460 bytes and 24 more.
    send(&mut path, at(0), 3);
    assert!(path.flight < window && path.may_send());
    send(&mut path, at(0), 1);
    assert!(path.flight > window && !path.may_send());
}

#[test]
fn rule_d_a_burst_at_each_opportunity() {
    let mut path = active();
    path.set_recovery(Recovery::Rfc9260);
    path.congestion = large_window();
    path.allow_burst(Time::ZERO, &config());
    let mut sent = 0;
    while path.may_send() {
        send(&mut path, at(0), 1);
        sent += 1;
    }
    assert_eq!(sent, 4);
    assert!(path.may_retransmit(), "the limit is for new data");
    for _ in 0..3 {
        path.allow_burst(Time::ZERO, &config()); // The rest of an opportunity is not saved up.
    }
    while path.may_send() {
        send(&mut path, at(0), 1);
        sent += 1;
    }
    assert_eq!(sent, 8);
    path.end_burst();
    path.allow_burst(Time::ZERO, &AssociationConfig { burst_max: 0, ..config() });
    send(&mut path, at(0), 50);
    assert!(path.may_send(), "0 is no limit");
    path.end_burst();
    assert!(!path.may_send());
}

#[test]
fn rule_d_simultaneous_acknowledgements_may_be_replaced() {
    let mut path = active();
    path.set_recovery(Recovery::Rfc9260);
    path.congestion = large_window();
    let mut burst = |sacks: &[(u64, u32)]| {
        path.flight = 100 * 1460;
        for &(millis, packets) in sacks {
            path.on_sack(at(millis), &sack(packets * 1460), &config());
        }
        path.allow_burst(Time::ZERO, &config());
        (0..)
            .take_while(|_| {
                let may = path.may_send();
                send(&mut path, at(9000), 1);
                may
            })
            .count()
    };
    assert_eq!(burst(&[(10, 10)]), 14);
    assert_eq!(burst(&[(20, 2), (20, 2), (20, 2)]), 10);
    assert_eq!(burst(&[(30, 2), (31, 2)]), 6, "there was an opportunity between them");
    assert_eq!(burst(&[]), 4);
}

#[test]
fn large_window_pieces_go_at_once() {
    for (recovery, half_window, packets) in [
        (Recovery::Rack, 500_000, 45),
        (Recovery::Rack, 8 * 5 * 1460, 10),
        (Recovery::Rack, 8 * 1460, 4),
        (Recovery::Rfc9260, 500_000, 4),
    ] {
        let mut path = active();
        path.set_recovery(recovery);
        path.congestion = Congestion::new(crate::congestion::Algorithm::Rfc9260, half_window, false);
        path.allow_burst(Time::ZERO, &config());
        let mut sent = 0;
        while path.may_send() {
            send(&mut path, at(0), 1);
            sent += 1;
        }
        assert_eq!(sent, packets, "{recovery:?}, a window of {} bytes", 2 * half_window);
    }
}

fn large_window() -> Congestion {
    Congestion::new(crate::congestion::Algorithm::Rfc9260, 500_000, false)
}

// --- section 6.3 -----------------------------------------------------------------------------------------------------

#[test]
fn c4_one_measurement_a_round_trip() {
    let mut path = active();
    assert_eq!(path.on_rtt(at(100), at(0), &config()), Some(ms(100)));
    assert_eq!(path.on_rtt(at(110), at(50), &config()), None, "sent before the latest measurement");
    assert_eq!(path.on_rtt(at(180), at(100), &config()), Some(ms(80)));
    assert_eq!(path.on_rtt(at(200), at(201), &config()), None, "sent in the future");
}

#[test]
fn r1_to_r3_timer_runs_while_data_outstanding() {
    let mut path = active();
    send(&mut path, at(10), 1);
    assert_eq!(path.rtx_deadline, at(1010), "R1");
    send(&mut path, at(20), 2);
    assert_eq!(path.rtx_deadline, at(1010), "R1: it ran already");
    path.on_sack(at(30), &sack(1460), &config());
    assert_eq!(path.rtx_deadline, at(1010), "not the earliest");
    path.on_sack(at(40), &PathSack { lowest_acked: true, ..sack(1460) }, &config());
    assert_eq!(path.rtx_deadline, at(1040), "R3");
    path.on_sack(at(50), &PathSack { lowest_acked: true, ..sack(1460) }, &config());
    assert_eq!((path.flight, path.rtx_deadline), (0, Time::MAX), "R2");
    // Nothing is in flight, but chunks are outstanding outside the flight.
    send(&mut path, at(60), 1);
    let overdue = PathSack { lowest_acked: true, overdue: true, ..sack(1460) };
    path.on_sack(at(70), &overdue, &config());
    path.on_moved_away(true);
    assert_eq!((path.flight, path.rtx_deadline), (0, at(1070)), "R3");
}

#[test]
fn e1_and_e2_time_out_resets_and_doubles() {
    let mut path = active();
    path.allow_burst(Time::ZERO, &config());
    send(&mut path, at(0), 3);
    assert!(!path.rtx_expired(at(999)) && path.rtx_expired(at(1000)));
    let outcome = path.on_rtx_timeout(at(1000), 0, &config());
    assert_eq!(outcome, TimeoutOutcome::default());
    assert_eq!((path.congestion.window(), path.rto.rto(), path.error_count), (1460, ms(2000), 1));
    assert!(!path.rtx_expired(at(1_000_000)), "stopped");
    path.on_lost(3 * 1460);
    path.on_data_sent(at(1000), 500, 400, false, false);
    assert!(path.flight < path.congestion.window() && !path.may_send(), "one packet, however short (7.2.3)");
    path.on_sack(at(1100), &sack(400), &config());
    assert!(path.may_retransmit());
}

#[test]
fn window_probe_time_out_is_no_error() {
    let mut path = active();
    let window = path.congestion.window();
    send(&mut path, at(0), 2);
    path.on_lost(1460);
    path.on_window_probe_timeout(at(0), &config());
    assert_eq!((path.congestion.window(), path.error_count, path.rto.rto()), (window, 0, ms(2000)));
    assert_eq!(
        (path.rtx_deadline, path.is_exempt()),
        (at(2000), true),
        "the other one keeps it from nothing"
    );
}

// --- section 7.2 -----------------------------------------------------------------------------------------------------

#[test]
fn batched_sacks_grow_as_single_ones() {
    let mut path = active();
    let window = path.congestion.window();
    send(&mut path, at(0), 4);
    path.on_sack(at(100), &sack(1460), &config());
    path.on_sack(at(100), &sack(1460), &config());
    assert_eq!(path.congestion.window(), window + 2 * 1460);
    path.on_sack(at(101), &sack(1460), &config());
    assert_eq!(path.congestion.window(), window + 2 * 1460, "there was nothing to fill the window with");
}

#[test]
fn the_window_decays_when_a_pause_ends() {
    let mut path = active();
    path.congestion = large_window();
    path.congestion.on_mtu(1460);
    let window = path.congestion.window();
    send(&mut path, at(3000), 1);
    assert_eq!(path.congestion.window(), window / 8, "three RTOs");
    assert_eq!(path.congestion.slow_start_threshold(), window);
    send(&mut path, at(9000), 1);
    assert_eq!(path.congestion.window(), window / 8, "data was in flight");
}

#[test]
fn loss_halves_after_counting_the_acknowledgement() {
    let mut path = active();
    path.congestion = large_window();
    path.congestion.on_mtu(1460);
    let window = path.congestion.window();
    path.on_sack(at(0), &PathSack { in_fast_recovery: true, ..sack(0) }, &config());
    path.on_fast_retransmit(at(0));
    assert_eq!(path.congestion.window(), window / 2);
}

/// Silence is measured from the start of T3-rtx, whatever the RTO has become since.
#[test]
fn a_lost_heartbeat_makes_silence_begin_no_sooner() {
    let mut path = active();
    path.on_rtt(at(100), at(0), &config());
    send(&mut path, at(1000), 3);
    path.on_probe(at(1210));
    assert_eq!(path.silence_deadline(ms(600)), at(1600));
    path.rto.back_off(&config());
    assert_eq!(path.silence_deadline(ms(600)), at(1600));
}

// --- section 8.2 -----------------------------------------------------------------------------------------------------

#[test]
fn path_max_retrans_errors_make_it_inactive() {
    let mut path = active();
    let changes: Vec<_> = (0..10).map(|_| path.on_error(&config())).collect();
    let inactive = Some(PathChange::Inactive);
    assert_eq!(changes, [None, None, None, None, None, inactive, None, None, None, None]);
    assert_eq!((path.state, path.error_count), (PathState::Inactive, 6), "the count stops (8.3)");
    assert_eq!(path.on_answer(), Some(PathChange::Active));
    assert_eq!((path.state, path.error_count, path.on_answer()), (PathState::Active, 0, None));
}

#[test]
fn an_acknowledgement_clears_the_errors() {
    let mut path = active();
    for _ in 0..5 {
        path.on_error(&config());
    }
    path.on_sack(at(0), &sack(100), &config());
    assert_eq!(path.error_count, 0);
}

#[test]
fn the_largest_retransmission_limit_does_not_overflow() {
    let config = AssociationConfig { path_retrans_max: u16::MAX, ..config() };
    let mut path = active();
    for _ in 0..70_000 {
        assert_eq!(path.on_error(&config), None);
    }
    assert_eq!(path.state, PathState::Active);
}

// --- sections 5.4 and 8.3 --------------------------------------------------------------------------------------------

#[test]
fn an_unconfirmed_path_is_probed_until_it_fails() {
    let mut path = unconfirmed();
    path.start_heartbeats(at(0), MIDDLE, &config());
    let mut sent = Vec::new();
    let mut failed = Vec::new();
    for nonce in 1..=6 {
        let now = path.next_deadline();
        assert!(path.heartbeat_due(now, MIDDLE, &config()));
        path.on_heartbeat_sent(now, nonce, MIDDLE, &config());
        sent.push(now.as_nanos() / 1_000_000_000);
        let loss = path.on_probe_timers(path.next_deadline(), MIDDLE, &config()).unwrap();
        assert!(!loss.confirmed, "never an error of the association");
        failed.extend(loss.change);
    }
    // The RTO doubles; after the sixth HEARTBEAT there are no more.
    assert_eq!(sent, [0, 1, 3, 7, 15, 31]);
    assert_eq!(path.next_deadline(), Time::MAX);
    assert_eq!(failed, [PathChange::Inactive]);
    assert_eq!(path.state, PathState::Unconfirmed, "still nothing but HEARTBEATs may go there");
    let now = path.heartbeat.sent_at() + ms(100);
    let answer = path.on_heartbeat_ack(now, 6, MIDDLE, &config()).unwrap();
    assert_eq!((answer.change, path.state), (Some(PathChange::Confirmed), PathState::Active));
    assert_eq!(path.next_deadline(), path.heartbeat.sent_at() + ms(30_300), "by the RTO measured now");
}

#[test]
fn only_the_nonce_confirms() {
    let mut path = unconfirmed();
    path.on_heartbeat_sent(at(0), 77, MIDDLE, &config());
    assert_eq!(path.on_heartbeat_ack(at(10), 78, MIDDLE, &config()), None);
    assert_eq!(path.on_answer(), None);
    assert_eq!(path.state, PathState::Unconfirmed);
}

#[test]
fn unanswered_heartbeat_counts_and_answered_measures() {
    let mut path = active();
    path.on_heartbeat_sent(at(0), 1, MIDDLE, &config());
    assert_eq!(path.on_probe_timers(at(999), MIDDLE, &config()), None);
    let loss = path.on_probe_timers(at(1000), MIDDLE, &config());
    assert_eq!(loss, Some(HeartbeatLoss { change: None, confirmed: true }));
    assert_eq!((path.error_count, path.rto.rto()), (1, ms(2000)));
    path.on_heartbeat_sent(at(5000), 2, MIDDLE, &config());
    assert!(path.on_heartbeat_ack(at(5100), 2, MIDDLE, &config()).is_some());
    assert_eq!((path.error_count, path.rto.srtt(), path.rto.rto()), (0, Some(ms(100)), ms(300)));
}

#[test]
fn an_inactive_path_returns_by_heartbeat() {
    let mut path = active();
    for _ in 0..6 {
        path.on_error(&config());
    }
    path.on_heartbeat_sent(at(0), 1, MIDDLE, &config());
    let answer = path.on_heartbeat_ack(at(50), 1, MIDDLE, &config()).unwrap();
    assert_eq!((answer.change, path.state), (Some(PathChange::Active), PathState::Active));
}

#[test]
fn disabled_heartbeats_still_confirm_addresses() {
    let config = AssociationConfig { heartbeat_interval: None, ..config() };
    let mut path = unconfirmed();
    path.start_heartbeats(at(0), MIDDLE, &config);
    assert!(path.heartbeat_due(at(0), MIDDLE, &config));
    path.on_heartbeat_sent(at(0), 1, MIDDLE, &config);
    assert!(path.on_heartbeat_ack(at(10), 1, MIDDLE, &config).is_some());
    assert_eq!((path.state, path.next_deadline()), (PathState::Active, Time::MAX));
}

// --- section 7.3 -----------------------------------------------------------------------------------------------------

#[test]
fn arrived_probe_raises_mtu_and_measures() {
    let config = AssociationConfig { path_mtu_max: 9000, ..config() };
    let mut path = Path::new(
        "192.0.2.1:9899".parse().unwrap(),
        None,
        &config,
        Link { mtu: 9000, ..Link::UDP },
        Time::ZERO,
    );
    let _ = path.confirm();
    path.congestion.on_timeout(at(0));
    send(&mut path, at(0), 4);
    assert_eq!(path.mtu_probe_due(at(0)), Some(8972));
    path.pmtu.on_probe_sent(at(0), 42);
    let answer = path.on_heartbeat_ack(at(70), 42, MIDDLE, &config).unwrap();
    assert_eq!(answer, HeartbeatAnswer { change: None, mtu_rose: true });
    assert_eq!((path.payload_max(), path.congestion.window(), path.rto.srtt()), (8972, 8960, Some(ms(70))));
}

#[test]
fn a_lost_probe_is_no_error() {
    let config = AssociationConfig { path_mtu_initial: 1280, ..config() };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    let _ = path.confirm();
    send(&mut path, at(0), 4);
    path.stop_rtx();
    assert!(path.mtu_probe_due(at(0)).is_some());
    path.pmtu.on_probe_sent(at(0), 42);
    let deadline = path.next_deadline();
    assert_eq!(deadline, at(1000));
    assert_eq!(path.on_probe_timers(deadline, MIDDLE, &config), None);
    assert_eq!((path.error_count, path.rto.rto(), path.next_deadline()), (0, ms(1000), Time::MAX));
}

#[test]
fn a_black_hole_shrinks_the_packets() {
    let mut path = active();
    assert!(!path.on_rtx_timeout(at(0), 9000, &config()).mtu_fell);
    assert!(path.on_rtx_timeout(at(1), 9000, &config()).mtu_fell);
    assert_eq!((path.pmtu.mtu(), path.payload_max()), (1200, 1172));
    assert!(path.on_packet_too_big(at(2), 600));
    assert_eq!(path.pmtu.mtu(), 576);
}

#[test]
fn troubled_path_is_not_probed_for_mtu() {
    let config = AssociationConfig { path_mtu_initial: 1280, ..config() };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    send(&mut path, at(0), 10);
    assert_eq!(path.mtu_probe_due(at(0)), None, "not confirmed");
    let _ = path.confirm();
    path.on_error(&config);
    assert_eq!(path.mtu_probe_due(at(0)), None);
    path.on_answer();
    assert!(path.mtu_probe_due(at(0)).is_some());
}

#[test]
fn a_new_configuration_holds_at_once() {
    let mut path = active();
    let config = AssociationConfig { rto_min: ms(5000), rto_max: ms(6000), path_mtu_max: 1400, ..config() };
    path.on_configure(&config, Link::UDP);
    assert_eq!((path.rto.rto(), path.pmtu.mtu()), (ms(5000), 1400));
}

// --- the other controllers -------------------------------------------------------------------------------------------

fn with_cubic() -> Path {
    let config = AssociationConfig { congestion: Algorithm::Cubic, ..config() };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    path.confirm();
    path
}

/// RFC 6928: ten packets, sent at once though nothing is known about the path.
#[test]
fn first_ten_packets_go_at_once() {
    let mut path = with_cubic();
    path.allow_burst(Time::ZERO, &config());
    assert_eq!(path.congestion.window(), 14_600);
    let mut sent = 0;
    while path.may_send() {
        send(&mut path, at(0), 1);
        sent += 1;
    }
    assert_eq!(sent, 10);
}

/// A window that was full within the last round trip grows, and so does one of which half was in flight within it;
/// others do not.
#[test]
fn window_grows_for_a_round_after_full() {
    let mut path = with_cubic();
    path.on_rtt(at(1), Time::ZERO + Duration::from_micros(1), &config());
    path.on_rtt(at(50), at(40), &config());
    let rtt = path.rto.srtt().unwrap();
    send(&mut path, at(100), 10);
    let window = path.congestion.window();
    path.on_sack(at(110), &sack(3 * 1460), &config());
    path.on_sack(at(110) + rtt, &sack(3 * 1460), &config());
    assert_eq!(path.congestion.window(), window + 6 * 1460);
    path.on_sack(at(111) + rtt, &sack(1460), &config());
    assert_eq!(path.congestion.window(), window + 7 * 1460, "ten of sixteen packets were in flight");
    path.on_sack(at(112) + rtt, &sack(3 * 1460), &config());
    for round in 2..5 {
        send(&mut path, at(112) + rtt * round, 3);
        path.on_sack(at(112) + rtt * (round + 1), &sack(3 * 1460), &config());
    }
    let kept = path.congestion.window();
    assert!(kept <= window + 10 * 1460, "{kept}: twenty packets are twice what was in flight");
    send(&mut path, at(112) + rtt * 6, 3);
    path.on_sack(at(112) + rtt * 7, &sack(3 * 1460), &config());
    assert_eq!(path.congestion.window(), kept, "three packets don't use half of it");
}

/// RecoverFS is everything that was outstanding (RFC 9937 section 6.1), including what the SACK that revealed the
/// loss removed from the flight as overdue.
#[test]
fn recovery_counts_what_the_sack_leaves_late() {
    let mut path = active();
    let packet = path.data_chunk_len_max();
    send(&mut path, at(0), 20);
    // One packet acknowledged, nine overdue, one lost.
    path.flight = 10 * packet;
    let loss = PathLoss { in_recovery: true, delivered: packet, flight_drop: packet, ..PathLoss::default() };
    let begins = PathLoss { shrink: true, lost_bytes: packet, overdue_bytes: 9 * packet, ..loss };
    path.on_loss(at(20), &begins);
    send(&mut path, at(20), 1);
    // Seven more arrive.
    let threshold = path.congestion.window();
    path.on_loss(at(21), &PathLoss { delivered: 7 * packet, flight_drop: 7 * packet, ..loss });
    assert!(path.flight > threshold, "{path:?}");
    let share = 8 * threshold / 20 - packet;
    assert!((share..=share + 1).contains(&(path.window() - path.flight)), "{path:?}");
}

/// A recovery whose flight has ended does not allow more than the window that has decayed in a pause: data
/// may have gone over another path meanwhile.
#[test]
fn pause_ends_the_reduction_of_a_recovery() {
    for (pause, ends) in [(0, false), (50_000, true)] {
        let mut path = with_cubic();
        let delivered = 10 * path.data_chunk_len_max();
        send(&mut path, at(0), 10);
        path.on_sack(at(50), &sack(delivered), &config());
        path.on_loss(at(50), &PathLoss { in_recovery: true, shrink: true, delivered, ..PathLoss::default() });
        assert_eq!((path.flight, path.prr.is_active()), (0, true));
        send(&mut path, at(50 + pause), 1);
        assert_eq!(path.prr.is_active(), !ends);
        assert!(!ends || path.window() == path.congestion.window());
    }
}
