use super::*;

#[test]
fn window_grows_by_a_packet_per_window() {
    let mut additive = Additive::default();
    assert_eq!(additive.grown(10_000, 9_999, 1_000), 10_000);
    assert_eq!(additive.grown(10_000, 1, 1_000), 11_000);
    // Bytes acknowledged beyond a window count towards the next one.
    assert_eq!(additive.grown(11_000, 16_000, 1_000), 12_000);
    assert_eq!(additive.grown(12_000, 7_000, 1_000), 13_000);
    assert_eq!(additive.grown(u32::MAX, u32::MAX, 1_000), u32::MAX);
}
