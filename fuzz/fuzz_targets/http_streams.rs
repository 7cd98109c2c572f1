//! Any bytes as messages and commands for the HTTP connections of an association.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_http::fuzzing::http_streams(bytes));
