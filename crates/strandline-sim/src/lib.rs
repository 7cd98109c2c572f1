//! SCTP endpoints in virtual time.
//!
//! - [`pair::Pair`]: two endpoints, driven packet by packet, for tests of one procedure of the protocol.
//! - [`grid`]: the cells that examples measure.
//! - [`manual::ManualPeer`]: one endpoint against hand-made packets.
//! - [`run()`]: a world of many hosts from a seed. Links lose, reorder, duplicate and damage packets; hosts crash and
//!   come back; addresses disappear; applications pause, shut down and abort; attackers replay, forge and guess.
//!   Every message is accounted for, every association's numbers are checked, and when the faults stop everything
//!   must finish. A seed repeats its run exactly.
//!
//! Rules that hold in a world, whatever its seed:
//!
//! - Delivered data was sent, to this host, on this stream, and every byte is correct. It is delivered at most once,
//!   and ordered messages of a stream in their order. Only messages that were given up and reported are left out.
//! - Every message that `send` accepted is delivered or reported as failed, unless a host crashed that alone knew. A
//!   message reported as never sent does not arrive; one reported as sent may have arrived. A graceful shutdown fails
//!   no message, except by the limit that it was given with.
//! - A message is given up only when its limit is reached, and after a part of it was sent only if both sides support
//!   that. No chunk of it is sent then, and FORWARD TSN skips such messages alone.
//! - New data does not exceed the controller's cwnd (by more than a packet less one byte) or the peer's window. In a
//!   recovery that brings the flight down to cwnd, no more is sent than in proportion to what arrives (RFC 9937), and
//!   over time no more than the pacing rate allows. Bursts are limited to what was acknowledged, Max.Burst and a
//!   fraction of the window; one packet follows T3-rtx; nothing is retransmitted without a reason. All this is
//!   computed from the packets, as is the minimum that must count as in flight. Buffers and memory stay within their
//!   limits.
//! - A sender keeps to the credit of each stream, and a receiver acknowledges nothing beyond it: it ends the
//!   association.
//! - Each message on a dynamic stream arrives in the use of its number in which it was sent. The end of a
//!   direction says whether anything of it is missing, and directions that were finished end before a
//!   graceful shutdown.
//! - Packets are authenticated with the active key. One that was deleted admits nothing.
//! - An altered packet with a checksum of zero has no effect on hosts that accept none.
//! - An honest peer is never accused of a protocol violation.
//! - Timers and transmissions come to rest. Once the faults are over, nothing times out because of them any more,
//!   every association ends by shutdown within a bounded time, and the endpoints hold nothing.
//!
//! Between two hosts where an attacker alters packets under the right verification tags, nothing is expected of
//! messages. The other rules hold there too.
//!
//! The binary of the same name searches for seeds that break a rule, and replays them:
//!
//! ```text
//! strandline-sim --seeds 0..100000           search
//! strandline-sim --minutes 30                search for 30 minutes
//! strandline-sim --seed 42 --lines 200       the end of the record, packet by packet
//! strandline-sim --seed 42 --pcapng 42.pcapng --plan
//! ```
#![forbid(unsafe_code)]
// Test harnesses: a broken expectation ends the run with its reason.
#![allow(clippy::expect_used, clippy::panic)]

mod agreed;
mod app;
mod attacker;
mod authentic;
mod board;
mod bounds;
mod by_address;
mod dynamic_streams;
mod greedy;
pub mod grid;
mod host;
mod keys;
mod ledger;
mod limits;
pub mod manual;
pub mod network;
mod notes;
pub mod pair;
pub mod payload;
pub mod random;
mod reconfiguration;
mod relocation;
mod run;
mod scenario;
mod scheduling;
pub mod trace;
mod unread;
mod violation;
mod watch;
mod world;

pub use agreed::{Agreed, EXTENSIONS};
pub use ledger::Counts;
pub use run::{Failure, Replay, describe, has_feature, run};
pub use violation::Violation;
pub use world::Summary;
