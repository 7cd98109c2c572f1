//! The one binary: it only dispatches.
fn main() {}
