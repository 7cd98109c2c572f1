use super::{Watched, unshared};

#[test]
fn shared_memory_counts_and_files_do_not() {
    let rollup = "55d0-7ffe ---p 00000000 00:00 0    [rollup]\nRss:   9000 kB\nPss:   8000 kB\n\
                  Pss_Anon:            4000 kB\nPss_File:            1000 kB\nPss_Shmem:           3000 kB\n";
    assert_eq!(unshared(rollup), 7000 * 1024);
    assert_eq!(unshared("nothing of the kind"), 0);
}

#[test]
fn this_process_takes_something() {
    let taken = Watched::new(std::process::id()).look().unwrap();
    assert!(taken.memory > 0);
}

#[test]
fn one_that_is_not_there_is_an_error() {
    let error = Watched::new(u32::MAX).look().unwrap_err();
    assert!(error.to_string().contains("watching process"), "{error}");
}
