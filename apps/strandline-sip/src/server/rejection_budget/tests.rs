use super::*;

const PER_SEC: u32 = 50_000;

fn times(worked_ms: u64, idle_ms: u64) -> Times {
    Times { worked: Duration::from_millis(worked_ms), idle: Duration::from_millis(idle_ms) }
}

/// A budget that a burst has used up at `at`, when the thread had worked for so long.
fn exhausted(at: Duration, worked_ms: u64) -> RejectionBudget {
    let mut budget = RejectionBudget::default();
    assert!(budget.refill(at, times(worked_ms, 0), PER_SEC) > 900, "a start has room for a burst");
    budget.spent(900, Duration::from_millis(4));
    assert_eq!(budget.refill(at, times(worked_ms, 0), PER_SEC), 0);
    budget
}

#[test]
fn an_idle_server_answers_again_after_a_burst() {
    let mut budget = exhausted(Duration::from_secs(1), 1000);
    let later = Duration::from_secs(3);
    assert!(budget.refill(later, times(1001, 1999), PER_SEC) > 100, "two seconds with nothing to do");
}

#[test]
fn time_of_other_processes_allows_no_rejections() {
    let mut budget = exhausted(Duration::from_secs(1), 1000);
    // An hour in which the thread had work and didn't run.
    assert_eq!(budget.refill(Duration::from_secs(3600), times(1001, 0), PER_SEC), 0);
    // Of its own time, a fiftieth.
    assert_eq!(budget.refill(Duration::from_secs(3601), times(1051, 0), PER_SEC), 0);
    assert!(budget.refill(Duration::from_secs(3602), times(3000, 0), PER_SEC) > 100);
}

#[test]
fn the_rate_is_limited() {
    let mut budget = RejectionBudget::default();
    assert_eq!(budget.refill(Duration::from_secs(1), times(1000, 0), 0), 0);
    assert_eq!(budget.refill(Duration::from_secs(2), times(2000, 0), 50), 2, "a burst of 20 ms, and one");
}
