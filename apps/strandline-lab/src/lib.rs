//! The laboratory.
//!
//! - [`netem`]: a network emulator between two network namespaces, for kernels without one.
//!
//! Each part has its arguments for the command line and a `run`.
#![forbid(unsafe_code)]

pub mod netem;
