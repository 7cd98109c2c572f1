//! Any bytes as what a client sends, for the guard against ambiguous requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_http::fuzzing::http_framing(bytes));
