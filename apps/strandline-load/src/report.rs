//! The report of a load, as text and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use strandline_measure::{Summary, Times};
use strandline_output::outln;

use crate::job::{Outcome, Style, Transport};
use crate::served::Served;

/// The outcome of a load, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoadReport {
    pub(crate) transport: Transport,
    pub(crate) style: Style,
    pub(crate) encapsulation: Option<&'static str>,
    pub(crate) message_bytes: usize,
    pub(crate) rate_asked: f64,
    pub(crate) rate_reached: f64,
    pub(crate) clients: usize,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) held: u64,
    pub(crate) setup: Option<Summary>,
    pub(crate) transaction: Option<Summary>,
    pub(crate) total: Option<Summary>,
    pub(crate) total_from_schedule: Option<Summary>,
    /// Congestion control of the TCP connections, as the kernel reports it.
    pub(crate) sender_tcp_congestion: Option<String>,
    /// With `--serve`: the resources that the servers used.
    pub(crate) server: Option<Served>,
    /// With `--trace`: median milliseconds from the previous packet to each packet of a set-up and its
    /// transaction.
    pub(crate) steps_ms: Option<BTreeMap<String, f64>>,
}

impl LoadReport {
    pub(crate) fn new(
        (transport, style, encapsulation): (Transport, Style, Option<&'static str>),
        message_bytes: usize,
        rate_asked: f64,
        clients: usize,
        outcome: &Outcome,
    ) -> Self {
        let done = outcome.progress.completed + outcome.progress.failed;
        Self {
            transport,
            style,
            encapsulation,
            message_bytes,
            rate_asked,
            rate_reached: done as f64 / outcome.elapsed_s.max(1e-9),
            clients,
            completed: outcome.progress.completed,
            failed: outcome.progress.failed,
            errors: outcome.errors.clone(),
            held: outcome.held,
            setup: outcome.setup.summary(),
            transaction: outcome.transaction.summary(),
            total: outcome.total.summary(),
            total_from_schedule: outcome.scheduled_total.summary(),
            sender_tcp_congestion: outcome.tcp_congestion.clone(),
            server: None,
            steps_ms: None,
        }
    }

    /// Prints the report as text.
    pub(crate) fn print(&self, outcome: &Outcome) {
        let carrier = self.encapsulation.map(|carrier| format!(" {carrier}")).unwrap_or_default();
        outln!(
            "{}{carrier}: {} operations of {} bytes, {:.0} of {:.0} per second, {} client process{}",
            self.transport,
            self.completed,
            self.message_bytes,
            self.rate_reached,
            self.rate_asked,
            self.clients,
            if self.clients == 1 { "" } else { "es" },
        );
        if self.held > 0 {
            outln!("{} held at the end", self.held);
        }
        outln!(
            "\n{:<28}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "milliseconds",
            "mean",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "max"
        );
        print_times("set-up", &outcome.setup);
        print_times("transaction", &outcome.transaction);
        print_times("total", &outcome.total);
        print_times("total since due time", &outcome.scheduled_total);
        for (step, median) in self.steps_ms.iter().flatten() {
            outln!("{step:<28}{:>9}{median:>9.3}  since the previous packet", "");
        }
        if let Some(server) = &self.server {
            server.print();
        }
        for (error, count) in &self.errors {
            outln!("{count} failed: {error}");
        }
    }
}

fn print_times(name: &str, times: &Times) {
    let Some(s) = times.summary() else { return };
    outln!(
        "{name:<28}{:>9.3}{:>9.3}{:>9.3}{:>9.3}{:>9.3}{:>9.3}",
        s.mean_ms,
        s.p50_ms,
        s.p90_ms,
        s.p99_ms,
        s.p999_ms,
        s.max_ms
    );
}

/// Returns a bar of text, `width` characters long for `full`.
pub(crate) fn bar(value: f64, full: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths =
        (value / full.max(f64::MIN_POSITIVE) * width as f64 * 8.0).clamp(0.0, width as f64 * 8.0) as usize;
    let mut text = "█".repeat(eighths / 8);
    match EIGHTHS.get(eighths % 8) {
        Some(part) if !eighths.is_multiple_of(8) => text.push(*part),
        _ => {}
    }
    text
}

/// Formats a number with thousands separators.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
