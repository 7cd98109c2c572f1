//! Any bytes as the journal of a store, and as a row of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_sip::fuzzing::journal(bytes));
