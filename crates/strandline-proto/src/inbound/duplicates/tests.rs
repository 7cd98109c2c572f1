use super::*;

#[test]
fn duplicates_are_listed_per_arrival_and_bounded() {
    let mut list = Duplicates::default();
    list.push(Tsn(19));
    list.push(Tsn(19));
    assert_eq!(list.as_slice(), [Tsn(19), Tsn(19)]);
    list.clear();
    assert!(list.as_slice().is_empty());
    for tsn in 0..1000 {
        list.push(Tsn(tsn));
    }
    assert_eq!(list.as_slice().len(), DUPLICATES_MAX);
}
