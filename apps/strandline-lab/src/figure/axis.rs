//! Axes: the mapping of numbers to pixels, and the choice of tick marks.

use crate::plan::Scale;

/// A range of numbers mapped to a range of pixels.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    scale: Scale,
    /// The numbers at its ends.
    low: f64,
    high: f64,
    /// The pixel positions of the ends.
    from: f64,
    to: f64,
    /// The distance between two tick marks on a linear scale.
    step: f64,
}

/// Approximate number of ticks on an axis from zero.
pub(super) const TICKS: f64 = 5.0;

impl Stretch {
    /// Creates an axis that begins at zero, or at a power of ten, and ends at or above the largest of the
    /// numbers.
    #[must_use]
    pub fn above(numbers: &[f64], scale: Scale, from: f64, to: f64) -> Self {
        let most = numbers.iter().copied().fold(0.0, f64::max);
        let step = step(most);
        let (low, high) = match scale {
            Scale::Linear => (0.0, if most > 0.0 { ceil(most * 1.02, step) } else { 1.0 }),
            Scale::Log => {
                let least = numbers.iter().copied().filter(|n| *n > 0.0).fold(f64::INFINITY, f64::min);
                let least = if least.is_finite() { least } else { 1.0 };
                let low = 10_f64.powf(least.log10().floor());
                (low, 10_f64.powf(most.max(low * 10.0).log10().ceil()))
            }
        };
        Self { scale, low, high, from, to, step }
    }

    /// Creates an axis of whole numbers that begins at or below the smallest number and ends above the largest.
    #[must_use]
    pub fn of_whole(numbers: &[f64], from: f64, to: f64) -> Self {
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        let step = step(most - least).max(1.0);
        let low = (least / step).floor() * step;
        let high = ceil(most + (most - least) * 0.02, step).max(low + step);
        Self { scale: Scale::Linear, low, high, from, to, step }
    }

    /// Creates an axis that covers all the numbers, with a margin at both ends.
    #[must_use]
    pub fn around(numbers: &[f64], scale: Scale, from: f64, to: f64) -> Self {
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least <= most { (least, most) } else { (0.0, 1.0) };
        let (low, high) = match scale {
            Scale::Log if least > 0.0 => {
                let room = (most / least).max(1.5).powf(0.05);
                (least / room, most * room)
            }
            _ => {
                let room = if most > least { (most - least) * 0.05 } else { 1.0 };
                (least - room, most + room)
            }
        };
        let scale = if least > 0.0 { scale } else { Scale::Linear };
        Self { scale, low, high, from, to, step: step(high) }
    }

    /// Returns the pixel position of a number.
    #[must_use]
    pub fn place(&self, number: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (number - self.low) / (self.high - self.low),
            Scale::Log => (number.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    /// Returns the numbers of the tick marks.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let low = self.low.max(0.0);
                let count = ((self.high - low) / self.step).round() as u32;
                (0..=count).map(|n| low + f64::from(n) * self.step).collect()
            }
            Scale::Log => {
                let (first, last) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
                (first..=last).map(|power| 10_f64.powi(power)).collect()
            }
        }
    }
}

/// Returns 1, 2 or 5 times a power of ten, so that about `TICKS` steps reach the number.
pub(super) fn step(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let about = most / TICKS;
    let power = 10_f64.powf(about.log10().floor());
    let factor = match about / power {
        f if f < 1.5 => 1.0,
        f if f < 3.5 => 2.0,
        f if f < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}

fn ceil(number: f64, step: f64) -> f64 {
    (number / step).ceil() * step
}

/// Formats a number with three significant digits, and with separators from 10,000 on.
#[must_use]
pub fn show(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        return "0".to_owned();
    }
    if size >= 999.5 {
        return grouped(number.round());
    }
    let decimals = match size {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        s => (2.0 - s.log10().floor()).clamp(0.0, 9.0) as usize,
    };
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && digits.len() > 4 {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 { format!("-{text}") } else { text }
}
