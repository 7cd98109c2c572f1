//! The text output: a live line for each interval, and the table at the end.

use std::time::Duration;

use strandline_output::errln;

use super::args::Transport;
use super::path_events::PathEvent;
use super::protocol::{Figures, FlowReport, Length, Passed, Role, SideReport};
use super::report::{Test, Way, seconds_per_gb};
use super::session::Outcome;
use super::tally::Count;
use super::track::Interval;
use crate::report::thousands;

/// Maximum number of path changes that are printed.
const PATH_LINES_MAX: usize = 20;

/// The live lines of one test, on standard error.
#[derive(Debug)]
pub(crate) struct Live {
    test: Test,
    prefix: String,
    header: bool,
    /// Seconds of a line; a remainder at the end appears only in the table.
    every: f64,
}

impl Live {
    /// Creates the live lines; `prefix` distinguishes concurrent tests.
    pub(crate) fn new(test: Test, prefix: String, every: Duration) -> Self {
        Self { test, prefix, header: false, every: every.as_secs_f64() }
    }

    pub(crate) fn print(&mut self, interval: &Interval) {
        if interval.end - interval.start < self.every / 10.0 {
            return;
        }
        if !self.header {
            self.header = true;
            errln!(
                "{}{:>15}  {:>11} {:>13} {:>12} {:>7} {:>9} {:>9} {:>9}",
                self.prefix,
                "seconds",
                "transfer",
                "bit rate",
                "messages/s",
                "retrans",
                "cwnd",
                "RTT",
                "queue"
            );
        }
        for way in self.test.ways() {
            errln!("{}{}", self.prefix, self.line(interval, way));
        }
    }

    fn line(&self, interval: &Interval, way: Way) -> String {
        let sender = way.sender == self.test.role;
        let counts = interval.flows.iter().map(|flow| if sender { flow.sent } else { flow.received });
        let Count { bytes, messages } = counts.sum();
        let seconds = (interval.end - interval.start).max(1e-9);
        let figures = |of: fn(&Figures) -> Option<u64>| -> Option<u64> {
            interval.flows.iter().map(|flow| of(&flow.figures)).sum()
        };
        let rtt: Option<f64> = interval.flows.iter().map(|flow| flow.figures.rtt_us).sum();
        let rtt = rtt.filter(|_| sender).map(|sum| micros(sum / interval.flows.len().max(1) as f64));
        let again = figures(|figures| figures.retransmissions).filter(|_| sender);
        let cwnd = figures(|figures| figures.cwnd_bytes).filter(|_| sender);
        let queue = if sender {
            figures(|figures| figures.send_queue_bytes)
        } else {
            figures(|figures| figures.receive_queue_bytes)
        };
        let none = || "-".to_owned();
        format!(
            "{:>7.2}-{:<7.2}  {:>11} {:>13} {:>12} {:>7} {:>9} {:>9} {:>9}{}{}",
            interval.start,
            interval.end,
            amount(bytes as f64, "B"),
            amount(bytes as f64 * 8.0 / seconds, "bit/s"),
            if messages > 0 { thousands((messages as f64 / seconds) as u64) } else { none() },
            again.map_or_else(none, thousands),
            cwnd.map_or_else(none, |cwnd| amount(cwnd as f64, "B")),
            rtt.unwrap_or_else(none),
            queue.map_or_else(none, |queue| amount(queue as f64, "B")),
            if self.test.ways().len() == 1 {
                ""
            } else if sender {
                "  sent"
            } else {
                "  received"
            },
            if interval.omitted { "  (omitted)" } else { "" },
        )
    }
}

/// Returns the table at the end, for standard output.
pub(crate) fn summary(test: &Test, outcome: &Outcome) -> String {
    let mut lines = vec![String::new(), headline(test)];
    for way in test.ways() {
        lines.extend(rows(test, outcome, way));
    }
    if test.parameters.pauses {
        lines.extend(paths(outcome));
    }
    let (client, server) = (test.side(outcome, Role::Client), test.side(outcome, Role::Server));
    for (name, side) in [("client", client), ("server", server)] {
        lines.push(match side {
            Some(side) => processor(name, side),
            None => format!("CPU of the {name}: not reported"),
        });
        lines.extend(side.and_then(|side| flood(name, side)));
    }
    if outcome.interrupted {
        lines.push("The test was interrupted; these are the results so far.".to_owned());
    }
    lines.join("\n").trim_start().to_owned()
}

