use super::*;

#[test]
fn processor_time_stands_behind_the_name() {
    let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 31 0 0 20 0 1 0 99 1 2";
    assert_eq!(cpu_in(stat), Some((Duration::from_millis(2500), Duration::from_millis(310))));
    assert_eq!(cpu_in("7 (a) S 1"), None);
}
