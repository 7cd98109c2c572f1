//! Tests of parsing and editing messages, in one binary that is linked once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first error")]

mod edits;
mod generated;
mod headers;
mod hostile;

mod oracle;
mod rfc4475;
mod rfc5118;
mod streams;

mod torture;
mod uris;
