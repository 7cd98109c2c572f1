//! A model of one direction of a network link: delay, jitter, rate, queue, loss, reordering, duplication, corruption.
//!
//! The model does no I/O and reads no clock. Time is an input, in nanoseconds since an origin that the caller
//! chooses, and every random decision comes from a seed, so a run can be repeated exactly.
//!
//! There are two ways to use it:
//! - [`Link`] decides about packets that the caller keeps: [`Link::offer`] returns when each copy arrives and
//!   whether it is corrupted, or why the packet is dropped.
//! - [`HeldLink`] holds the packets as well: [`HeldLink::push`] takes a packet, [`HeldLink::poll`] returns
//!   those that have arrived.
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
//! A packet is dropped by the first of these that applies: the link is cut, the packet is longer than
//! [`LinkConfig::size_max`], the loss model drops it, the queue is full. Otherwise it is transmitted at the
//! link's rate, travels for the delay and its jitter, may be held back so that others overtake it, and may be
//! duplicated; each copy may be corrupted.
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
