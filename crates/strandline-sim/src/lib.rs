//! SCTP endpoints in virtual time.
//!
//! - [`pair::Pair`]: two endpoints, driven packet by packet: for tests of one procedure of the protocol.
//! - [`lone::Lone`]: one endpoint against packets that a test writes by hand.
//! - [`run()`]: a world of many hosts from a seed, in which links lose, reorder, duplicate and damage, hosts crash and
//!   come back, addresses go, applications pause, shut down and abort, and attackers replay, forge and guess. Every
//!   message is accounted for, every association's numbers are watched, and when the faults stop everything must
//!   finish. A seed repeats its run exactly.
//!
//! The binary of the same name searches for seeds that break a rule, and replays them.
#![forbid(unsafe_code)]
// Harnesses for tests: what must not happen ends the run with its reason.
#![allow(clippy::expect_used, clippy::panic)]

mod app;
mod attacker;
mod host;
mod ledger;
pub mod lone;
pub mod network;
pub mod pair;
pub mod payload;
pub mod random;
mod run;
mod scenario;
pub mod trace;
mod violation;
mod watch;
mod world;

pub use ledger::Counts;
pub use run::{Failure, Replay, describe, run};
pub use violation::Violation;
pub use world::Summary;
