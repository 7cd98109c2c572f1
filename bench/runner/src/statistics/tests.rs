use super::*;

#[test]
fn medians() {
    assert_eq!(Summary::of(vec![]), None);
    assert_eq!(Summary::of(vec![3.0, 1.0, 9.0]), Some(Summary { median: 3.0, least: 1.0, most: 9.0 }));
    assert_eq!(Summary::of(vec![4.0, 2.0]), Some(Summary { median: 3.0, least: 2.0, most: 4.0 }));
}
