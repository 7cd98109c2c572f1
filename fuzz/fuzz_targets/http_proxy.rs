//! Any bytes as headers that pass a proxy, as Alt-Svc and as targets of CONNECT.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_http::fuzzing::http_proxy(bytes));
