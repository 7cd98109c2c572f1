//! Figures: what is to be drawn, apart from any plan, and how it is drawn as SVG and PNG.

mod axis;
mod bars;
mod field;
mod lines;
pub mod paint;
mod png;
mod svg;
#[cfg(test)]
mod tests;
mod timeline;

use crate::plan::{Scale, Transport};

pub use axis::show;
pub use paint::Theme;
pub use png::png;
pub use svg::escape;
pub use timeline::{Layer, Look, Timeline};

/// What an axis shows.
#[derive(Debug, Clone)]
pub struct Axis {
    /// With its unit.
    pub label: String,
    /// How it runs.
    pub scale: Scale,
}

/// A point: the median of some measurements, and their range.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Where on the x axis.
    pub x: f64,
    /// What stands there.
    pub at: String,
    /// The median, or the only number.
    pub y: f64,
    /// The least and the most, if it is a median.
    pub range: Option<(f64, f64)>,
    /// How many measurements.
    pub count: usize,
}

/// Something that is compared, measured or published.
#[derive(Debug, Clone)]
pub struct Line {
    /// What the legend says.
    pub title: String,
    /// Gives it its colour.
    pub transport: Transport,
    /// Which of the lines with this transport it is.
    pub shade: usize,
    /// Whether a paper printed it.
    pub published: bool,
    /// Its points, in order.
    pub marks: Vec<Mark>,
    /// Numbers of runs that don't count.
    pub invalid: Vec<Mark>,
    /// Where runs were tried and none gave a number: their place on the x axis and what stands there.
    pub failed: Vec<(f64, String)>,
}

/// A figure.
#[derive(Debug, Clone)]
pub struct Chart {
    /// For those who can't see it.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// Unit of y, for numbers that stand alone.
    pub unit: String,
    /// What is drawn.
    pub lines: Vec<Line>,
    /// What stands at the x axis, where it is not the numbers: their place and text.
    pub ticks: Vec<(f64, String)>,
    /// Lines or bars.
    pub bars: bool,
}

impl Chart {
    /// As SVG, so many pixels wide.
    #[must_use]
    pub fn svg(&self, width: f64, theme: Theme) -> String {
        if self.bars { bars::draw(self, width, theme) } else { lines::draw(self, width, theme) }
    }

    /// Whether there is nothing to be seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
    }
}

impl Line {
    /// Whether nothing is known of it, not even that it failed.
    fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.is_sound()
    }

    /// Whether every run counts.
    fn is_sound(&self) -> bool {
        self.invalid.is_empty() && self.failed.is_empty()
    }

    /// What a point says when it is pointed at.
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
