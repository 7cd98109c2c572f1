//! Checks that each decision has a number of its own.

use std::collections::BTreeMap;

use crate::tree::{Tree, Violation};

const FOLDER: &str = "docs/decisions/";

/// Number of digits that a decision's file name begins with.
const DIGITS: usize = 4;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut first = BTreeMap::new();
    let mut found = Vec::new();
    for name in tree.files.keys() {
        let Some(number) = number(name) else { continue };
        if let Some(other) = first.insert(number, name) {
            let message = format!("{other} has the number {number} too: take the next free one");
            found.push(Violation::new(name, 1, message));
        }
    }
    found
}

/// Returns the digits that the name of a decision's file begins with.
fn number(name: &str) -> Option<&str> {
    let digits = name.strip_prefix(FOLDER)?.get(..DIGITS)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)
}
