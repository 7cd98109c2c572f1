//! Any bytes as a TOML document of a configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_ops::fuzzing::document(bytes));
