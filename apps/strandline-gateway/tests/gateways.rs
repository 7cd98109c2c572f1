//! Two gateways as processes, between clients and servers in the tests: all on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first error")]

mod bare_peer;
mod checks;
mod common;
mod datagrams;
mod encryption;
mod ends;
mod failures;
mod fairness;
mod interception;
mod ipv6;
mod kept;
mod leaving;
mod listeners;
mod many;
mod mapping;
mod moves;
mod paths;
mod programs;
mod reasons;
mod refusals;
mod reload;
mod restart;
mod reverses;
mod slow_path;
mod status;
#[cfg(feature = "full-interop")]
mod systemd;
mod unfinished;
