//! Any bytes as a packet that a raw socket of IPv4 receives.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_io::fuzzing::raw_packet(bytes));