fn headline(test: &Test) -> String {
    let parameters = &test.parameters;
    let plural = |number: u16, one: &str| {
        if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
    };
    let size = thousands(parameters.message_bytes.into());
    let what = match (test.transport, test.encapsulation) {
        (Transport::Tcp, _) => {
            format!("TCP, {}, writes of {size} B", plural(parameters.flows, "connection"))
        }
        (Transport::Sctp, encapsulation) => format!(
            "SCTP {}, {}, {}{} messages of {size} B",
            if encapsulation == Some("raw") { "over raw IP" } else { "over UDP" },
            plural(parameters.flows, "association"),
            if parameters.streams > 1 { format!("{} streams, ", parameters.streams) } else { String::new() },
            if parameters.unordered { "unordered" } else { "ordered" },
        ),
    };
    let length = match parameters.length {
        Length::Seconds(seconds) => format!("{seconds} s"),
        Length::Bytes(bytes) => format!("{} B", thousands(bytes)),
    };
    format!("{what}, {length}")
}

fn rows(test: &Test, outcome: &Outcome, way: Way) -> Vec<String> {
    let mut rows = Vec::new();
    let name = |role| if role == Role::Client { "client" } else { "server" };
    let sender = test.side(outcome, way.sender);
    let receiver = test.side(outcome, way.receiver());
    let flows = usize::from(test.parameters.flows);
    if (2..=16).contains(&flows) {
        for number in 0..flows {
            let one = sender.and_then(|side| side.flows.get(number));
            rows.extend(one.map(|flow| row(&format!("{}. sent", number + 1), flow.sent)));
            let one = receiver.and_then(|side| side.flows.get(number));
            rows.extend(one.map(|flow| row(&format!("{}. received", number + 1), flow.received)));
        }
    }
    if let Some(side) = sender {
        let sent = total(side.flows.iter().map(|flow| flow.sent));
        rows.push(row(&format!("sent by the {}", name(way.sender)), sent));
    }
    if let Some(side) = receiver {
        let received = total(side.flows.iter().map(|flow| flow.received));
        rows.push(row(&format!("received by the {}", name(way.receiver())), received));
    }
    rows.extend(sender.map(|side| path(test.transport, &side.flows)));
    rows.extend(sender.and_then(|side| control(side, receiver)));
    rows.extend(receiver.filter(|_| test.parameters.pauses).and_then(longest_pause));
    rows
}

/// Returns the total; its time is that of the flow that took longest.
fn total(flows: impl Iterator<Item = Passed>) -> Passed {
    flows.fold(Passed::default(), |sum, next| Passed {
        seconds: sum.seconds.max(next.seconds),
        bytes: sum.bytes.saturating_add(next.bytes),
        messages: sum.messages.saturating_add(next.messages),
    })
}

fn row(name: &str, passed: Passed) -> String {
    let seconds = passed.seconds.max(1e-9);
    let messages = if passed.messages > 0 {
        format!("{} messages/s", thousands((passed.messages as f64 / seconds) as u64))
    } else {
        String::new()
    };
    format!(
        "{name:<22} {:>7.2} s {:>11} {:>13}  {messages}",
        passed.seconds,
        amount(passed.bytes as f64, "B"),
        amount(passed.bytes as f64 * 8.0 / seconds, "bit/s"),
    )
    .trim_end()
    .to_owned()
}

/// Returns a line about congestion control and ECN marks.
fn control(sender: &SideReport, receiver: Option<&SideReport>) -> Option<String> {
    let mut parts: Vec<String> =
        sender.congestion.iter().map(|name| format!("congestion control: {name}")).collect();
    let agreed = sender.flows.iter().map(|flow| flow.figures.ecn).reduce(|all, one| Some(all? && one?));
    let marks = |side: &SideReport, of: fn(&Figures) -> Option<u64>| {
        thousands(side.flows.iter().filter_map(|flow| of(&flow.figures)).fold(0, u64::saturating_add))
    };
    match agreed.flatten() {
        Some(true) => {
            let came = receiver.map(|side| format!("{} packets marked, ", marks(side, |f| f.marks_received)));
            let answered = marks(sender, |figures| figures.marks_answered);
            parts.push(format!("ECN: {}{answered} marks answered", came.unwrap_or_default()));
        }
        Some(false) => parts.push("no ECN".to_owned()),
        None => {}
    }
    (!parts.is_empty()).then(|| format!("  {}", parts.join("; ")))
}

/// Returns a line about the longest pause; none if all data came at once.
fn longest_pause(receiver: &SideReport) -> Option<String> {
    let longest = receiver.flows.iter().filter_map(|flow| flow.longest_pause).reduce(f64::max)?;
    Some(format!("  longest pause: {longest:.3} s"))
}

