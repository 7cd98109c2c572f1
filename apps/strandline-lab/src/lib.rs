//! The laboratory: reproduces experiments of papers, and emulates networks.
//!
//! - [`netem`]: a network emulator between two network namespaces, for kernels without one.
//! - [`plan`]: experiments as data; [`network`]: the network between the two sides of an experiment.
//! - [`run`], [`results`], [`report`], [`figure`]: running plans, storing results, reporting and drawing them.
//! - [`trace`]: drawings of a trace of `strandline perf`.
//! - [`simulate`], [`instructions`], [`together`], [`sequence`]: workloads of plans that are not programs of their own;
//!   [`site`]: the files that plans with HTTP fetch.
//!
//! Each module with a subcommand has its command-line arguments and a `run` function.
#![forbid(unsafe_code)]

mod clock;
mod command;
pub mod figure;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod instructions;
pub mod netem;
pub mod network;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod sequence;
pub mod simulate;
pub mod site;
pub mod together;
pub mod trace;

pub use command::Lab;
