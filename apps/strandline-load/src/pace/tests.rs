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
