//! Any bytes as a plan of the laboratory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_lab::fuzzing::plan(bytes));
