use super::*;

#[test]
fn bars_are_in_proportion() {
    assert_eq!(bar(1.0, 2.0, 10), "█████");
    assert_eq!(bar(0.0, 2.0, 10), "");
    assert_eq!(bar(5.0, 2.0, 3), "███");
    assert_eq!(bar(0.05, 1.0, 10), "▌");
}

#[test]
fn thousands_are_set_apart() {
    assert_eq!(thousands(0), "0");
    assert_eq!(thousands(7), "7");
    assert_eq!(thousands(999), "999");
    assert_eq!(thousands(50_000), "50,000");
    assert_eq!(thousands(1_234_567), "1,234,567");
}
