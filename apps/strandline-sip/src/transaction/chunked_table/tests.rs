use super::*;

#[test]
fn values_stay_where_they_are() {
    let mut grown = ChunkedTable::default();
    assert_eq!((grown.len(), grown.get(0)), (0, None));
    grown.push(0);
    let first = std::ptr::from_ref(grown.get(0).expect("it was put there"));
    for number in 1..10 * PIECE + 1 {
        assert_eq!(grown.len(), number);
        grown.push(number);
    }
    assert!((0..grown.len()).all(|index| grown.get(index) == Some(&index)));
    assert!(grown.iter().copied().eq(0..grown.len()));
    assert_eq!((grown.get(grown.len()), grown.get(usize::MAX)), (None, None));
    assert!(core::ptr::eq(first, grown.get(0).expect("it is there")));
    *grown.get_mut(PIECE).expect("it is there") = 7;
    assert_eq!(grown.get(PIECE), Some(&7));
}
