//! Helpers shared by the tests that span several crates.
//!
//! - [`driver::Driver`]: an endpoint of the engine on a real socket, driven by the test itself, without a runtime.
//! - [`peer::PeerProcess`]: a program on another SCTP stack, controlled and observed by lines of text.
//! - [`session::Session`]: an association between the two, and the tests common to all stacks.
//! - [`dcsctp::World`]: an endpoint of the engine and a dcsctp socket in one process, in virtual time.
//! - [`dynamic::Opened`]: streams that are opened and closed at run time, whatever the other stack is.
//! - [`authentication`], [`reconfiguration`]: the tests of RFC 4895 and RFC 6525 with usrsctp and the kernel.
//! - [`extensions`]: those of other extensions, and the configurations that ask for them.
//! - [`traffic`]: messages whose content can be checked, and exchanges of them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests")]
// A failed expectation ends the test with its reason; real sockets need the real clock.
#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

pub mod authentication;
pub mod dcsctp;
pub mod driver;
pub mod dynamic;
pub mod extensions;
pub mod peer;
pub mod random;
pub mod reconfiguration;
pub mod session;
pub mod traffic;

/// Returns all cases of a test in `make interop`, and only the first two in the quick tests.
pub fn cases<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let count = if cfg!(feature = "full-interop") { usize::MAX } else { 2 };
    all.into_iter().take(count)
}
