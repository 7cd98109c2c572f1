//! A rule that a run broke.

use core::fmt;

/// A readable description of the broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// Returns a broken rule as the outcome of a check.
pub(crate) fn violation<T>(what: String) -> Result<T, Violation> {
    Err(Violation(what))
}

/// Checks a rule; `what` is called only if it is broken.
pub(crate) fn demand(holds: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(what())) }
}
