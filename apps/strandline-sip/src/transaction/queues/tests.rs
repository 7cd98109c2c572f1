use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn deadlines_of_several_durations_come_in_order() {
    let mut queues = DeadlineQueues::default();
    queues.schedule(at(0), 1, SECOND * 4);
    queues.schedule(at(100), 2, SECOND);
    queues.schedule(at(200), 3, SECOND);
    assert_eq!(queues.next_deadline(), Some(at(1100)));
    assert_eq!(queues.pop_expired(at(1099)), None);
    assert_eq!(queues.pop_expired(at(5000)), Some(2));
    assert_eq!(queues.pop_expired(at(5000)), Some(3));
    assert_eq!(queues.pop_expired(at(5000)), Some(1));
    assert_eq!(queues.pop_expired(at(5000)), None);
    assert!(queues.is_empty());
}

#[test]
fn reset_or_cancelled_deadline_does_not_fire_early() {
    let mut queues = DeadlineQueues::default();
    queues.schedule(at(0), 1, SECOND);
    queues.schedule(at(500), 1, SECOND);
    queues.schedule(at(500), 2, SECOND);
    queues.cancel(2);
    assert_eq!(queues.deadline(1), Some(at(1500)));
    assert_eq!(queues.pop_expired(at(1499)), None);
    assert_eq!(queues.pop_expired(at(1500)), Some(1));
    assert_eq!(queues.pop_expired(at(9000)), None);
}

#[test]
fn deadline_reset_to_its_instant_fires_once() {
    let mut queues = DeadlineQueues::default();
    for _ in 0..3 {
        queues.schedule(at(0), 7, SECOND);
    }
    assert_eq!(queues.len(), 1);
    assert_eq!(queues.pop_expired(at(1000)), Some(7));
    assert_eq!(queues.pop_expired(at(1000)), None);
    assert_eq!(queues.len(), 0);
}

#[test]
fn what_is_cancelled_takes_no_memory_for_long() {
    let mut queues = DeadlineQueues::default();
    for round in 0..100_000 {
        queues.schedule(at(round), (round % 10) as u32, SECOND * 32);
    }
    assert_eq!(queues.len(), 10);
    let entries: usize = queues.queues.iter().map(|queue| queue.entries.len()).sum();
    assert!(entries <= SWEEP_MIN + 1, "{entries} entries for 10 deadlines");
}

#[test]
fn excessive_durations_use_the_longest_queue() {
    let mut queues = DeadlineQueues::default();
    for number in 0..DeadlineQueues::DURATIONS_MAX as u32 {
        queues.schedule(at(0), number, SECOND * (number + 1));
    }
    queues.schedule(at(0), 1000, Duration::from_millis(1500));
    assert_eq!(queues.deadline(1000), Some(at(2000)));
}
