//! Any bytes as a sealed token, and flows that are sealed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_sip::fuzzing::tokens(bytes));
