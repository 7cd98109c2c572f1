//! Timelines: thousands of points over time, as steps, dots or markers.

use std::collections::HashSet;

use super::axis::Stretch;
use super::field::{Entry, Field, legend};
use super::paint::Paint;
use super::svg::Svg;
use super::{Theme, axis};
use crate::plan::{Scale, Transport};

/// Approximate number of ticks on the time axis.
const TICKS: u32 = 8;

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Steps: a value holds until the next point.
    Steps,
    /// A dot for each point.
    Dots,
    /// The marker with this number for each point.
    Signs(usize),
}

/// Points drawn in one colour and style.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The text in the legend.
    pub title: String,
    /// Its colour.
    pub colour: (Transport, usize),
    /// The style.
    pub look: Look,
    /// Seconds and value, ordered by time.
    pub points: Vec<(f64, f64)>,
}

/// A figure over time, which runs from left to right.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Description for readers who can't see the figure.
    pub title: String,
    /// Label of the vertical axis, with its unit.
    pub label: String,
    /// The vertical axis begins at zero; otherwise, for whole numbers, at the smallest value.
    pub from_zero: bool,
    /// The layers, from back to front.
    pub layers: Vec<Layer>,
}

impl Timeline {
    /// Returns whether there is nothing to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layers.iter().all(|layer| layer.points.is_empty())
    }

    /// Renders the figure as SVG of this width in pixels. Points that can't be told apart are drawn once.
    #[must_use]
    pub fn svg(&self, width: f64, theme: Theme) -> String {
        let mut svg = Svg::new(theme);
        let points = || self.layers.iter().flat_map(|layer| &layer.points);
        let (xs, ys): (Vec<f64>, Vec<f64>) = points().copied().unzip();
        let field = Field::with(width, (&xs, Scale::Linear), |from, to| match self.from_zero {
            true => Stretch::above(&ys, Scale::Linear, from, to),
            false => Stretch::of_whole(&ys, from, to),
        });
        field.draw_axes(("seconds", &self.label), &ticks(&xs), &mut svg);
        let seen = || self.layers.iter().filter(|layer| !layer.points.is_empty());
        seen().for_each(|layer| layer.draw(&field, &mut svg));
        let entries: Vec<Entry> = seen().map(Layer::entry).collect();
        let bottom = legend(&entries, width, field.below(), &mut svg);
        svg.finish(width, bottom, &self.title)
    }
}

impl Layer {
    fn paint(&self) -> Paint {
        Paint::Series(self.colour.0, self.colour.1)
    }

    fn draw(&self, field: &Field, svg: &mut Svg) {
        let places = self.points.iter().map(|(x, y)| [field.x.place(*x), field.y.place(*y)]);
        match self.look {
            Look::Steps => svg.path(&steps(places, field.right), self.paint(), false),
            Look::Dots => svg.dots(&apart(places, 1.0), self.paint()),
            Look::Signs(shape) => {
                for place in apart(places, 3.0) {
                    svg.sign(place, shape, self.paint(), false, &self.title);
                }
            }
        }
    }

    fn entry(&self) -> Entry {
        let (look, paint) = (self.look, self.paint());
        Entry::new(self.title.clone(), move |svg, [x, y], text| match look {
            Look::Steps => svg.path(&[[x, y], [x + 26.0, y]], paint, false),
            Look::Dots => svg.dots(&[[x + 6.0, y + 3.0], [x + 13.0, y], [x + 20.0, y - 3.0]], paint),
            Look::Signs(shape) => svg.sign([x + 13.0, y], shape, paint, false, text),
        })
    }
}

/// Returns round times from the first to the last.
fn ticks(xs: &[f64]) -> Vec<(f64, String)> {
    let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if least > most {
        return Vec::new();
    }
    let step = axis::step((most - least) * axis::TICKS / f64::from(TICKS));
    let first = (least / step).ceil();
    let all = (0..=4 * TICKS).map(|number| (first + f64::from(number)) * step);
    // As many decimals as are needed to tell neighbouring ticks apart.
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    all.take_while(|at| *at <= most).map(|at| (at, format!("{at:.decimals$}"))).collect()
}

/// Returns the points, at most one for each square of `pixels`.
fn apart(places: impl Iterator<Item = [f64; 2]>, pixels: f64) -> Vec<[f64; 2]> {
    let mut taken = HashSet::new();
    places.filter(|[x, y]| taken.insert(((x / pixels) as i64, (y / pixels) as i64))).collect()
}

/// Returns the corners of a step line. Of the points in one pixel column, only the minimum, maximum and last
/// are kept.
fn steps(places: impl Iterator<Item = [f64; 2]>, right: f64) -> Vec<[f64; 2]> {
    let mut corners: Vec<[f64; 2]> = Vec::new();
    let mut column: Option<(f64, [f64; 3])> = None;
    let mut close = |(x, [low, high, last]): (f64, [f64; 3])| {
        if let Some([_, before]) = corners.last().copied() {
            corners.push([x, before]);
        }
        if low < high {
            corners.extend([[x, low], [x, high]]);
        }
        corners.push([x, last]);
    };
    for [x, y] in places {
        match &mut column {
            Some((at, [low, high, last])) if x - *at < 0.5 => {
                (*low, *high, *last) = (low.min(y), high.max(y), y);
            }
            _ => {
                if let Some(full) = column.replace((x, [y; 3])) {
                    close(full);
                }
            }
        }
    }
    if let Some((x, values)) = column {
        close((x, values));
        close((right.max(x), [values[2]; 3]));
    }
    corners
}
