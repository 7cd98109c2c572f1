//! Plans: what is read, and what is said about mistakes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use super::expression::Expression;
use super::*;

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

#[test]
fn every_plan_of_the_repository_is_sound() {
    let found = find(&experiments(), &[]).unwrap();
    assert!(!found.is_empty());
    for found in found {
        let plan = load(&found).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(!plan.runs(Mode::Whole).unwrap().is_empty(), "{}", found.path.display());
        paper(&found).unwrap_or_else(|error| panic!("{error:#}"));
    }
}
