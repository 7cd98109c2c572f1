use super::*;
use crate::read_frame;

#[test]
fn frames_arrive_in_order() {
    let (one, mut other) = UnixStream::pair().unwrap();
    let (outlet, writer) = Outlet::new(one);
    for number in 0..3 {
        assert!(outlet.send(&number, &[number; 2]));
    }
    drop(outlet);
    writer.run();
    for number in 0..3 {
        assert_eq!(read_frame::<u8>(&mut other).unwrap(), (number, vec![number; 2]));
    }
}

#[test]
fn process_that_reads_nothing_is_given_up() {
    let (one, mut other) = UnixStream::pair().unwrap();
    let (outlet, _writer) = Outlet::new(one);
    outlet.waiting.store(WAITING_MAX + 1, Ordering::Relaxed);
    assert!(outlet.send_unlimited(&1, b""));
    assert!(!outlet.send(&2, b""));
    assert!(read_frame::<u8>(&mut other).is_err(), "its stream has ended");
}

#[test]
fn sending_fails_without_a_writer() {
    let (one, other) = UnixStream::pair().unwrap();
    let (outlet, writer) = Outlet::new(one);
    drop(other);
    assert!(outlet.send(&1, b"x"));
    // The first write finds out.
    writer.run();
    drop(writer);
    assert!(!outlet.send(&2, b"x"));
}
