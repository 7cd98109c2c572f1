//! Any bytes as the gateway's configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_gateway::fuzzing::gateway_config(bytes));
