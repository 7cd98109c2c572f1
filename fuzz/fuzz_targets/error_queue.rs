//! Any bytes as entries of a socket's error queue.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_io::fuzzing::error_queue(bytes));
