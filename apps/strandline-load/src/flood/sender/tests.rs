use super::*;

#[test]
fn rate_is_kept_without_catching_up() {
    let mut pace = Pace { rate: Some(1000.0), begin: now(), given: 0.0 };
    assert_eq!(pace.due(32), 0, "nothing is due at the beginning");
    pace.begin -= Duration::from_millis(5);
    assert_eq!(pace.due(32), 5);
    pace.begin -= Duration::from_secs(10);
    let made_up: usize = (0..1000).map(|_| pace.due(32)).sum();
    assert!((32..=60).contains(&made_up), "{made_up}");
    assert_eq!(Pace { rate: None, begin: now(), given: 0.0 }.due(32), 32);
}
