//! Any text as a page or a style sheet that is searched for what it loads.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_http::fuzzing::http_page(bytes));
