//! Line charts: a line for each series over the sweep.

use super::field::{Entry, Field, legend};
use super::paint::Paint;
use super::svg::Svg;
use super::{Chart, Line, Theme};

/// Horizontal distance between points of different series at the same value, so that their ranges can be told
/// apart.
const ASIDE: f64 = 5.0;

pub(super) fn draw(chart: &Chart, width: f64, theme: Theme) -> String {
    let mut svg = Svg::new(theme);
    let all = || chart.lines.iter().flat_map(|line| line.marks.iter().chain(&line.invalid));
    let xs: Vec<f64> = all().map(|mark| mark.x).chain(chart.ticks.iter().map(|(x, _)| *x)).collect();
    let ys: Vec<f64> = all().flat_map(|mark| [mark.y, mark.range.map_or(mark.y, |(_, max)| max)]).collect();
    let field = Field::new(width, (&xs, chart.x.scale), (&ys, chart.y.scale));
    field.draw_axes((&chart.x.label, &chart.y.label), &chart.ticks, &mut svg);
    let seen = |line: &&Line| !line.is_empty();
    let (mut aside, step) = (chart.lines.iter().filter(seen).count() as f64 * -ASIDE / 2.0, ASIDE / 2.0);
    for (shape, line) in chart.lines.iter().enumerate().filter(|(_, line)| seen(line)) {
        aside += step;
        draw_line(&field, line, (shape, aside), &chart.unit, &mut svg);
        aside += step;
    }
    let bottom = legend(&entries(chart), width, field.below(), &mut svg);
    svg.finish(width, bottom, &chart.title)
}

fn draw_line(field: &Field, line: &Line, (shape, aside): (usize, f64), unit: &str, svg: &mut Svg) {
    let paint = Paint::Series(line.transport, line.shade);
    let place = |x: f64, y: f64| [field.x.place(x) + aside, field.y.place(y)];
    for mark in &line.invalid {
        svg.cross(place(mark.x, mark.y), &format!("invalid: {}", line.tip(mark, unit)));
    }
    for (x, at) in &line.failed {
        let told = format!("no valid run: {} at {at}", line.title);
        svg.cross([field.x.place(*x) + aside, field.bottom], &told);
    }
    let points: Vec<[f64; 2]> = line.marks.iter().map(|mark| place(mark.x, mark.y)).collect();
    svg.path(&points, paint, line.published);
    for mark in &line.marks {
        if let Some((min, max)) = mark.range.filter(|(min, max)| max > min) {
            let ([x, low], [_, high]) = (place(mark.x, min), place(mark.x, max));
            svg.line([x, low], [x, high], paint, 1.2);
            for y in [low, high] {
                svg.line([x - 4.0, y], [x + 4.0, y], paint, 1.2);
            }
        }
        svg.sign(place(mark.x, mark.y), shape, paint, line.published, &line.tip(mark, unit));
    }
}

/// Returns the entries of the legend.
fn entries(chart: &Chart) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let cross = |svg: &mut Svg, [x, y]: [f64; 2], text: &str| svg.cross([x + 13.0, y], text);
    for (shape, line) in chart.lines.iter().enumerate() {
        if !line.marks.is_empty() {
            let published = if line.published { ", published" } else { "" };
            let text = format!("{}{published}", line.title);
            let (paint, dashed) = (Paint::Series(line.transport, line.shade), line.published);
            entries.push(Entry::new(text, move |svg, [x, y], text| {
                svg.path(&[[x, y], [x + 26.0, y]], paint, dashed);
                svg.sign([x + 13.0, y], shape, paint, dashed, text);
            }));
        } else if !line.is_sound() {
            entries.push(Entry::new(format!("{}: no valid run", line.title), cross));
        }
    }
    if chart.lines.iter().any(|line| !line.is_sound()) {
        entries.push(Entry::new("invalid run".to_owned(), cross));
    }
    entries
}
