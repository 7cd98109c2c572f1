//! Bursts on a paced path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::destination::PathSack;
use super::*;
use crate::path::Link;

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

fn config() -> AssociationConfig {
    AssociationConfig { path_mtu_initial: 1500, ..AssociationConfig::default() }
}

/// Sends packets while the path allows it. Returns their number.
fn send_all(path: &mut Path, now: Time) -> u32 {
    path.allow_burst(now, &config());
    let mut sent = 0;
    while path.may_send() {
        path.on_data_sent(now, path.payload_max(), path.data_chunk_len_max(), true, false);
        sent += 1;
    }
    sent
}

/// Returns a path whose rate is known after some round trips of 20 ms.
fn paced(congestion: Algorithm) -> (Path, Time) {
    let config = AssociationConfig { congestion, ..config() };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    path.confirm();
    let mut now = at(0);
    for _ in 0..6 {
        let (sent_at, packets) = (now, send_all(&mut path, now));
        path.end_burst();
        now += Duration::from_millis(20);
        for packet in 0..packets {
            let bytes = path.data_chunk_len_max();
            let rtt_sent_at = Some(sent_at).filter(|_| packet == 0);
            let sack = PathSack {
                acked_bytes: bytes,
                flight_drop: bytes,
                rtt_sent_at,
                cumulative_advanced: true,
                ..PathSack::default()
            };
            path.on_sack(now, &sack, &config);
        }
    }
    assert!(path.pacing_rate().unwrap() > 100_000, "{path:?}");
    (path, now)
}

/// Returns a path with a round-trip time of 200 us whose window was reduced by a loss, with nothing in flight, and
/// the window.
fn short_after_a_loss(congestion: Algorithm) -> (Path, u32) {
    let config = AssociationConfig { congestion, ..config() };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    path.confirm();
    let bytes = send_all(&mut path, at(0)) * path.data_chunk_len_max();
    path.end_burst();
    path.on_fast_retransmit(at(200));
    let sack = PathSack {
        acked_bytes: bytes,
        flight_drop: bytes,
        rtt_sent_at: Some(at(0)),
        in_fast_recovery: true,
        ..PathSack::default()
    };
    path.on_sack(at(200), &sack, &config);
    path.arrivals.take_packets();
    let window = path.window();
    assert!(path.flight == 0 && window >= path.congestion.slow_start_threshold(), "{path:?}");
    (path, window)
}

/// As much as on a new path (RFC 6928) may be sent, even after a loss reduced the window. An unpaced path would
/// otherwise have to wait for the acknowledgement of four packets.
#[test]
fn after_a_pause_ten_packets_go_together() {
    for congestion in [Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Swift] {
        let (mut path, window) = short_after_a_loss(congestion);
        let packets = window / path.data_chunk_len_max();
        assert!((5..=9).contains(&packets), "{congestion:?}: {window}");
        assert!(send_all(&mut path, at(1_000)) >= packets, "{congestion:?}: {path:?}");
    }
    // RFC 9260 section 6.1 rule D allows four.
    let (mut path, _) = short_after_a_loss(Algorithm::Rfc9260);
    assert_eq!(send_all(&mut path, at(1_000)), 4, "{path:?}");
}

/// The flight is acknowledged and clocks what follows.
#[test]
fn without_a_pause_it_does_not() {
    let (mut path, _) = short_after_a_loss(Algorithm::Cubic);
    path.allow_burst(at(1_000), &config());
    path.on_data_sent(at(1_000), path.payload_max(), path.data_chunk_len_max(), true, false);
    path.end_burst();
    assert_eq!(send_all(&mut path, at(1_000)), 4, "{path:?}");
}

/// Returns what may be sent 20 ms after a timer that was 7 ms late, and the rate. `waits` is true if a batch was held
/// back.
fn after_a_late_timer(congestion: Algorithm, waits: bool) -> (u64, u64) {
    let (mut path, now) = paced(congestion);
    path.congestion.on_ack(&crate::congestion::Ack::of(now, 60_000, path.flight));
    send_all(&mut path, now);
    path.end_burst();
    path.update_pace(true);
    let due = path.next_deadline();
    assert!(due < now + Duration::from_millis(10), "{path:?}");
    path.update_pace(waits);
    let late = due + Duration::from_millis(7);
    path.on_pace_timer(late);
    path.allow_burst(late + Duration::from_millis(20), &config());
    (path.burst_allowance.into(), path.pacing_rate().unwrap())
}

/// Returns the credit that is always saved.
fn saved(rate: u64) -> u64 {
    (rate * 4 / 1000).max(14_600) + 1
}

/// A timer that is late for a waiting batch is compensated. If everything was sent meanwhile, the timer held nothing
/// back, and only the usual credit is available.
#[test]
fn late_timer_is_compensated_only_when_waited_for() {
    let (allowance, rate) = after_a_late_timer(Algorithm::Bbr, true);
    assert!(allowance > rate * 10 / 1000, "{allowance} at {rate} a second");
    let (allowance, rate) = after_a_late_timer(Algorithm::Bbr, false);
    assert!(allowance <= saved(rate), "{allowance} at {rate} a second");
}

/// Without a rate from the controller, a window is paced a fifth faster than once per round trip, which compensates
/// by itself.
#[test]
fn a_window_makes_no_late_timer_good() {
    let (allowance, rate) = after_a_late_timer(Algorithm::Cubic, true);
    assert!(allowance <= saved(rate), "{allowance} at {rate} a second");
}

/// Retransmissions do not wait for an opportunity to send. The time before them is not credited twice.
#[test]
fn retransmissions_use_up_what_was_saved() {
    let (mut path, now) = paced(Algorithm::Bbr);
    path.flight = 0;
    path.allow_burst(now, &config());
    let later = now + Duration::from_millis(50);
    let rate = path.pacing_rate().unwrap();
    let mut sent = 0;
    while path.may_retransmit() {
        path.on_data_sent(later, path.payload_max(), path.data_chunk_len_max(), false, false);
        sent += u64::from(path.data_chunk_len_max());
    }
    path.flight = 0;
    path.allow_burst(later, &config());
    assert!(!path.may_retransmit(), "{path:?}");
    assert!(sent <= saved(rate) + 1460, "{sent} at {rate} a second");
}

/// Section 6.1 rule D: three short packets are acknowledged, and clock no three long ones.
#[test]
fn shorter_packets_clock_no_longer_ones() {
    let config = AssociationConfig {
        path_mtu_initial: 576,
        recovery: Recovery::Rfc9260,
        congestion: Algorithm::Rfc9260,
        ..config()
    };
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config, Link::UDP, Time::ZERO);
    path.confirm();
    path.allow_burst(at(0), &config);
    for _ in 0..3 {
        path.on_data_sent(at(0), path.payload_max(), path.data_chunk_len_max(), true, false);
    }
    let (bytes, shorter) = (3 * path.data_chunk_len_max(), path.data_chunk_len_max());
    path.pmtu.on_probe_sent(at(1), 7);
    let sack = PathSack {
        acked_bytes: bytes,
        flight_drop: bytes,
        rtt_sent_at: Some(at(0)),
        cumulative_advanced: true,
        ..PathSack::default()
    };
    path.on_sack(at(20_000), &sack, &config);
    assert!(path.on_heartbeat_ack(at(20_001), 7, 0, &config).unwrap().mtu_rose, "{path:?}");
    assert!(path.data_chunk_len_max() > shorter);
    path.allow_burst(at(20_001), &config);
    assert_eq!(path.burst_allowance, 4 * path.data_chunk_len_max(), "Max.Burst");
}
