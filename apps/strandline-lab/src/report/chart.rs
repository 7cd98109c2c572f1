//! Charts of a plan's measures.

use crate::figure::{Axis, Chart, Line, Mark};
use crate::plan::{DrawingKind, Measure, Plan, Published, PublishedValue, Series, Transport};
use crate::results::statistics::{Evaluation, Measured};

/// Returns the chart of a measure.
#[must_use]
pub fn chart(plan: &Plan, evaluation: &Evaluation<'_>, measure: &Measure) -> Chart {
    let bars = plan.drawing.kind == DrawingKind::Bars;
    let sweep = plan.sweep.as_ref();
    let with_unit = |label: &str, unit: &str| {
        if unit.is_empty() { label.to_owned() } else { format!("{label} ({unit})") }
    };
    let scale_of_x = sweep.map(|sweep| sweep.scale).unwrap_or_default();
    let values = values(plan, evaluation);
    let mut lines = Vec::new();
    let mut shades = Shades::default();
    for series in &plan.series {
        let shade = shades.next(series.transport, false);
        lines.push(measured_line(plan, evaluation, series, measure, shade));
    }
    for published in &plan.published {
        let shade = shades.next(published.transport, true);
        lines.push(published_line(plan, &values, published, measure, shade));
    }
    let mut chart = Chart {
        title: format!("{}, {}: {}", plan.figure, plan.title, measure.label),
        x: Axis {
            label: sweep.map(|sweep| with_unit(&sweep.label, &sweep.unit)).unwrap_or_default(),
            scale: scale_of_x,
        },
        y: Axis { label: with_unit(&measure.label, &measure.unit), scale: measure.scale },
        unit: measure.unit.clone(),
        lines,
        ticks: Vec::new(),
        bars,
    };
    chart.ticks = ticks(plan, &chart, bars);
    chart
}

/// Counts the uses of each transport. Published and measured series have separate counts, and thus the same
/// colours.
#[derive(Default)]
struct Shades(Vec<(Transport, bool)>);

impl Shades {
    fn next(&mut self, transport: Transport, published: bool) -> usize {
        let before = self.0.iter().filter(|before| **before == (transport, published)).count();
        self.0.push((transport, published));
        before
    }
}

