//! Data beyond a truncated SACK, which may have arrived long before it was reported.

use super::*;

/// Acknowledges a packet that was sent `ago` before `now`.
fn acknowledge(path: &mut Path, now: Time, ago: Duration, late: bool) {
    let sent_at = Time::from_nanos(now.as_nanos() - ago.as_nanos() as u64);
    send(path, sent_at, 1);
    let sack = PathSack { rtt_sent_at: Some(sent_at), rtt_late: late, ..sack(1460) };
    path.on_sack(now, &sack, &config());
}

/// A late sample increases neither the smoothed round-trip time nor the RTO. The first sample and a shorter one
/// count.
#[test]
fn it_makes_the_rto_no_longer() {
    let mut path = active();
    acknowledge(&mut path, at(1000), ms(100), true);
    let (srtt, rto) = (path.rto.srtt(), path.rto.rto());
    assert_eq!(srtt, Some(ms(100)), "there is no other");
    acknowledge(&mut path, at(3000), ms(900), true);
    assert_eq!((path.rto.srtt(), path.rto.rto()), (srtt, rto));
    acknowledge(&mut path, at(4000), ms(20), true);
    assert_eq!(path.rto.srtt(), Some(ms(90)));
    acknowledge(&mut path, at(5000), ms(900), false);
    assert!(path.rto.srtt() > srtt && path.rto.rto() > rto, "known in time it would");
}
