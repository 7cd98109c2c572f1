//! Progress and estimated remaining time.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::clock;
use indicatif::{ProgressBar, ProgressStyle};
use strandline_output::errln;

/// A progress bar on a terminal; lines elsewhere.
#[derive(Debug)]
pub struct Progress {
    /// Estimated seconds of each run.
    takes: Vec<f64>,
    began: Instant,
    bar: Option<ProgressBar>,
    shown: String,
}

impl Progress {
    /// Starts with the estimated seconds of each run; some runs were done before.
    #[must_use]
    pub fn new(takes: Vec<f64>, done_before: usize) -> Self {
        let count = takes.len();
        let before = if done_before > 0 { format!(" ({done_before} done before)") } else { String::new() };
        let seconds: f64 = takes.iter().sum();
        errln!("lab: {count} runs{before}, about {}", show_time(seconds));
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(count as u64);
            let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { takes, began: clock::now(), bar, shown: String::new() }
    }

    /// Reports the start of a run.
    pub fn begin(&mut self, number: usize, what: &str) {
        let left = show_time(self.left_seconds(number));
        self.shown = format!("{what}, {left} left");
        match &self.bar {
            Some(bar) => bar.set_message(self.shown.clone()),
            None => errln!("lab: {}/{} {}", number + 1, self.takes.len(), self.shown),
        }
    }

    /// Reports the end of a run.
    pub fn finish(&mut self, number: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(number as u64 + 1);
        }
    }

    /// Prints a message that stays on the screen.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("lab: {text}")),
            None => errln!("lab: {text}"),
        }
    }

    /// Reports the end of all runs.
    pub fn end(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        errln!("lab: {text} ({})", show_time(self.began.elapsed().as_secs_f64()));
    }

    /// Estimates the remaining seconds: the estimates of the remaining runs, corrected by the error of the
    /// estimates so far.
    fn left_seconds(&self, done: usize) -> f64 {
        let sum = |takes: &[f64]| takes.iter().sum::<f64>();
        let (before, after) = self.takes.split_at_checked(done).unwrap_or((&self.takes, &[]));
        left(sum(before), sum(after), self.began.elapsed().as_secs_f64())
    }
}

/// Returns the remaining seconds, from the estimates of done and remaining runs and the time that the done ones
/// took.
pub(super) fn left(thought_done: f64, thought_left: f64, took: f64) -> f64 {
    let factor = if thought_done > 0.0 { took / thought_done } else { 1.0 };
    thought_left * factor
}

/// Formats a duration: `45 s`, `12 min`, `1 h 05 min`.
#[must_use]
pub fn show_time(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..90 => format!("{seconds} s"),
        90..3570 => format!("{} min", (seconds + 30) / 60),
        _ => {
            let minutes = (seconds + 30) / 60;
            format!("{} h {:02} min", minutes / 60, minutes % 60)
        }
    }
}