fn measured_line(
    plan: &Plan,
    evaluation: &Evaluation<'_>,
    series: &Series,
    measure: &Measure,
    shade: usize,
) -> Line {
    let points: &[Measured] = evaluation.series.get(&series.name).map(Vec::as_slice).unwrap_or_default();
    let (mut marks, mut invalid, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let has = plan.expression(series, measure).is_some();
    for (place, point) in points.iter().enumerate() {
        let (x, at) = position(plan, point.value.as_deref(), place);
        if let Some(summary) = point.summaries.get(&measure.name) {
            let range = Some((summary.min, summary.max));
            marks.push(Mark { x, at: at.clone(), y: summary.median, range, count: summary.count });
        }
        let numbers = point.invalid.get(&measure.name).map(Vec::as_slice).unwrap_or_default();
        for y in numbers {
            invalid.push(Mark { x, at: at.clone(), y: *y, range: None, count: 1 });
        }
        if has && numbers.is_empty() && point.invalid_runs > 0 && !point.summaries.contains_key(&measure.name)
        {
            failed.push((x, at));
        }
    }
    let Series { title, transport, .. } = series;
    Line { title: title.clone(), transport: *transport, shade, published: false, marks, invalid, failed }
}

fn published_line(
    plan: &Plan,
    values: &[String],
    published: &Published,
    measure: &Measure,
    shade: usize,
) -> Line {
    let mut marks = Vec::new();
    let mut add = |value: Option<&str>, y: f64| {
        let (x, at) = position(plan, value, 0);
        marks.push(Mark { x, at, y, range: None, count: 1 });
    };
    match published.values.get(&measure.name) {
        Some(PublishedValue::One(number)) if plan.sweep.is_none() => add(None, *number),
        Some(PublishedValue::One(number)) => values.iter().for_each(|value| add(Some(value), *number)),
        Some(PublishedValue::Each(numbers)) => {
            for (value, number) in numbers {
                add(Some(value), *number);
            }
        }
        None => {}
    }
    marks.sort_by(|a, b| a.x.total_cmp(&b.x));
    Line {
        title: published.title_for(measure),
        transport: published.transport,
        shade,
        published: true,
        marks,
        invalid: Vec::new(),
        failed: Vec::new(),
    }
}

/// Returns the values of the sweep in order: those of the plan, then those that occur only in runs or in the
/// paper.
#[must_use]
pub fn values(plan: &Plan, evaluation: &Evaluation<'_>) -> Vec<String> {
    let planned = plan.sweep.iter().flat_map(|sweep| &sweep.values).map(ToString::to_string);
    let measured = evaluation.series.values().flatten().filter_map(|point| point.value.clone());
    let published = plan.published.iter().flat_map(|published| published.values.values());
    let published = published.flat_map(|value| match value {
        PublishedValue::One(_) => Vec::new(),
        PublishedValue::Each(numbers) => numbers.keys().cloned().collect(),
    });
    let mut all: Vec<String> = Vec::new();
    for value in planned.chain(measured).chain(published) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    if plan.sweep.as_ref().is_some_and(|sweep| sweep.values.is_empty()) {
        all.sort_by(|a, b| position(plan, Some(a), 0).0.total_cmp(&position(plan, Some(b), 0).0));
    }
    all
}

/// Returns the position of a value of the sweep on the axis, and its label.
#[must_use]
pub fn position(plan: &Plan, value: Option<&str>, place: usize) -> (f64, String) {
    let (Some(sweep), Some(value)) = (&plan.sweep, value) else { return (0.0, String::new()) };
    let found = sweep.values.iter().position(|known| known.to_string() == value);
    let own = |list: Option<&Vec<f64>>| list.and_then(|list| list.get(found?).copied());
    let x = own(sweep.x.as_ref()).or_else(|| value.parse().ok()).unwrap_or(place as f64);
    let label = sweep.labels.as_ref().and_then(|labels| labels.get(found?).cloned());
    let label = label.unwrap_or_else(|| match (&sweep.x, x) {
        (Some(_), x) => crate::figure::show(x),
        (None, _) => value.parse::<f64>().map_or_else(|_| value.to_owned(), crate::figure::show),
    });
    let unit = if sweep.unit.is_empty() { String::new() } else { format!(" {}", sweep.unit) };
    // On a numeric axis the unit is in the axis label.
    (x, if plan.drawing.kind == DrawingKind::Bars { label + &unit } else { label })
}

/// Returns the tick marks of the x axis in order.
fn ticks(plan: &Plan, chart: &Chart, bars: bool) -> Vec<(f64, String)> {
    let mut ticks: Vec<(f64, String)> = Vec::new();
    if plan.sweep.is_none() {
        return ticks;
    }
    let places = chart.lines.iter().flat_map(|line| {
        let marks = line.marks.iter().chain(&line.invalid).map(|mark| (mark.x, &mark.at));
        marks.chain(line.failed.iter().map(|(x, at)| (*x, at)))
    });
    for (x, at) in places {
        if !ticks.iter().any(|(_, known)| known == at) {
            ticks.push((x, at.clone()));
        }
    }
    if bars {
        // In the order of the sweep, even if the values are not numbers.
        let order = |at: &str| {
            let values = plan.sweep.iter().flat_map(|sweep| &sweep.values);
            values.into_iter().position(|value| position(plan, Some(&value.to_string()), 0).1 == at)
        };
        ticks.sort_by_key(|(_, at)| order(at).unwrap_or(usize::MAX));
    } else {
        ticks.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    }
    ticks
}
