use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn rate(limit: u64) -> PeerRate {
    PeerRate::new(Arc::new(AtomicU64::new(limit)))
}

#[test]
fn bytes_take_turns_at_the_rate() {
    let (rate, now) = (rate(1_000_000), now());
    assert_eq!(rate.count(Direction::Sent, 100_000, now), Duration::ZERO, "a tenth of a second ahead");
    assert_eq!(rate.count(Direction::Sent, 50_000, now), 50 * MILLISECOND);
    assert_eq!(rate.count(Direction::Sent, 50_000, now), 100 * MILLISECOND, "behind the other connection");
    assert_eq!(
        rate.count(Direction::Received, 50_000, now),
        Duration::ZERO,
        "directions have limits of their own"
    );
    let later = now + Duration::from_secs(60);
    assert_eq!(rate.count(Direction::Sent, 100_000, later), Duration::ZERO);
    assert_eq!(rate.count(Direction::Sent, 1_000, later), MILLISECOND, "silence saves nothing up");
}

#[test]
fn datagrams_beyond_the_rate_are_dropped() {
    let (rate, now) = (rate(1_000_000), now());
    let admitted = (0..1_000).filter(|_| rate.admits(Direction::Received, 1_000, now)).count();
    assert_eq!(admitted, 101);
    let later = now + 50 * MILLISECOND;
    assert_eq!((0..1_000).filter(|_| rate.admits(Direction::Received, 1_000, later)).count(), 50);
}

#[test]
fn limit_changes_at_run_time() {
    let (limit, now) = (RateLimit::default(), now());
    let rate = PeerRate::new(Arc::clone(&limit));
    assert_eq!(rate.count(Direction::Sent, usize::MAX, now), Duration::ZERO);
    assert!(rate.admits(Direction::Sent, usize::MAX, now));
    limit.store(1_000, Ordering::Relaxed);
    assert_eq!(rate.count(Direction::Sent, 1_100, now), Duration::from_secs(1));
    assert!(!rate.admits(Direction::Sent, 1, now));
    limit.store(0, Ordering::Relaxed);
    assert!(rate.admits(Direction::Sent, 1, now));
}
