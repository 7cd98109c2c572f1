//! A line for each series over the sweep.

use super::axis::{Stretch, show};
use super::paint::Paint;
use super::svg::{Anchor, Svg, TEXT, text_width, wrap};
use super::{Chart, Line, Theme};

/// Height of the field with the lines, for its width.
const HEIGHT: (f64, f64) = (0.52, 240.0);
const MARGIN_RIGHT: f64 = 14.0;
const MARGIN_TOP: f64 = 10.0;
/// From the field to the axis' label.
const BELOW: f64 = 44.0;
const LEGEND_LINE: f64 = 22.0;
/// Between points of different series at the same place, so that their ranges can be told apart.
const ASIDE: f64 = 5.0;

struct Field {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Stretch,
    y: Stretch,
}

pub(super) fn draw(chart: &Chart, width: f64, theme: Theme) -> String {
    let mut svg = Svg::new(theme);
    let field = Field::of(chart, width);
    field.draw_axes(chart, &mut svg);
    let seen = |line: &&Line| !line.is_empty();
    let (mut aside, step) = (chart.lines.iter().filter(seen).count() as f64 * -ASIDE / 2.0, ASIDE / 2.0);
    for (shape, line) in chart.lines.iter().enumerate().filter(|(_, line)| seen(line)) {
        aside += step;
        field.draw_line(line, (shape, aside), &chart.unit, &mut svg);
        aside += step;
    }
    let bottom = legend(chart, width, field.bottom + BELOW + 16.0, &mut svg);
    svg.finish(width, bottom, &chart.title)
}

impl Field {
    fn of(chart: &Chart, width: f64) -> Self {
        let all = || chart.lines.iter().flat_map(|line| line.marks.iter().chain(&line.invalid));
        let xs: Vec<f64> = all().map(|mark| mark.x).chain(chart.ticks.iter().map(|(x, _)| *x)).collect();
        let ys: Vec<f64> =
            all().flat_map(|mark| [mark.y, mark.range.map_or(mark.y, |(_, max)| max)]).collect();
        let (top, bottom) = (MARGIN_TOP, MARGIN_TOP + (width * HEIGHT.0).max(HEIGHT.1));
        let y = Stretch::above(&ys, chart.y.scale, bottom, top);
        let widest = y.ticks().iter().map(|tick| text_width(&show(*tick), TEXT)).fold(0.0, f64::max);
        let left = widest + 34.0;
        let right = width - MARGIN_RIGHT;
        let x = Stretch::around(&xs, chart.x.scale, left, right);
        Self { left, right, top, bottom, x, y }
    }

    fn draw_axes(&self, chart: &Chart, svg: &mut Svg) {
        let Self { left, right, top, bottom, x, y } = *self;
        for tick in y.ticks() {
            let at = y.place(tick);
            svg.line([left, at], [right, at], Paint::Grid, 1.0);
            svg.text([left - 7.0, at + 4.5], &show(tick), Anchor::End, Paint::Faint);
        }
        svg.line([left, bottom], [right, bottom], Paint::Faint, 1.0);
        let mut free_from = f64::NEG_INFINITY;
        for (number, text) in &chart.ticks {
            let at = x.place(*number);
            svg.line([at, bottom], [at, bottom + 4.0], Paint::Faint, 1.0);
            let half = text_width(text, TEXT) / 2.0;
            // Where there is no room the sign alone has to do.
            if at - half > free_from {
                svg.text([at, bottom + 18.0], text, Anchor::Middle, Paint::Faint);
                free_from = at + half + 4.0;
            }
        }
        svg.text(
            [f64::midpoint(left, right), bottom + BELOW - 4.0],
            &chart.x.label,
            Anchor::Middle,
            Paint::Ink,
        );
        svg.upward_text([13.0, f64::midpoint(top, bottom)], &chart.y.label, Paint::Ink);
    }

    fn draw_line(&self, line: &Line, (shape, aside): (usize, f64), unit: &str, svg: &mut Svg) {
        let paint = Paint::Series(line.transport, line.shade);
        let place = |x: f64, y: f64| [self.x.place(x) + aside, self.y.place(y)];
        for mark in &line.invalid {
            svg.cross(place(mark.x, mark.y), &format!("not valid: {}", line.tip(mark, unit)));
        }
        for (x, at) in &line.failed {
            let told = format!("no valid run: {} at {at}", line.title);
            svg.cross([self.x.place(*x) + aside, self.bottom], &told);
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
}

/// What the lines are, in as many rows as it takes; gives where it ends.
fn legend(chart: &Chart, width: f64, top: f64, svg: &mut Svg) -> f64 {
    let (mut x, mut y) = (12.0, top);
    let mut entries: Vec<(String, Option<(usize, &Line)>)> = Vec::new();
    for (shape, line) in chart.lines.iter().enumerate() {
        if !line.marks.is_empty() {
            let published = if line.published { ", published" } else { "" };
            entries.push((format!("{}{published}", line.title), Some((shape, line))));
        } else if !line.is_sound() {
            entries.push((format!("{}: no valid run", line.title), None));
        }
    }
    if chart.lines.iter().any(|line| !line.is_sound()) {
        entries.push(("run that doesn't count".to_owned(), None));
    }
    for (text, what) in entries {
        let parts = wrap(&text, width - 62.0);
        let widest = parts.iter().map(|part| text_width(part, TEXT)).fold(0.0, f64::max);
        let wide = 34.0 + widest + 16.0;
        if x > 12.0 && x + wide > width {
            (x, y) = (12.0, y + LEGEND_LINE);
        }
        match what {
            Some((shape, line)) => {
                let paint = Paint::Series(line.transport, line.shade);
                svg.path(&[[x, y], [x + 26.0, y]], paint, line.published);
                svg.sign([x + 13.0, y], shape, paint, line.published, &text);
            }
            None => svg.cross([x + 13.0, y], &text),
        }
        for (number, part) in parts.iter().enumerate() {
            y += if number > 0 { LEGEND_LINE * 0.75 } else { 0.0 };
            svg.text([x + 33.0, y + 4.5], part, Anchor::Start, Paint::Ink);
        }
        x += wide;
    }
    y + LEGEND_LINE * 0.75
}
