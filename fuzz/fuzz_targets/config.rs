//! Any bytes as the server's configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_sip::fuzzing::config(bytes));
