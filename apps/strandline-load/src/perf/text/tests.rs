use super::*;

#[test]
fn numbers_can_be_read() {
    assert_eq!(amount(999.4, "B"), "999 B");
    assert_eq!(amount(999.6, "B"), "1.00 KB");
    assert_eq!(amount(12_345.0, "B"), "12.3 KB");
    assert_eq!(amount(8.96e9, "bit/s"), "8.96 Gbit/s");
    assert_eq!(amount(99.96e9, "bit/s"), "100 Gbit/s");
    assert_eq!([micros(85.4), micros(999.9)], ["85 us", "1.0 ms"]);
}
