//! The laboratory.
//!
//! - [`netem`]: a network emulator between two network namespaces, for kernels without one.
//! - [`plan`]: experiments as data, [`network`]: what is between the two sides of one.
//!
//! Each part has its arguments for the command line and a `run`.
#![forbid(unsafe_code)]

pub mod netem;
pub mod network;
pub mod plan;
