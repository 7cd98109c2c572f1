use super::*;

fn totals(number: u64) -> Totals {
    Totals { registered: number, calls: 2 * number, requests: 3 * number, refused: 0 }
}

#[test]
fn each_second_tells_rates_and_percentiles() {
    let mut watch = Watch::new();
    (1..=100).for_each(|millis| watch.on_handled(Duration::from_millis(millis)));
    watch.on_handed_over(Duration::from_millis(900));
    watch.on_settled(Duration::from_millis(905), 1);
    watch.look(Duration::from_secs(1), totals(50));
    watch.look(Duration::from_secs(3), totals(60));
    let [first, second] = watch.seconds.make_contiguous() else { panic!("two seconds") };
    assert_eq!((first.registered, first.calls, first.requests, first.refused), (50.0, 100.0, 150.0, 0.0));
    let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.02;
    assert!(
        near(first.p50_ms, 50.0) && near(first.p99_ms, 99.0) && near(first.commit_p99_ms, 5.0),
        "{first:?}"
    );
    // An interval of two seconds without timed requests.
    assert_eq!((second.registered, second.calls), (5.0, 10.0));
    assert_eq!((second.p50_ms, second.p99_ms, second.commit_p99_ms), (None, None, None));
}

#[test]
fn two_minutes_are_kept() {
    let mut watch = Watch::new();
    (1..=300).for_each(|second| watch.look(Duration::from_secs(second), totals(second * second)));
    assert_eq!(watch.seconds.len(), SHOWN);
    assert_eq!(watch.seconds.back().unwrap().registered, 599.0);
    // Settled batches must have been submitted.
    watch.on_settled(Duration::from_secs(301), 5);
    assert!(watch.commits.quantile_ms(0.5).is_none());
}

#[test]
fn counters_survive_a_workers_death() {
    let mut ended = Ended::default();
    ended.note(0, totals(5));
    ended.note(1, totals(7));
    ended.note(0, totals(6));
    assert_eq!(ended.totals, Totals::default());
    ended.died(0);
    assert_eq!(ended.totals, totals(6));
    // The replacement dies too.
    ended.note(0, totals(1));
    ended.died(0);
    assert_eq!(ended.totals, totals(7));
    ended.died(0);
    assert_eq!(ended.totals, totals(7));
}
