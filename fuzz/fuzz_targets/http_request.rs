//! Any bytes as what a client sends on a stream to the HTTP parser behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_http::fuzzing::http_request(bytes));
