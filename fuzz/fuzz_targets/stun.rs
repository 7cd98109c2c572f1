//! Any bytes as a STUN request.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_sip::fuzzing::stun(bytes));
