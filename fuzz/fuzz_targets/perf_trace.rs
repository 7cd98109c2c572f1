//! Any bytes as a trace of `strandline perf`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_lab::fuzzing::perf_trace(bytes));
