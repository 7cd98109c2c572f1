use super::*;

#[test]
fn serial_comparison_wraps() {
    assert!(Tsn(0xffff_fffe).is_before(Tsn(1)));
    assert!(Tsn(1).is_after(Tsn(0xffff_fffe)));
    assert!(!Tsn(7).is_before(Tsn(7)));
    assert!(Tsn(7).is_at_or_before(Tsn(7)));
    assert!(Ssn(0xffff).is_before(Ssn(0)));
}

#[test]
fn half_the_space_apart_is_unordered() {
    assert!(!Tsn(0).is_before(Tsn(1 << 31)));
    assert!(!Tsn(1 << 31).is_before(Tsn(0)));
    assert!(!Ssn(0).is_before(Ssn(1 << 15)));
}
