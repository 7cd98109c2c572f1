//! Horizontal bar charts: a group for each value of the sweep, with a bar for each series.

use super::axis::{Stretch, show};
use super::paint::Paint;
use super::svg::{Anchor, Svg, TEXT, text_width, wrap};
use super::{Chart, Line, Mark, Theme};

const BAR: f64 = 18.0;
const GAP: f64 = 5.0;
const GROUP_GAP: f64 = 14.0;
const HEADING: f64 = 22.0;
/// Height of a name above its bar, used in narrow drawings.
const NAME_LINE: f64 = 18.0;
const NARROW: f64 = 520.0;
/// Largest share of the width for names beside the bars.
const NAMES_MAX: f64 = 0.45;
const TOP: f64 = 8.0;
/// Half of the width of a cross, with a margin.
const CROSS: f64 = 5.0;
/// Text in place of a bar if there is no valid run.
const NOT_VALID: &str = "no valid run";

pub(super) fn draw(chart: &Chart, width: f64, theme: Theme) -> String {
    let mut svg = Svg::new(theme);
    let groups = groups(chart);
    let names = chart.lines.iter().map(|line| text_width(&name(line), TEXT)).fold(0.0, f64::max) + 18.0;
    // If names would leave too little room for the bars, they stand above them.
    let narrow = width < NARROW || names > width * NAMES_MAX;
    let left = if narrow { 8.0 } else { names };
    let all = || chart.lines.iter().flat_map(|line| line.marks.iter().chain(&line.invalid));
    let numbers: Vec<f64> =
        all().flat_map(|mark| [mark.y, mark.range.map_or(mark.y, |(_, max)| max)]).collect();
    // Reserve room for the numbers behind the bars.
    let value_room = all().map(|mark| text_width(&show(mark.y), TEXT)).fold(0.0, f64::max) + 14.0;
    let no_bars = groups.iter().flat_map(|(_, bars)| bars).any(|(_, mark)| mark.is_none());
    let value_room = if no_bars { value_room.max(text_width(NOT_VALID, TEXT) + 14.0) } else { value_room };
    let x = Stretch::above(&numbers, chart.y.scale, left, width - value_room);
    let headed = groups.iter().any(|(heading, _)| !heading.is_empty());
    let all_names = groups.iter().flat_map(|(_, bars)| bars).map(|(line, _)| lines_of(line, narrow, width));
    let rows: f64 = all_names.map(|lines| BAR + GAP + lines.len() as f64 * NAME_LINE).sum();
    let heading = if headed { HEADING } else { 0.0 };
    let bottom = TOP + rows + groups.len() as f64 * (GROUP_GAP + heading);
    let mut free_from = f64::NEG_INFINITY;
    for tick in x.ticks() {
        let (at, text) = (x.place(tick), show(tick));
        svg.line([at, TOP], [at, bottom], Paint::Grid, 1.0);
        let half = text_width(&text, TEXT) / 2.0;
        // If there is no room for text, only the line is drawn.
        if at - half > free_from {
            svg.text([at, bottom + 17.0], &text, Anchor::Middle, Paint::Faint);
            free_from = at + half + 8.0;
        }
    }
    let mut y = TOP;
    for (text, bars) in &groups {
        if headed {
            svg.styled_text([8.0, y + 16.0], text, Anchor::Start, Paint::Ink, " font-weight=\"600\"");
            y += heading;
        }
        for (line, mark) in bars {
            for part in lines_of(line, narrow, width) {
                svg.text([left + 2.0, y + 13.0], &part, Anchor::Start, Paint::Ink);
                y += NAME_LINE;
            }
            if !narrow {
                svg.text([left - 8.0, y + BAR * 0.5 + 4.5], &name(line), Anchor::End, Paint::Ink);
            }
            match mark {
                Some(mark) => bar(&x, y, left, line, mark, &chart.unit, &mut svg),
                None => no_bar(&x, y, left, (line, text), &chart.unit, &mut svg),
            }
            y += BAR + GAP;
        }
        y += GROUP_GAP;
    }
    svg.line([left, TOP], [left, bottom], Paint::Faint, 1.0);
    svg.text([f64::midpoint(left, width), bottom + 38.0], &chart.y.label, Anchor::Middle, Paint::Ink);
    svg.finish(width, bottom + 48.0, &chart.title)
}

fn name(line: &Line) -> String {
    if line.published { format!("{} (published)", line.title) } else { line.title.clone() }
}

/// Returns the lines of text above a bar; none if its name stands beside it.
fn lines_of(line: &Line, above: bool, width: f64) -> Vec<String> {
    if above { wrap(&name(line), width - 16.0) } else { Vec::new() }
}

fn bar(x: &Stretch, y: f64, left: f64, line: &Line, mark: &Mark, unit: &str, svg: &mut Svg) {
    let paint = Paint::Series(line.transport, line.shade);
    let end = x.place(mark.y);
    svg.bar([left, y], [end - left, BAR], paint, line.published, &line.tip(mark, unit));
    let mut behind = end.max(crosses(x, y, (line, &mark.at), unit, svg));
    if let Some((min, max)) = mark.range.filter(|(min, max)| max > min) {
        let (middle, low, high) = (y + BAR / 2.0, x.place(min), x.place(max));
        svg.line([low, middle], [high, middle], Paint::Ink, 1.4);
        for at in [low, high] {
            svg.line([at, middle - 4.0], [at, middle + 4.0], Paint::Ink, 1.4);
        }
        behind = behind.max(high);
    }
    svg.text([behind + 6.0, y + BAR * 0.5 + 4.5], &show(mark.y), Anchor::Start, Paint::Ink);
}

/// Draws the text in place of a bar without a valid run.
fn no_bar(x: &Stretch, y: f64, left: f64, (line, at): (&Line, &str), unit: &str, svg: &mut Svg) {
    let behind = left.max(crosses(x, y, (line, at), unit, svg));
    svg.text([behind + 6.0, y + BAR * 0.5 + 4.5], NOT_VALID, Anchor::Start, Paint::Faint);
}

/// Draws crosses for the invalid runs; returns the position of the last one.
fn crosses(x: &Stretch, y: f64, (line, at): (&Line, &str), unit: &str, svg: &mut Svg) -> f64 {
    let mut last = f64::NEG_INFINITY;
    for invalid in line.invalid.iter().filter(|invalid| invalid.at == at) {
        let place = x.place(invalid.y);
        svg.cross([place, y + BAR / 2.0], &format!("invalid: {}", line.tip(invalid, unit)));
        last = last.max(place + CROSS);
    }
    last
}

/// A heading, and for each series with results its median, if there is one.
type Group<'a> = (String, Vec<(&'a Line, Option<&'a Mark>)>);

/// Returns the bars grouped by value of the sweep, in its order.
fn groups(chart: &Chart) -> Vec<Group<'_>> {
    let headings: Vec<String> = match chart.ticks.as_slice() {
        [] => vec![String::new()],
        ticks => ticks.iter().map(|(_, text)| text.clone()).collect(),
    };
    let mut groups = Vec::new();
    for heading in headings {
        let mut bars = Vec::new();
        for line in &chart.lines {
            let mark = line.marks.iter().find(|mark| mark.at == heading);
            let tried = line.invalid.iter().any(|invalid| invalid.at == heading)
                || line.failed.iter().any(|(_, at)| *at == heading);
            if mark.is_some() || tried {
                bars.push((line, mark));
            }
        }
        if !bars.is_empty() {
            groups.push((heading, bars));
        }
    }
    groups
}
