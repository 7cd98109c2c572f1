//! A model of one direction of a network link: delay, jitter, rate, queue, loss, reordering, duplication, corruption.
//!
//! The model does no I/O and reads no clock: time is an input in nanoseconds since an origin that the caller chose, and
//! every random decision comes from a seed, so a run can be repeated exactly.
//!
//! Two ways to use it:
//! - [`Link`] decides about packets that the caller keeps: [`Link::offer`] says when each copy arrives, whether it is
//!   damaged, or why it was dropped.
//! - [`HeldLink`] keeps the packets as well: [`HeldLink::push`] takes one, [`HeldLink::poll`] gives what has arrived.
//!
//! ```
//! use core::time::Duration;
//! use strandline_netem::{Link, LinkConfig, Verdict};
//!
//! // 8 Mbit/s, 10 ms: a packet of 1,000 bytes takes 1 ms to send and arrives after 11 ms.
//! let config = LinkConfig { rate_bps: 8_000_000, delay: Duration::from_millis(10), ..LinkConfig::default() };
//! let mut link = Link::new(config, 1);
//! let Verdict::Delivered(copies) = link.offer(0, 1000) else { return Err("a perfect link drops nothing") };
//! assert_eq!(copies.first.arrival_ns, 11_000_000);
//! assert_eq!(copies.duplicate, None);
//! # Ok::<(), &str>(())
//! ```
//!
//! What happens to a packet, in this order: the link is cut? it is longer than [`LinkConfig::size_max`]? the loss model
//! takes it? the queue is full? Then it is sent at the link's rate, travels for the delay and its jitter, may be held
//! back so that others overtake it, may be duplicated, and each copy may be damaged.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod config;
mod corruption;
mod held;
mod link;
mod loss;
mod mark;
mod random;
mod schedule;
mod stats;

pub use config::{LinkConfig, Reordering};
pub use corruption::Corruption;
pub use held::HeldLink;
pub use link::{Arrival, Copies, DropReason, Link, Verdict};
pub use loss::Loss;
pub use mark::mark;
pub use schedule::Change;
pub use stats::LinkStats;
