//! Rate-based overload control as a client (RFC 7415).

use crate::neighbours::Neighbours;

const IN_DIALOG: &str = "X-Dialog: yes\r\n";

fn rate(per_sec: u32, validity_ms: u32, seq: u32) -> String {
    format!(";oc={per_sec};oc-algo=\"rate\";oc-validity={validity_ms};oc-seq={seq}.0")
}

/// How many requests are sent, if one arrives every `every` milliseconds.
fn sent(all: &mut Neighbours, from: u64, to: u64, every: usize, more: &str) -> usize {
    (from..to)
        .step_by(every)
        .filter(|millis| {
            all.at_millis(*millis);
            all.is_sent(5060, more)
        })
        .count()
}

#[test]
fn rate_and_burst_bound_the_requests_3_5_1() {
    for per_sec in [5, 10, 50] {
        let mut all = Neighbours::new();
        all.told(5060, &rate(per_sec, 60_000, 1));
        // Twenty times the allowed rate, for 20 seconds.
        let every = (1000 / per_sec / 20) as usize;
        let count = sent(&mut all, 1, 20_001, every, "");
        let most = per_sec as usize * 20 + 7;
        assert!((most * 9 / 10..=most).contains(&count), "{per_sec}: {count}");
        // Less than the allowed rate passes unchanged.
        let gentle = (2000 / per_sec) as usize;
        let offered = (22_000..30_000).step_by(gentle).count();
        assert_eq!(sent(&mut all, 22_000, 30_000, gentle, ""), offered, "{per_sec}");
    }
}

#[test]
fn burst_is_within_the_tolerance_3_5_2() {
    let mut all = Neighbours::new();
    all.told(5060, &rate(10, 600_000, 1));
    all.at_millis(60_000);
    // An empty bucket admits TAU1 = 5 T, and one request beyond; urgent requests are admitted up to TAU2 = 10
    // T.
    let burst = (0..100).filter(|_| all.is_sent(5060, "")).count();
    assert!((5..=7).contains(&burst), "{burst}");
    let urgent = (0..100).filter(|_| all.is_sent(5060, IN_DIALOG)).count();
    assert!((4..=6).contains(&urgent), "{urgent}");
    // While urgent requests keep it full, other requests are not admitted.
    let (mut spared, mut within) = (0, 0);
    for millis in (60_001..70_000).step_by(10) {
        all.at_millis(millis);
        within += usize::from(all.is_sent(5060, IN_DIALOG));
        spared += usize::from(all.is_sent(5060, ""));
    }
    assert_eq!(spared, 0);
    assert!((90..=102).contains(&within), "{within}");
}

#[test]
fn zero_rate_stops_and_zero_time_unlimits() {
    let mut all = Neighbours::new();
    all.told(5060, &rate(0, 1000, 1));
    assert!(!all.is_sent(5060, "") && !all.is_sent(5060, IN_DIALOG));
    all.at_millis(1000);
    assert_eq!(all.sent_of_1000(""), 1000);
    all.told(5060, &rate(0, 0, 2));
    assert_eq!(all.sent_of_1000(""), 1000);
}

#[test]
fn new_rate_applies_at_once() {
    let mut all = Neighbours::new();
    all.told(5060, &rate(10, 600_000, 1));
    sent(&mut all, 1, 5000, 5, "");
    all.told(5060, &rate(100, 600_000, 2));
    let count = sent(&mut all, 5001, 15_001, 1, "");
    assert!((950..=1010).contains(&count), "{count}");
    all.told(5060, ";oc=0;oc-algo=\"loss\";oc-validity=60000;oc-seq=3.0");
    assert_eq!(all.sent_of_1000(""), 1000);
    all.told(5060, &rate(1, 600_000, 4));
    assert!(all.sent_of_1000("") < 10);
}

#[test]
fn buckets_started_together_drift_apart_3_5_3() {
    let mut all = Neighbours::new();
    for port in 6000..6040 {
        all.told(port, &rate(1, 600_000, 1));
    }
    // Once the buckets of all neighbours are full, the times of their next requests differ.
    let mut moments = std::collections::BTreeSet::new();
    for port in 6000..6040 {
        while all.is_sent(port, "") {}
    }
    let mut left: Vec<u16> = (6000..6040).collect();
    for millis in (1..3000).step_by(10) {
        all.at_millis(millis);
        left.retain(|port| {
            let passes = all.is_sent(*port, "");
            if passes {
                moments.insert(millis);
            }
            !passes
        });
    }
    assert!(left.is_empty() && moments.len() > 10, "{moments:?}");
}
