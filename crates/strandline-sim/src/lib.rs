//! SCTP endpoints in virtual time.
//!
//! - [`pair::Pair`]: two endpoints, driven packet by packet: for tests of one procedure of the protocol.
//! - [`lone::Lone`]: one endpoint against packets that a test writes by hand.
#![forbid(unsafe_code)]
// These are harnesses for tests: what must not happen ends the run with its reason.
#![allow(clippy::expect_used, clippy::panic)]

pub mod lone;
pub mod network;
pub mod pair;
pub mod payload;
pub mod random;
pub mod trace;
