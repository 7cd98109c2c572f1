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
