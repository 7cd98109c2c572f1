//! Any bytes as a datagram of an encrypted stack.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_dtls::fuzzing::dtls_datagram(bytes));
