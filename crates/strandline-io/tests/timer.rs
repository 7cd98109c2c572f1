//! Timers that are file descriptors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "a timer of the kernel's goes by its clock")]

use std::time::{Duration, Instant};

use crate::common::{TIMEOUT_MS, wait_readable};
use strandline_io::Timer;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn timer_is_readable_from_expiry_until_reset() {
    let timer = Timer::new().unwrap();
    assert!(!wait_readable(&timer, 0), "not set");
    for after in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(3)] {
        let began = Instant::now();
        timer.set(after).unwrap();
        assert!(wait_readable(&timer, TIMEOUT_MS), "{after:?}");
        assert!(began.elapsed() >= after, "{after:?}: early");
        assert!(wait_readable(&timer, 0), "{after:?}: not set again");
    }
    timer.set(HOUR).unwrap();
    assert!(!wait_readable(&timer, 5), "set to later");
}

#[test]
fn the_latest_setting_holds() {
    let timer = Timer::new().unwrap();
    timer.set(HOUR).unwrap();
    timer.set(Duration::from_micros(50)).unwrap();
    assert!(wait_readable(&timer, TIMEOUT_MS));
    // A time too long for the kernel's clock means never.
    timer.set(Duration::MAX).unwrap();
    assert!(!wait_readable(&timer, 5));
}
