use super::*;

#[test]
fn moments_are_evenly_spaced() {
    let schedule = Schedule { begin: now(), rate: 2500.0 };
    assert_eq!(schedule.moment(5000) - schedule.begin, Duration::from_secs(2));
    assert_eq!(schedule.moment(0), schedule.begin);
}

#[tokio::test]
async fn the_alarm_is_never_early() {
    let mut alarm = Alarm::new().unwrap();
    for micros in [0, 150, 900] {
        let at = now() + Duration::from_micros(micros);
        alarm.wait_until(at).await.unwrap();
        assert!(now() >= at);
    }
}

#[test]
fn arrivals_are_evenly_spaced_or_independent() {
    let begin = now();
    let even: Vec<_> = Arrivals::uniform(begin, 1000.0).take(3).map(|at| at - begin).collect();
    assert_eq!(even, [0, 1, 2].map(Duration::from_millis));

    let times = |seed| -> Vec<f64> {
        Arrivals::poisson(begin, 1000.0, seed).take(20_001).map(|at| (at - begin).as_secs_f64()).collect()
    };
    let first = times(1);
    assert_eq!(first, times(1), "a seed gives one schedule");
    assert_ne!(first, times(2));
    let gaps: Vec<f64> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((0.97e-3..1.03e-3).contains(&mean), "{mean}");
    // Mean and deviation of an exponential distribution are equal.
    assert!((0.95..1.05).contains(&(variance.sqrt() / mean)), "{variance}");
}
