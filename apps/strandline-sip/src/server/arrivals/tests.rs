use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// As many retransmissions as first transmissions.
fn counts(first: u64) -> Counts {
    Counts { first, all: 2 * first, ..Counts::default() }
}

/// Calls `look` every ten milliseconds until a measurement is made. Returns its time and rates.
fn next(arrivals: &mut Arrivals, from: u64, come: impl Fn(u64) -> u64) -> (u64, f64, f64) {
    (from..from + 3000)
        .step_by(10)
        .find_map(|ms| {
            let came = arrivals.look(at(ms), counts(come(ms)))?;
            Some((ms, came.first.round(), came.all.round()))
        })
        .unwrap()
}

#[test]
fn it_is_looked_ten_times_a_second() {
    let mut arrivals = Arrivals::default();
    assert_eq!(next(&mut arrivals, 10, |ms| ms), (100, 1000.0, 2000.0));
    assert_eq!(next(&mut arrivals, 110, |ms| 100 + (ms - 100) * 3), (200, 3000.0, 6000.0));
}

#[test]
fn arrivals_during_a_stall_count_over_it() {
    let mut arrivals = Arrivals::default();
    assert_eq!(next(&mut arrivals, 10, |ms| ms), (100, 1000.0, 2000.0));
    // Nothing is received for a second, and then everything within 30 ms.
    let come = |ms: u64| if ms < 1130 { 100 + (ms - 1100) * 30 } else { ms };
    assert_eq!(next(&mut arrivals, 1100, come), (1200, 1000.0, 2000.0));
    // As above, with a measurement that is due during the stall.
    assert_eq!(next(&mut arrivals, 1210, |ms| ms), (1300, 1000.0, 2000.0));
    assert_eq!(arrivals.look(at(1390), counts(1390)).map(|came| came.first), None);
    assert_eq!(next(&mut arrivals, 1400, |ms| ms), (1490, 1000.0, 2000.0));
}

#[test]
fn stalled_server_samples_every_two_seconds() {
    let mut arrivals = Arrivals::default();
    let looks: Vec<u64> =
        (0..6000).step_by(60).filter(|ms| arrivals.look(at(*ms), counts(*ms)).is_some()).collect();
    assert_eq!(looks, [2040, 4080]);
}

#[test]
fn unread_datagrams_lengthen_an_interval() {
    let mut arrivals = Arrivals::default();
    let unread = |first: u64| Counts { unread: true, ..counts(first) };
    // It began with an empty socket.
    let came = (10..=100).step_by(10).find_map(|ms| arrivals.look(at(ms), unread(ms)));
    assert!(came.is_some_and(|came| !came.began_unread));
    // Unread at both ends.
    let looks: Vec<u64> =
        (110..=310).step_by(10).filter(|ms| arrivals.look(at(*ms), unread(*ms)).is_some()).collect();
    assert_eq!(looks, [300]);
    let came = (320..=410).step_by(10).find_map(|ms| arrivals.look(at(ms), counts(ms)));
    assert!(came.is_some_and(|came| came.began_unread && came.elapsed == at(100)));
}
