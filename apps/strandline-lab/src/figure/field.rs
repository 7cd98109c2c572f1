//! The field that lines are drawn in: its axes, and below it what the lines are.

use super::axis::{Stretch, show};
use super::paint::Paint;
use super::svg::{Anchor, Svg, TEXT, text_width, wrap};
use crate::plan::Scale;

/// Height of the field with the lines, for its width.
const HEIGHT: (f64, f64) = (0.52, 240.0);
const MARGIN_RIGHT: f64 = 14.0;
const MARGIN_TOP: f64 = 10.0;
/// From the field to the axis' label.
const BELOW: f64 = 44.0;
const LEGEND_LINE: f64 = 22.0;

/// Where numbers stand.
pub(super) struct Field {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Stretch,
    pub(super) y: Stretch,
}

impl Field {
    /// One that has room for all these numbers.
    pub(super) fn new(width: f64, xs: (&[f64], Scale), (ys, y_scale): (&[f64], Scale)) -> Self {
        Self::with(width, xs, |from, to| Stretch::above(ys, y_scale, from, to))
    }

    /// One with another axis from bottom to top; `y` is told where these are.
    pub(super) fn with(
        width: f64,
        (xs, x_scale): (&[f64], Scale),
        y: impl FnOnce(f64, f64) -> Stretch,
    ) -> Self {
        let (top, bottom) = (MARGIN_TOP, MARGIN_TOP + (width * HEIGHT.0).max(HEIGHT.1));
        let y = y(bottom, top);
        let widest = y.ticks().iter().map(|tick| text_width(&show(*tick), TEXT)).fold(0.0, f64::max);
        let left = widest + 34.0;
        let right = width - MARGIN_RIGHT;
        let x = Stretch::around(xs, x_scale, left, right);
        Self { left, right, top, bottom, x, y }
    }

    /// Where what stands below it begins.
    pub(super) fn below(&self) -> f64 {
        self.bottom + BELOW + 16.0
    }

    /// The axes with their labels; `ticks` stand at the x axis.
    pub(super) fn draw_axes(&self, (x_label, y_label): (&str, &str), ticks: &[(f64, String)], svg: &mut Svg) {
        let Self { left, right, top, bottom, x, y } = *self;
        for tick in y.ticks() {
            let at = y.place(tick);
            svg.line([left, at], [right, at], Paint::Grid, 1.0);
            svg.text([left - 7.0, at + 4.5], &show(tick), Anchor::End, Paint::Faint);
        }
        svg.line([left, bottom], [right, bottom], Paint::Faint, 1.0);
        let mut free_from = f64::NEG_INFINITY;
        for (number, text) in ticks {
            let at = x.place(*number);
            svg.line([at, bottom], [at, bottom + 4.0], Paint::Faint, 1.0);
            let half = text_width(text, TEXT) / 2.0;
            // Where there is no room the sign alone has to do.
            if at - half > free_from {
                svg.text([at, bottom + 18.0], text, Anchor::Middle, Paint::Faint);
                free_from = at + half + 4.0;
            }
        }
        svg.text([f64::midpoint(left, right), bottom + BELOW - 4.0], x_label, Anchor::Middle, Paint::Ink);
        svg.upward_text([13.0, f64::midpoint(top, bottom)], y_label, Paint::Ink);
    }
}

/// Something that the legend explains.
pub(super) struct Entry {
    text: String,
    draw: Box<dyn Fn(&mut Svg, [f64; 2], &str)>,
}

impl Entry {
    /// `draw` draws how it looks: 26 pixels wide from a place on, with the text for a tip.
    pub(super) fn new(text: String, draw: impl Fn(&mut Svg, [f64; 2], &str) + 'static) -> Self {
        Self { text, draw: Box::new(draw) }
    }
}

/// What the lines are, in as many rows as it takes; gives where it ends.
pub(super) fn legend(entries: &[Entry], width: f64, top: f64, svg: &mut Svg) -> f64 {
    let (mut x, mut y) = (12.0, top);
    for Entry { text, draw } in entries {
        let parts = wrap(text, width - 62.0);
        let widest = parts.iter().map(|part| text_width(part, TEXT)).fold(0.0, f64::max);
        let wide = 34.0 + widest + 16.0;
        if x > 12.0 && x + wide > width {
            (x, y) = (12.0, y + LEGEND_LINE);
        }
        draw(svg, [x, y], text);
        for (number, part) in parts.iter().enumerate() {
            y += if number > 0 { LEGEND_LINE * 0.75 } else { 0.0 };
            svg.text([x + 33.0, y + 4.5], part, Anchor::Start, Paint::Ink);
        }
        x += wide;
    }
    y + LEGEND_LINE * 0.75
}
