//! Values, and periods that begin.

use super::WindowedMin;

#[test]
fn minimum_holds_for_two_periods() {
    let mut min = WindowedMin::<u32>::default();
    assert_eq!(min.get(), 0, "nothing is known");
    min.record(30);
    min.record(20);
    min.record(40);
    assert_eq!(min.get(), 20);
    min.begin_period();
    assert_eq!(min.get(), 20, "only the previous period has one");
    min.record(50);
    assert_eq!(min.get(), 20);
    min.begin_period();
    assert_eq!(min.get(), 50, "20 is forgotten");
    min.record(10);
    assert_eq!(min.get(), 10);
}
