//! Load generators.
#![forbid(unsafe_code)]

pub mod stream;
