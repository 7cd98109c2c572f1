//! Any bytes as the path and the headers of requests for files, and as the headers of parts of files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_http::fuzzing::http_files(bytes));
