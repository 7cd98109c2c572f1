//! What load generators measure with: times as histograms ([`Times`]), the times at which an open loop begins its
//! operations ([`Schedule`], [`Arrivals`], [`Alarm`]), the processor time of the process ([`CpuTime`]), and its
//! limit of descriptors ([`raise_open_files`]).
//!
//! ```
//! use std::time::Duration;
//! use strandline_measure::{Arrivals, Times, now};
//!
//! let begin = now();
//! let due: Vec<_> = Arrivals::poisson(begin, 1000.0, 7).take(3).collect();
//! assert!(due.is_sorted());
//!
//! let mut times = Times::default();
//! times.record(Duration::from_millis(20));
//! assert_eq!(times.count(), 1);
//! ```
#![forbid(unsafe_code)]

mod histogram;
mod limits;
mod pace;
mod usage;

pub use histogram::{Distribution, Summary, Times};
pub use limits::raise_open_files;
pub use pace::{Alarm, Arrivals, Schedule, now};
pub use usage::CpuTime;
