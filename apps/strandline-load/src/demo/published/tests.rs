use super::*;

#[test]
fn the_numbers_are_all_there() {
    let published = load().unwrap();
    assert_eq!(published.table4.tcp.associations, 419_019);
    assert_eq!(published.table5.one_to_one.setup_ms, Some(0.34));
    assert_eq!(published.table5.one_to_many.setup_ms, None);
    assert_eq!(published.table6.tcp.len(), 5);
    assert_eq!(published.figure8.setup_ms, 0.34);
}
