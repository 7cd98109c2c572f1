use super::{cpu_ticks, resident_kib, taken};

#[test]
fn times_are_found_whatever_the_name_is() {
    let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 9 9 20 0 1 0 100 1000 10";
    assert_eq!(cpu_ticks(stat), Some(300));
    assert_eq!(cpu_ticks("7 (a) S 1"), None);
    assert_eq!(resident_kib("Name:\ta\nVmRSS:\t    1234 kB\n"), Some(1234));
    assert_eq!(resident_kib("Name:\ta\n"), None);
}

#[test]
fn this_process_takes_some() {
    let taken = taken().unwrap();
    assert!(
        taken.resident_bytes > 100_000 && taken.cpu_secs >= 0.0 && taken.files_max > Some(2),
        "{taken:?}"
    );
}
