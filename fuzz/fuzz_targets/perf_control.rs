//! Any bytes as a control message of `strandline perf`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_load::fuzzing::perf_control(bytes));
