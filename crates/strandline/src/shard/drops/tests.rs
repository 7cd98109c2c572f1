use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

#[test]
fn drops_are_counted_once() {
    let mut drops = Drops::new(Some(u32::MAX - 1));
    assert_eq!(drops.look(at(5), || Some(u32::MAX - 1)), 0);
    assert_eq!(drops.look(at(14), || unreachable!("a moment after the last look")), 0);
    assert_eq!(drops.look(at(15), || Some(2)), 4, "the counter wraps");
    assert_eq!(drops.look(at(25), || Some(2)), 0);
    assert_eq!(drops.look(at(35), || None), 0);
    assert_eq!(Drops::new(None).look(at(5), || unreachable!("the carrier does not count")), 0);
}
