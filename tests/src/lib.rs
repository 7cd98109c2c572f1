//! Tests that cross crates; see the files beside `src`.
