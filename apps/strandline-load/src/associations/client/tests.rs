use super::*;
use std::collections::BTreeSet;

#[test]
fn the_stride_visits_each_once() {
    for count in [1_u64, 10, 1000, 65_536, 100_000] {
        let visited: BTreeSet<u64> = (0..count).map(|number| number * STRIDE % count).collect();
        assert_eq!(visited.len() as u64, count);
    }
}
