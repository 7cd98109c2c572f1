use super::*;

#[test]
fn work_takes_time() {
    let before = CpuTime::now().unwrap();
    let mut sum = 0_u64;
    let used = || CpuTime::now().unwrap().since(before);
    while (used().user + used().system).as_millis() < 10 {
        sum = std::hint::black_box(sum + 1);
    }
    assert!(sum > 0);
}

#[test]
fn system_time_is_read_behind_any_name() {
    let stat = "17 (a) b) (c) S 1 17 17 0 -1 4194304 100 0 0 0 333 44 5 6 20 0 1 0 99 1000 200";
    assert_eq!(system_ticks(stat), Some(44));
    assert_eq!(system_ticks("17 (a"), None);
    assert_eq!(system_ticks("17 (a) S 1 2 3"), None);
}
