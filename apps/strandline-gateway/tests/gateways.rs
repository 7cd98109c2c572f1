//! Two gateways as processes, between clients and servers in the tests: all on loopback.

mod common;
mod ends;
mod failures;
mod kept;
mod many;
mod ways;
