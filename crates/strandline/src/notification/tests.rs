use super::*;

#[test]
fn a_full_queue_counts_what_it_loses() {
    let mut queue = NotificationQueue::new(2);
    for number in 0..5 {
        queue.push(number);
    }
    assert_eq!(queue.pop(), Some(Ok(0)));
    assert_eq!(queue.pop(), Some(Ok(1)));
    assert_eq!(queue.pop(), Some(Err(3)));
    assert_eq!(queue.pop(), None);
    queue.push(9);
    assert_eq!(queue.pop(), Some(Ok(9)));
}
