//! Helpers shared by the tests that span several crates.
//!
//! - [`driver::Driver`]: an endpoint of the engine on a real socket, driven by the test itself, without a runtime.
//! - [`peer::PeerProcess`]: a program on another SCTP stack, controlled and observed by lines of text.
//! - [`session::Session`]: an association between the two, and the tests common to all stacks.
//! - [`dcsctp::World`]: an endpoint of the engine and a dcsctp socket in one process, in virtual time.
//! - [`traffic`]: messages whose content can be checked, and exchanges of them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests")]
// A failed expectation ends the test with its reason; real sockets need the real clock.
#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

pub mod dcsctp;
pub mod driver;
pub mod peer;
pub mod random;
pub mod session;
pub mod traffic;
