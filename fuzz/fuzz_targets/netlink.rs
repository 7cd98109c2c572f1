//! Any bytes as an answer of the kernel's about routes and neighbours.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| strandline_io::fuzzing::netlink(bytes));
