//! Any text as a list of known hosts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_dtls::fuzzing::known_hosts(bytes));
