//! The report as text, in httperf's form.

use std::fmt::{self, Display, Formatter};

use strandline_measure::Distribution;

use super::report::{Report, Sessions};
use super::samples::Rate;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let connections = &self.connections;
        writeln!(
            f,
            "Total: connections {} requests {} replies {} test-duration {:.3} s\n",
            connections.attempted, self.requests, self.replies, self.seconds
        )?;
        writeln!(
            f,
            "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
            connections.rate_per_s,
            self.millis_each(connections.attempted),
            connections.concurrent_max
        )?;
        self.connection_times(f)?;
        writeln!(
            f,
            "Request rate: {:.1} req/s ({:.1} ms/req)",
            self.request_rate_per_s,
            self.millis_each(self.requests)
        )?;
        writeln!(f, "Request size [B]: {:.1}\n", each(self.bytes.bytes_sent, self.requests))?;
        self.replies(f)?;
        if let Some(sessions) = &self.sessions {
            write_sessions(f, sessions)?;
        }
        self.latencies(f)?;
        self.costs(f)
    }
}

impl Report {
    fn millis_each(&self, number: u64) -> f64 {
        if number == 0 { 0.0 } else { self.seconds * 1e3 / number as f64 }
    }

    fn connection_times(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(times) = &self.times.connection_ms {
            let Distribution { min, mean, max, p50, stddev, .. } = times;
            writeln!(
                f,
                "Connection time [ms]: min {min:.1} avg {mean:.1} max {max:.1} median {p50:.1} stddev {stddev:.1}"
            )?;
        }
        if let Some(times) = &self.times.connect_ms {
            writeln!(f, "Connection time [ms]: connect {:.1} max {:.1}", times.mean, times.max)?;
        }
        let length = self.connections.replies_each.unwrap_or(0.0);
        writeln!(f, "Connection length [replies/conn]: {length:.3}\n")
    }

    fn replies(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Reply rate [replies/s]: {}, {:.1} overall",
            rate(&self.reply_rate),
            self.reply_rate.overall
        )?;
        let mean = |times: &Option<Distribution>| times.as_ref().map_or(0.0, |times| times.mean);
        writeln!(
            f,
            "Reply time [ms]: response {:.1} transfer {:.1}",
            mean(&self.times.response_ms),
            mean(&self.times.transfer_ms)
        )?;
        let bytes = &self.bytes;
        writeln!(
            f,
            "Reply size [B]: header {:.1} content {:.1} (total {:.1})",
            each(bytes.header_bytes_received, self.replies),
            each(bytes.content_bytes_received, self.replies),
            each(bytes.bytes_received, self.replies)
        )?;
        write!(f, "Reply status:")?;
        for (class, count) in &self.status {
            write!(f, " {class}={count}")?;
        }
        writeln!(f, "\n")
    }

    fn latencies(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(times) = &self.times.latency_ms else { return Ok(()) };
        let Distribution { min, mean, p50, p90, p99, p999, max, .. } = times;
        writeln!(
            f,
            "Latency since due [ms]: min {min:.2} avg {mean:.2} p50 {p50:.2} p90 {p90:.2} p99 {p99:.2} \
             p99.9 {p999:.2} max {max:.2}"
        )?;
        match self.failed_requests {
            0 => writeln!(f),
            failed => {
                writeln!(f, "Latency is that of replies: it leaves out {failed} requests that failed\n")
            }
        }
    }

    fn costs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let cpu = &self.cpu;
        let share = |seconds: f64| if self.seconds > 0.0 { seconds / self.seconds * 100.0 } else { 0.0 };
        writeln!(
            f,
            "CPU time [s]: user {:.2} system {:.2} (user {:.1}% system {:.1}% total {:.1}%)",
            cpu.cpu_user_seconds,
            cpu.cpu_system_seconds,
            share(cpu.cpu_user_seconds),
            share(cpu.cpu_system_seconds),
            share(cpu.cpu_seconds)
        )?;
        let kbytes = self.net_io_kbytes_per_s;
        writeln!(f, "Net I/O: {kbytes:.1} KB/s ({:.1}*10^6 bps)\n", kbytes * 1024.0 * 8.0 / 1e6)?;
        let [client, socket, refused, reset, descriptors, addresses, table, other] = self.errors.0;
        writeln!(
            f,
            "Errors: total {} client-timo {client} socket-timo {socket} connrefused {refused} connreset {reset}",
            self.errors_total
        )?;
        write!(f, "Errors: fd-unavail {descriptors} addrunavail {addresses} ftab-full {table} other {other}")
    }
}

fn write_sessions(f: &mut Formatter<'_>, sessions: &Sessions) -> fmt::Result {
    writeln!(
        f,
        "Session rate [sess/s]: {}, {:.2} overall ({}/{})",
        rate(&sessions.rate),
        sessions.rate.overall,
        sessions.completed,
        sessions.completed + sessions.failed
    )?;
    writeln!(f, "Session: avg {:.2} connections/session", sessions.connections_each.unwrap_or(0.0))?;
    let times = [("lifetime", &sessions.lifetime_ms), ("failtime", &sessions.failtime_ms)];
    for (name, times) in times.iter().filter_map(|(name, times)| Some((name, times.as_ref()?))) {
        writeln!(
            f,
            "Session {name} [ms]: avg {:.1} median {:.1} max {:.1}",
            times.mean, times.p50, times.max
        )?;
    }
    let shown: Vec<String> = sessions
        .lengths
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(replies, count)| format!("{count} of {replies}"))
        .collect();
    writeln!(f, "Session length [replies]: {}\n", shown.join(", "))
}

fn rate(rate: &Rate) -> String {
    let figure = |figure: Option<f64>| figure.unwrap_or(0.0);
    format!(
        "min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)",
        figure(rate.min),
        figure(rate.avg),
        figure(rate.max),
        figure(rate.stddev),
        rate.samples
    )
}

fn each(bytes: u64, number: u64) -> f64 {
    if number == 0 { 0.0 } else { bytes as f64 / number as f64 }
}
