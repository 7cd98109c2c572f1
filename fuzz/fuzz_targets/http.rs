//! Any bytes as a request to the pages, and as an answer of theirs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_ops::fuzzing::http(bytes));
