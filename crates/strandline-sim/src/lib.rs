//! SCTP endpoints in virtual time.
//!
//! - [`pair::Pair`]: two endpoints, driven packet by packet: for tests of one procedure of the protocol.
//! - [`grid`]: what examples measure, cell by cell.
//! - [`manual::ManualPeer`]: one endpoint against packets that a test writes by hand.
//! - [`run()`]: a world of many hosts from a seed, in which links lose, reorder, duplicate and damage, hosts crash and
//!   come back, addresses go, applications pause, shut down and abort, and attackers replay, forge and guess. Every
//!   message is accounted for, every association's numbers are watched, and when the faults stop everything must
//!   finish. A seed repeats its run exactly.
//!
//! What must hold in a world, whatever its seed:
//!
//! - What is delivered was sent, to this host, on this stream, and every byte is right; at most once; ordered messages
//!   of a stream in their order, none left out.
//! - Every message that `send` took is delivered or reported failed, unless a host crashed that alone could tell. What
//!   is reported as never sent does not arrive; what is reported as sent may have. A graceful shutdown fails nothing.
//! - No new data goes beyond the controller's cwnd (by more than a packet less one byte) or beyond the peer's window; in a
//!   recovery that brings the flight down to cwnd no more goes than in proportion to what arrives (RFC 9937), and over time no
//!   more than the pacing rate allows. Bursts keep to what was acknowledged, Max.Burst and a piece of the window, one packet
//!   follows T3-rtx, and nothing goes again without a reason; all this is computed anew from the packets, as is the least that
//!   must count as in flight. Buffers and memory stay within their limits.
//! - An honest peer is never accused of breaking the protocol.
//! - Timers and transmissions come to rest; once the faults are over, nothing times out for them any more, every
//!   association ends by shutdown within a bounded time, and the endpoints hold nothing.
//!
//! Between two hosts where an attacker alters packets under the right verification tags, nothing is expected of
//! messages; the rest holds there too.
//!
//! The binary of the same name searches for seeds that break a rule, and replays them:
//!
//! ```text
//! strandline-sim --seeds 0..100000           search
//! strandline-sim --minutes 30                search as long as that
//! strandline-sim --seed 42 --lines 200       the end of what happened, packet by packet
//! strandline-sim --seed 42 --pcapng 42.pcapng --plan
//! ```
#![forbid(unsafe_code)]
// Harnesses for tests: what must not happen ends the run with its reason.
#![allow(clippy::expect_used, clippy::panic)]

mod app;
mod attacker;
mod board;
mod bounds;
pub mod grid;
mod host;
mod ledger;
pub mod manual;
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
