//! How much goes at once on a path that is paced.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::destination::PathSack;
use super::*;

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

fn config() -> AssociationConfig {
    AssociationConfig { path_mtu_initial: 1500, congestion: Algorithm::Bbr, ..AssociationConfig::default() }
}

/// Sends packets for as long as the path lets it. How many.
fn send_all(path: &mut Path, now: Time) -> u32 {
    path.allow_burst(now, &config());
    let mut sent = 0;
    while path.may_send() {
        path.on_data_sent(now, path.payload_max(), path.data_chunk_len_max(), true);
        sent += 1;
    }
    sent
}

/// A path with BBR, whose rate is known after some round trips of 20 ms.
fn paced() -> (Path, Time) {
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, &config(), 8, Time::ZERO);
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
            path.on_sack(now, &sack, &config());
        }
    }
    assert!(path.pacing_rate().unwrap() > 100_000, "{path:?}");
    (path, now)
}

/// The timer comes late for a batch that waited: that is made good. It comes as late when all has been sent meanwhile: nothing was
/// held back by it, and no more goes at once than what can be saved up in any case.
#[test]
fn a_late_timer_is_made_good_only_if_something_waited_for_it() {
    let after = |waits: bool| {
        let (mut path, now) = paced();
        path.congestion.on_ack(&crate::congestion::Ack::of(now, 60_000, path.flight));
        send_all(&mut path, now);
        path.end_burst();
        path.wait_for_pace();
        let due = path.next_deadline();
        assert!(due < now + Duration::from_millis(10), "{path:?}");
        if !waits {
            path.forget_pace();
        }
        let late = due + Duration::from_millis(7);
        path.on_pace_timer(late);
        path.allow_burst(late + Duration::from_millis(20), &config());
        (path.burst_allowance, path.pacing_rate().unwrap())
    };
    let (allowance, rate) = after(true);
    assert!(u64::from(allowance) > rate * 10 / 1000, "{allowance} at {rate} a second");
    let (allowance, rate) = after(false);
    assert!(u64::from(allowance) <= (rate * 4 / 1000).max(14_600) + 1, "{allowance} at {rate} a second");
}
