//! Any bytes as control messages of a datagram.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_io::fuzzing::control_messages(bytes));
