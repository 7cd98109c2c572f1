//! Any bytes as what peers and clients of a gateway send first, and as its rules.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_gateway::fuzzing::gateway(bytes));
