//! The laboratory.
//!
//! - [`netem`]: a network emulator between two network namespaces, for kernels without one.
//! - [`plan`]: experiments as data, [`network`]: what is between the two sides of one.
//! - [`run`], [`results`], [`report`], [`figure`]: measuring what plans say, keeping it, drawing it.
//! - [`trace`]: a trace of `strandline perf`, drawn.
//! - [`simulate`], [`instructions`], [`together`]: workloads of plans that are no programs of their own.
//!
//! Each part has its arguments for the command line and a `run`.
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
pub mod simulate;
pub mod together;
pub mod trace;

pub use command::Lab;
