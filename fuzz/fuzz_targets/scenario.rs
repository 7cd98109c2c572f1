//! Any bytes as a scenario of `strandline load sip`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_load::fuzzing::scenario(bytes));
