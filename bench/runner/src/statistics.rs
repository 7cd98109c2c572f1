//! Medians and ranges.

use serde::Serialize;

/// The median and the range of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Summary {
    /// Returns the summary; `None` without values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median =
            if values.len() % 2 == 1 { upper } else { f64::midpoint(upper, *values.get(middle - 1)?) };
        Some(Self { median, least: *values.first()?, most: *values.last()? })
    }
}

#[cfg(test)]
mod tests;
