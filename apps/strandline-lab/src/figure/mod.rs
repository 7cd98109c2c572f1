//! Figures: data to be drawn, independent of plans, and their rendering as SVG and PNG.

mod axis;
mod bars;
mod field;
mod lines;
pub mod paint;
mod picture;
#[cfg(feature = "png")]
mod png;
mod svg;
#[cfg(test)]
mod tests;
mod timeline;

use crate::plan::{Scale, Transport};

pub use axis::show;
pub use paint::Theme;
pub use picture::{EXTENSION, picture};
#[cfg(feature = "png")]
pub use png::png;
pub use svg::escape;
pub use timeline::{Layer, Look, Timeline};

/// An axis of a figure.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The label, with its unit.
    pub label: String,
    /// The scale: linear or logarithmic.
    pub scale: Scale,
}

/// A point: the median of some measurements, and their range.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Position on the x axis.
    pub x: f64,
    /// Text at that position.
    pub at: String,
    /// The median, or the only number.
    pub y: f64,
    /// The minimum and maximum, if `y` is a median.
    pub range: Option<(f64, f64)>,
    /// Number of measurements.
    pub count: usize,
}

/// A measured or published series.
#[derive(Debug, Clone)]
pub struct Line {
    /// The text in the legend.
    pub title: String,
    /// The transport, which determines the colour.
    pub transport: Transport,
    /// The index among the lines with this transport.
    pub shade: usize,
    /// Whether a paper published it.
    pub published: bool,
    /// The points, in order.
    pub marks: Vec<Mark>,
    /// Numbers of invalid runs.
    pub invalid: Vec<Mark>,
    /// Points where all runs failed to give a number: position and text on the x axis.
    pub failed: Vec<(f64, String)>,
}

/// A figure.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Description for readers who can't see the figure.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Unit of y, for numbers without an axis.
    pub unit: String,
    /// The series to draw.
    pub lines: Vec<Line>,
    /// Tick marks of the x axis, if they are not its numbers: position and text.
    pub ticks: Vec<(f64, String)>,
    /// Whether bars are drawn instead of lines.
    pub bars: bool,
}

impl Chart {
    /// Renders the figure as SVG of this width in pixels.
    #[must_use]
    pub fn svg(&self, width: f64, theme: Theme) -> String {
        if self.bars { bars::draw(self, width, theme) } else { lines::draw(self, width, theme) }
    }

    /// Returns whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
    }
}

impl Line {
    /// Returns whether the series has no points and no failures.
    fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.is_sound()
    }

    /// Returns whether every run is valid.
    fn is_sound(&self) -> bool {
        self.invalid.is_empty() && self.failed.is_empty()
    }

    /// Returns the tooltip of a point.
    fn tip(&self, mark: &Mark, unit: &str) -> String {
        let Self { title, published, .. } = self;
        let at = if mark.at.is_empty() { String::new() } else { format!(" at {}", mark.at) };
        let y = show(mark.y);
        let range = match mark.range {
            Some((min, max)) if mark.count > 1 => {
                format!(" (median of {}, {} to {})", mark.count, show(min), show(max))
            }
            _ => String::new(),
        };
        let published = if *published { ", published" } else { "" };
        format!("{title}{published}{at}: {y} {unit}{range}")
    }
}
