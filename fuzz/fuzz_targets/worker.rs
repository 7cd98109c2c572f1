//! Any bytes as what the processes of a server say to one another.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_sip::fuzzing::worker(bytes));
