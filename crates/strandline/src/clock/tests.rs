use super::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn follows_paused_time() {
    let clock = Clock::start();
    tokio::time::advance(Duration::from_millis(1500)).await;
    assert_eq!(clock.now(), Time::ZERO + Duration::from_millis(1500));
    assert_eq!(clock.instant(clock.now()), Instant::now());
    assert!(clock.instant(Time::MAX) > Instant::now());
}
