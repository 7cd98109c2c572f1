use super::*;

/// The use of a window before a loss says nothing about the window after it.
#[test]
fn window_after_a_loss_starts_unknown() {
    let (rtt, at) = (Duration::from_millis(60), |ms| Time::ZERO + Duration::from_millis(ms));
    let mut arrivals = Arrivals::default();
    arrivals.on_sack(at(1000), 2, true);
    arrivals.on_sack(at(1010), 2, false);
    assert!(!arrivals.window_full() && arrivals.window_full_within(at(1010), rtt));
    assert!(!arrivals.window_full_within(at(1061), rtt), "more than a round trip ago");
    arrivals.forget_full();
    assert!(!arrivals.window_full_within(at(1010), rtt));
    arrivals.on_sack(at(1020), 2, true);
    assert!(arrivals.window_full_within(at(1070), rtt));
}
