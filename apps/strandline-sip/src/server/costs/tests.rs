use super::*;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

#[test]
fn few_measurements_show_no_cost() {
    let mut costs = Costs::default();
    assert_eq!(costs.receiving_share(), UNKNOWN);
    costs.on_received(15, us(15));
    costs.on_handled(15, us(15));
    assert_eq!(costs.receiving_share(), UNKNOWN);
    costs.on_received(1, us(1));
    assert_eq!(costs.receiving_share(), UNKNOWN);
    costs.on_handled(1, us(1));
    assert_eq!(costs.receiving_share(), 0.5);
}

#[test]
fn share_follows_the_recent_costs() {
    let mut costs = Costs::default();
    for _ in 0..10_000 {
        costs.on_received(10, us(10));
        costs.on_handled(10, us(190));
    }
    assert!((costs.receiving_share() - 0.05).abs() < 0.001);
    // Requests of another kind.
    for _ in 0..50_000 {
        costs.on_received(10, us(10));
        costs.on_handled(10, us(30));
    }
    assert!((costs.receiving_share() - 0.25).abs() < 0.001);
}
