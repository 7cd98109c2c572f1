//! Fuzz targets: functions of any bytes that panic if a parser of this crate breaks a promise.

use crate::netem::fuzzing::schedule;
use crate::plan::expression::Expression;
use crate::plan::{Mode, Paper, Plan, template};
use crate::trace::fuzzing as trace;

/// Runs of a plan that are made here: more take long.
const RUNS_MAX: u64 = 200;

/// Plans, with their expressions and templates: what is taken leads to runs.
pub fn plan(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let _ = (toml::from_str::<Paper>(text), template::fill(text, &Default::default()));
    expression(text);
    let Ok(plan) = toml::from_str::<Plan>(text) else { return };
    if let Err(wrong) = plan.check() {
        assert!(!wrong.is_empty());
        return;
    }
    let values = plan.sweep.as_ref().map_or(1, |sweep| sweep.values.len().max(1));
    let runs = u64::from(plan.runs.repetitions) * values as u64 * plan.series.len() as u64;
    if runs <= RUNS_MAX {
        for mode in [Mode::Whole, Mode::Short] {
            assert!(plan.runs(mode).is_ok_and(|made| made.len() as u64 <= runs.max(1)));
        }
    }
}

fn expression(text: &str) {
    if let Ok(expression) = Expression::parse(text) {
        assert!(expression.names().len() <= text.len());
        let _ = expression.value(&|name| name.parse().map_err(|_| String::new()));
    }
}

/// What changes when in an emulated network, as `--schedule` says.
pub fn netem_schedule(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    schedule(text);
}

/// A trace of `strandline perf`.
pub fn perf_trace(bytes: &[u8]) {
    trace::run(bytes);
}

#[cfg(test)]
mod tests;
