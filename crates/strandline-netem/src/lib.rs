//! Placeholder documentation, replaced by the crate's first commit.
