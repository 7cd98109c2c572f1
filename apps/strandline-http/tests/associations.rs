//! Tests of HTTP over associations on an in-memory network, in one binary that is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first error")]

mod bad_input;
mod common;
mod ends;
mod plain_peers;
mod streams;
