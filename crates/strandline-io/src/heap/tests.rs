use super::*;

#[test]
fn the_option_is_the_one_that_is_meant() {
    // 10 is the default of this option and of none beside it.
    assert_eq!(purge_delay_ms(), 10);
    give_back_at_once();
    assert_eq!(purge_delay_ms(), 0);
}
