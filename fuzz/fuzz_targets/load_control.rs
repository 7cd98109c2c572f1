//! Any bytes as what the processes of a load are told and tell.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_load::fuzzing::load_control(bytes));