/// Returns a line for each path change.
fn paths(outcome: &Outcome) -> Vec<String> {
    let line = |event: &PathEvent| {
        let PathEvent { t, socket, peer, change } = event;
        format!("path to {peer} of association {socket}: {change} at {t:.3} s")
    };
    let mut lines: Vec<String> = outcome.path_changes.iter().take(PATH_LINES_MAX).map(line).collect();
    let left = outcome.path_changes.len() - lines.len();
    lines.extend((left > 0).then(|| format!("and {left} more path changes (see --json)")));
    lines
}

/// Returns a line about the state of the sender's transport.
fn path(transport: Transport, flows: &[FlowReport]) -> String {
    let sum = |of: fn(&Figures) -> Option<u64>| -> Option<u64> {
        flows.iter().filter_map(|flow| of(&flow.figures)).reduce(u64::saturating_add)
    };
    let unit = if transport == Transport::Tcp { "segments" } else { "chunks" };
    let mut parts = Vec::new();
    if let Some(again) = sum(|figures| figures.retransmissions) {
        let of = sum(|figures| figures.chunks_sent)
            .map_or_else(String::new, |all| format!(" of {}", thousands(all)));
        parts.push(format!("retransmitted: {}{of} {unit}", thousands(again)));
    }
    parts
        .extend(sum(|figures| figures.fast_recoveries).map(|n| format!("fast recoveries: {}", thousands(n))));
    parts.extend(sum(|figures| figures.timeouts).map(|n| format!("time-outs: {}", thousands(n))));
    let rtts: Vec<_> = flows.iter().filter_map(|flow| flow.rtt_us).collect();
    if !rtts.is_empty() {
        let min = rtts.iter().map(|rtt| rtt.min).fold(f64::INFINITY, f64::min);
        let max = rtts.iter().map(|rtt| rtt.max).fold(0.0, f64::max);
        let mean = rtts.iter().map(|rtt| rtt.mean).sum::<f64>() / rtts.len() as f64;
        parts.push(format!("RTT {} / {} / {} (min/mean/max)", micros(min), micros(mean), micros(max)));
    }
    if let Some(cwnd) = sum(|figures| figures.cwnd_bytes) {
        let most = flows.iter().filter_map(|flow| flow.cwnd_bytes_max).reduce(u64::saturating_add);
        let most = most.map_or_else(String::new, |most| format!(" (max {})", amount(most as f64, "B")));
        parts.push(format!("cwnd {}{most}", amount(cwnd as f64, "B")));
    }
    parts.extend(
        sum(|figures| figures.in_flight_bytes).map(|n| format!("in flight {}", amount(n as f64, "B"))),
    );
    let mtu = flows.iter().filter_map(|flow| flow.figures.path_mtu_bytes).min();
    parts.extend(mtu.map(|mtu| format!("path MTU {}", thousands(mtu))));
    format!("  {}", parts.join("; "))
}

fn processor(name: &str, side: &SideReport) -> String {
    let cpu = side.cpu;
    let wall = cpu.wall_seconds.max(1e-9);
    let percent = |seconds: f64| 100.0 * seconds / wall;
    let per_gb = seconds_per_gb(side).map_or_else(String::new, |value| format!(", {value:.3} s per GB"));
    format!(
        "CPU of the {name}: user {:.2} s ({:.1} %), system {:.2} s ({:.1} %), total {:.1} %{per_gb}",
        cpu.user_seconds,
        percent(cpu.user_seconds),
        cpu.system_seconds,
        percent(cpu.system_seconds),
        percent(cpu.user_seconds + cpu.system_seconds),
    )
}

/// Returns a line about a flood of INITs, if there was one.
fn flood(name: &str, side: &SideReport) -> Option<String> {
    let read = side.by_shard.iter().map(|shard| shard.inits).fold(0, u64::saturating_add);
    let shed = side.by_shard.iter().map(|shard| shard.inits_shed).fold(0, u64::saturating_add);
    let told = || {
        format!(
            "INITs at the {name}: {} answered, {} dropped unread by the rate limit",
            thousands(read),
            thousands(shed)
        )
    };
    (shed > 0).then(told)
}

/// Formats a number with its unit, in thousands, millions or more: 1.23 GB.
fn amount(value: f64, unit: &str) -> String {
    for (size, letter) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")] {
        // A value that would round to 1000 of the smaller unit is 1.00 of the larger one.
        if value >= size * 0.9995 {
            let value = value / size;
            let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
            return format!("{value:.digits$} {letter}{unit}");
        }
    }
    format!("{value:.0} {unit}")
}

fn micros(value: f64) -> String {
    if value < 999.5 { format!("{value:.0} us") } else { format!("{:.1} ms", value / 1000.0) }
}

#[cfg(test)]
mod tests;
