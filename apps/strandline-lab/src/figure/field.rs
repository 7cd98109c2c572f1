//! The plot area of line charts: its axes, and the legend below it.

use super::axis::{Stretch, show};
use super::paint::Paint;
use super::svg::{Anchor, Svg, TEXT, text_width, wrap};
use crate::plan::Scale;

/// Height of the plot area: factor of its width, and minimum in pixels.
const HEIGHT: (f64, f64) = (0.52, 240.0);
const MARGIN_RIGHT: f64 = 14.0;
const MARGIN_TOP: f64 = 10.0;
/// Distance from the plot area to the axis label.
const BELOW: f64 = 44.0;
const LEGEND_LINE: f64 = 22.0;

/// The position of the plot area and its axes.
pub(super) struct Field {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Stretch,
    pub(super) y: Stretch,
}

impl Field {
    /// Creates a plot area whose axes cover all these numbers.
    pub(super) fn new(width: f64, xs: (&[f64], Scale), (ys, y_scale): (&[f64], Scale)) -> Self {
        Self::with(width, xs, |from, to| Stretch::above(ys, y_scale, from, to))
    }

    /// Creates a plot area with a given vertical axis; `y` receives the pixel positions of its ends.
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

    /// Returns where the content below the plot area begins.
    pub(super) fn below(&self) -> f64 {
        self.bottom + BELOW + 16.0
    }

    /// Draws the axes with their labels; `ticks` are the marks of the x axis.
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
            // If there is no room for text, only the mark is drawn.
            if at - half > free_from {
                svg.text([at, bottom + 18.0], text, Anchor::Middle, Paint::Faint);
                free_from = at + half + 4.0;
            }
        }
        svg.text([f64::midpoint(left, right), bottom + BELOW - 4.0], x_label, Anchor::Middle, Paint::Ink);
        svg.upward_text([13.0, f64::midpoint(top, bottom)], y_label, Paint::Ink);
    }
}

/// An entry of the legend.
pub(super) struct Entry {
    text: String,
    draw: Box<dyn Fn(&mut Svg, [f64; 2], &str)>,
}

impl Entry {
    /// Creates an entry. `draw` draws its sample, 26 pixels wide, at a position, with the text as a tooltip.
    pub(super) fn new(text: String, draw: impl Fn(&mut Svg, [f64; 2], &str) + 'static) -> Self {
        Self { text, draw: Box::new(draw) }
    }
}

/// Draws the legend in as many rows as needed; returns where it ends.
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
