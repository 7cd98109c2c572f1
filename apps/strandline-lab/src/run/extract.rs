//! Extracts measured values from programs' output.

use serde_json::Value;

use crate::plan::expression::Expression;
use crate::plan::template::Variables;
use crate::plan::{Plan, Series};
use crate::results::Point;

/// The reports of a run.
#[derive(Debug, Default)]
pub struct Printed {
    /// The client's report.
    pub client: Value,
    /// The server's report, if its output is read.
    pub server: Option<Value>,
    /// The emulator's report.
    pub netem: Option<Value>,
}

/// Returns the points of a run.
///
/// # Errors
/// If a value is missing.
pub fn points(
    plan: &Plan,
    series: &Series,
    value: Option<&str>,
    printed: &Printed,
    variables: &Variables,
) -> Result<Vec<Point>, String> {
    let source = |element| Source { printed, element, variables };
    let Some((sweep, each)) = plan.sweep.as_ref().and_then(|sweep| Some((sweep, sweep.each.as_ref()?)))
    else {
        let measured = source(&printed.client).measured(plan, series)?;
        return Ok(vec![Point { value: value.map(str::to_owned), measured }]);
    };
    let array = printed.client.pointer(each).and_then(Value::as_array);
    let array = array.ok_or_else(|| format!("the client's output has no array at {each}"))?;
    let mut points = Vec::new();
    for element in array {
        let source = source(element);
        let value = source.value(sweep.value.as_deref().unwrap_or_default())?;
        points.push(Point { value: Some(value.to_string()), measured: source.measured(plan, series)? });
    }
    Ok(points)
}

/// Resolves the names in an expression.
struct Source<'a> {
    printed: &'a Printed,
    /// The element that the client's pointers start from.
    element: &'a Value,
    variables: &'a Variables,
}

impl Source<'_> {
    fn measured(
        &self,
        plan: &Plan,
        series: &Series,
    ) -> Result<std::collections::BTreeMap<String, f64>, String> {
        let mut measured = std::collections::BTreeMap::new();
        for measure in &plan.measures {
            if let Some(expression) = plan.expression(series, measure) {
                let value = self.value(expression).map_err(|wrong| format!("{}: {wrong}", measure.name))?;
                measured.insert(measure.name.clone(), value);
            }
        }
        Ok(measured)
    }

    fn value(&self, expression: &str) -> Result<f64, String> {
        Expression::parse(expression)?.value(&|name| self.resolve(name))
    }

    fn resolve(&self, name: &str) -> Result<f64, String> {
        let (whole, pointer) = match name.split_once(':') {
            Some(("client", pointer)) => (Some(&self.printed.client), pointer),
            Some(("server", pointer)) => (self.printed.server.as_ref(), pointer),
            Some(("netem", pointer)) => (self.printed.netem.as_ref(), pointer),
            _ if name.starts_with('/') => (Some(self.element), name),
            _ => {
                let text = self.variables.get(name).ok_or_else(|| format!("no variable {{{name}}}"))?;
                return text.parse().map_err(|_| format!("{{{name}}} is '{text}', not a number"));
            }
        };
        let whole = whole.ok_or_else(|| format!("{{{name}}}: no output"))?;
        // Null counts as missing: programs print null for unknown values.
        let value = whole.pointer(pointer).filter(|value| !value.is_null()).ok_or_else(|| {
            let why = missing(whole, pointer).map(|why| format!(": {why}")).unwrap_or_default();
            format!("the output has no {{{name}}}{why}")
        })?;
        value.as_f64().ok_or_else(|| format!("{{{name}}} is {value}, not a number"))
    }
}

/// Returns a program's explanation of a missing value: the field `KEY_missing` beside `KEY` or beside one of
/// its parents.
fn missing<'a>(whole: &'a Value, pointer: &str) -> Option<&'a str> {
    let ends = pointer.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).skip(1);
    let mut paths = ends.chain([pointer.len()]).filter_map(|end| pointer.get(..end));
    paths.find_map(|path| whole.pointer(&format!("{path}_missing"))?.as_str())
}

/// Parses one JSON document, or the last line if there are several.
///
/// # Errors
/// If neither is JSON.
pub fn parse(text: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).ok_or("no output")?;
    let start: String = last.chars().take(80).collect();
    serde_json::from_str(last).map_err(|_| format!("the output is not JSON: {start}"))
}

/// Returns a report without the parts that only serve to watch progress, also within nested reports: they would
/// make files of many megabytes.
#[must_use]
pub fn without_intervals(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| key != "intervals");
            Value::Object(kept.map(|(key, value)| (key, without_intervals(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_intervals).collect()),
        other => other,
    }
}
