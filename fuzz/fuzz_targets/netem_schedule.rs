//! Any bytes as a schedule of an emulated network.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_lab::fuzzing::netem_schedule(bytes));
