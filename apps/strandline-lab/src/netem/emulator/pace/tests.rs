use super::*;

#[test]
fn dense_means_many_packets_in_a_millisecond() {
    let mut pace = Pace::default();
    assert!(!pace.is_dense(500_000, 1000), "not known yet");
    assert!(pace.is_dense(1_000_000, 1000));
    assert!(pace.is_dense(1_900_000, 1000), "until the next window ends");
    assert!(!pace.is_dense(2_000_000, 1010));
    assert!(!pace.is_dense(12_000_000, 1010 + 479));
    assert!(pace.is_dense(13_000_000, 1010 + 479 + 48));
}
