//! The report, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use strandline_measure::Summary;

use super::{Args, Transport};
use crate::demo::published::Published;
use crate::kernel::Items;
use crate::report::thousands;

/// The measurements of one transport.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Ladder {
    pub(super) transport: Transport,
    /// The carrier of SCTP packets.
    pub(super) carrier: &'static str,
    /// Number of shards of the SCTP server.
    pub(super) shards: u16,
    pub(super) message_bytes: usize,
    pub(super) heartbeat_s: Option<f64>,
    /// Congestion control of the TCP connections, as the kernel reports it.
    pub(super) sender_tcp_congestion: Option<String>,
    pub(super) steps: Vec<Step>,
    pub(super) hold: Option<Hold>,
}

/// The measurements at one number of associations.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Step {
    /// Number of associations or connections held.
    pub(super) held: u64,
    /// Set-ups per second on the way to this number, many at a time; `None` if that many were held before.
    pub(super) grown: Option<f64>,
    /// With a rate: the requested rate and the one reached.
    pub(super) rate_asked: Option<f64>,
    pub(super) rate_reached: Option<f64>,
    pub(super) grown_times: Option<Summary>,
    /// With a rate: times of the first message of each association, and of set-up and message together.
    pub(super) grown_transactions: Option<Summary>,
    pub(super) grown_totals: Option<Summary>,
    /// Associations that answered a transaction, and how many a second did.
    pub(super) swept: u64,
    pub(super) sweep_rate: f64,
    pub(super) sweep_times: Option<Summary>,
    /// Time of one more set-up, one at a time.
    pub(super) setup: Summary,
    /// Time of a transaction, one at a time, each on an association chosen at random.
    pub(super) transaction: Summary,
    /// Processor time of a set-up, a transaction on it and its end.
    pub(super) setup_cpu: Cost,
    pub(super) transaction_cpu: Cost,
    /// SCTP packets that either side has sent since the start and the other didn't receive.
    pub(super) packets_lost: u64,
    /// INITs since the start that exceeded the limit and were dropped unread; they were retransmitted.
    pub(super) inits_shed: u64,
    pub(super) memory: Memory,
}

/// Processor time of one operation, one at a time, as used by the two processes, wake-ups included.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cost {
    pub(super) server_us: f64,
    pub(super) client_us: f64,
}

/// Memory in bytes for each held association.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Memory {
    /// Total of the server's side: growth of its process, and of the kernel if it grew.
    pub(super) server: f64,
    /// Growth of the server process.
    pub(super) server_process: f64,
    pub(super) client_process: f64,
    /// Growth of the kernel's socket buffers and of the slab caches that belong to sockets, for one side. An
    /// association over UDP takes nothing there, and other programs open and close sockets, so it may be
    /// negative.
    pub(super) kernel: f64,
    /// Growth of other slab caches, for one side: other programs' use, and what can't be told apart from it.
    /// `None` without permission to read /proc/slabinfo; `kernel` then includes it.
    pub(super) others: Option<f64>,
    /// `kernel` by purpose; `None` without permission to read /proc/slabinfo.
    pub(super) kernel_items: Option<Items>,
    /// Reason why the items are missing, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel_items_missing: Option<String>,
    /// Maximum of TCP's socket buffers during the set-ups, for one side, and of UDP's, which SCTP shares.
    pub(super) socket_buffers_most: f64,
    pub(super) udp_buffers_most: f64,
    /// Slab caches that grew, whoever used them, for one side.
    pub(super) kernel_caches: BTreeMap<String, f64>,
    /// Memory that the server's stack itself accounts for, in total and by item.
    pub(super) stack: f64,
    pub(super) stack_items: BTreeMap<String, f64>,
}

/// The cost of holding the associations idle.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Hold {
    pub(super) seconds: f64,
    pub(super) heartbeat_s: Option<f64>,
    /// Processor time per second.
    pub(super) server_cpu_share: f64,
    pub(super) client_cpu_share: f64,
    /// Heartbeats per second of both sides together; HEARTBEAT and its HEARTBEAT ACK count as one.
    pub(super) heartbeats_per_s: f64,
    pub(super) packets_sent: u64,
    pub(super) packets_received: u64,
    pub(super) timed_out: u64,
    /// Number that answered a transaction afterwards.
    pub(super) answered_afterwards: u64,
}

impl Ladder {
    pub(super) fn new(transport: Transport, args: &Args) -> Self {
        let carrier = match (transport, args.raw) {
            (Transport::Tcp, _) => "kernel",
            (_, true) => "raw IP",
            (_, false) => "UDP",
        };
        Self {
            transport,
            carrier,
            message_bytes: args.size,
            shards: args.shards,
            heartbeat_s: (transport.is_sctp() && args.heartbeat > 0.0).then_some(args.heartbeat),
            sender_tcp_congestion: None,
            steps: Vec::new(),
            hold: None,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let what = match self.transport {
            Transport::Sctp => "SCTP, one-to-many server",
            Transport::SctpOne => "SCTP, one-to-one server",
            Transport::Tcp => "TCP",
        };
        let heartbeats = match self.heartbeat_s {
            Some(seconds) => format!(", heartbeats every {seconds} s"),
            None if self.transport.is_sctp() => ", no heartbeats".to_owned(),
            None => String::new(),
        };
        writeln!(out, "\n{what} ({}){heartbeats}; messages of {} bytes", self.carrier, self.message_bytes)?;
        writeln!(
            out,
            "{:>10} |{:>9}{:>9}{:>9}{:>10}{:>10} |{:>9}{:>9}{:>9} |{:>8}{:>8}{:>8}{:>8}{:>8}",
            "", "set-up", "", "", "", "", "trans-", "action", "", "memory", "of", "one", "", ""
        )?;
        writeln!(
            out,
            "{:>10} |{:>9}{:>9}{:>9}{:>10}{:>10} |{:>9}{:>9}{:>9} |{:>8}{:>8}{:>8}{:>8}{:>8}",
            "held",
            "p50 us",
            "p99 us",
            "x first",
            "each s",
            "max ms",
            "p50 us",
            "x first",
            "each s",
            "server",
            "kernel",
            "others",
            "itself",
            "client"
        )?;
        let first = self.steps.first();
        for step in &self.steps {
            let ratio = |of: fn(&Step) -> f64| first.map_or(1.0, |first| of(step) / of(first));
            writeln!(
                out,
                "{:>10} |{:>9.1}{:>9.1}{:>9.2}{:>10}{:>10} |{:>9.1}{:>9.2}{:>9.0} |{:>8.0}{:>8.0}{:>8}{:>8.0}{:>8.0}",
                thousands(step.held),
                step.setup.p50_ms * 1e3,
                step.setup.p99_ms * 1e3,
                ratio(|step| step.setup.p50_ms),
                step.grown.map_or_else(String::new, |rate| format!("{rate:.0}")),
                step.grown_times.as_ref().map_or_else(String::new, |times| format!("{:.1}", times.max_ms)),
                step.transaction.p50_ms * 1e3,
                ratio(|step| step.transaction.p50_ms),
                step.sweep_rate,
                step.memory.server_process,
                step.memory.kernel,
                step.memory.others.map_or_else(|| "?".to_owned(), |others| format!("{others:.0}")),
                step.memory.stack,
                step.memory.client_process,
            )?;
        }
        if let Some(shed) = self.steps.last().map(|step| step.inits_shed).filter(|shed| *shed > 0) {
            writeln!(
                out,
                "{} INITs exceeded the limit, were dropped unread and retransmitted",
                thousands(shed)
            )?;
        }
        match &self.hold {
            Some(hold) => hold.print(out),
            None => Ok(()),
        }
    }
}

impl Hold {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        write!(
            out,
            "held for {:.0} s: server {:.1} % of a core, client {:.1} %",
            self.seconds,
            self.server_cpu_share * 100.0,
            self.client_cpu_share * 100.0
        )?;
        if self.heartbeat_s.is_some() {
            write!(
                out,
                "; {:.0} heartbeats/s, {} packets sent, {} received, {} associations timed out",
                self.heartbeats_per_s,
                thousands(self.packets_sent),
                thousands(self.packets_received),
                self.timed_out
            )?;
        }
        writeln!(out, "; {} answered afterwards", thousands(self.answered_afterwards))
    }
}

/// Prints the tables and their summary.
pub(super) fn print(ladders: &[Ladder], published: &Published, out: &mut impl Write) -> io::Result<()> {
    for ladder in ladders {
        ladder.print(out)?;
    }
    writeln!(
        out,
        "\nset-up and transaction: one at a time on the otherwise idle machine; each s: many in parallel, with the\n\
         slowest set-up among them (max). Memory in bytes on one side: growth of the server process, of the kernel's\n\
         sockets, of its other slab caches (system-wide; not in any sum), the stack's own account, growth of the client\n\
         process."
    )?;
    let last = |wanted: Transport| {
        ladders.iter().find(|ladder| ladder.transport == wanted).and_then(|ladder| ladder.steps.last())
    };
    let steps = || ladders.iter().flat_map(|ladder| &ladder.steps);
    if let Some(why) = steps().find_map(|step| step.memory.kernel_items_missing.as_ref()) {
        writeln!(out, "kernel memory includes all slab caches, not only sockets: {why}")?;
    }
    print_beside_tcp(ladders, out)?;
    if let (Some(sctp), Some(tcp)) = (last(Transport::Sctp), last(Transport::Tcp)) {
        writeln!(
            out,
            "memory, SCTP association / TCP connection: {:.0} / {:.0} bytes = {:.2}; TCP's {:.0} in the kernel, {:.0} in the\n\
             server's process; SCTP's {:.0} and {:.0}",
            sctp.memory.server,
            tcp.memory.server,
            sctp.memory.server / tcp.memory.server.max(1.0),
            tcp.memory.kernel,
            tcp.memory.server_process,
            sctp.memory.kernel,
            sctp.memory.server_process
        )?;
    }
    writeln!(
        out,
        "published 2008 (kernel SCTP, Pentium IV, 0.1 ms round trip): set-up {:.0} us at any number (figure 8);\n\
         {:.0} bytes an association, {:.0} a TCP connection (table 4)",
        published.figure8.setup_ms * 1e3,
        published.table4.one_to_many.memory_kb * 1024.0,
        published.table4.tcp.memory_kb * 1024.0
    )
}

/// Prints SCTP and TCP in one table, for the numbers at which both were measured.
fn print_beside_tcp(ladders: &[Ladder], out: &mut impl Write) -> io::Result<()> {
    let steps_of = |wanted: Transport| {
        ladders.iter().find(|ladder| ladder.transport == wanted).map(|ladder| &ladder.steps)
    };
    let (Some(sctp), Some(tcp)) = (steps_of(Transport::Sctp), steps_of(Transport::Tcp)) else {
        return Ok(());
    };
    let both =
        sctp.iter().filter_map(|ours| Some((ours, tcp.iter().find(|theirs| theirs.held == ours.held)?)));
    writeln!(
        out,
        "\n{:>10} |{:^24} |{:^24} |{:^18} |{:^18}\n{:>10} |{:>8}{:>8}{:>8} |{:>8}{:>8}{:>8} |{:>9}{:>9} |{:>9}{:>9}",
        "",
        "set-up, p50 us",
        "transaction, p50 us",
        "set-ups each s",
        "memory of one side",
        "held",
        "SCTP",
        "TCP",
        "ratio",
        "SCTP",
        "TCP",
        "ratio",
        "SCTP",
        "TCP",
        "SCTP",
        "TCP"
    )?;
    for (ours, theirs) in both {
        let rate = |step: &Step| step.grown.map_or_else(String::new, |rate| format!("{rate:.0}"));
        let (setups, transactions) =
            ((ours.setup.p50_ms, theirs.setup.p50_ms), (ours.transaction.p50_ms, theirs.transaction.p50_ms));
        writeln!(
            out,
            "{:>10} |{:>8.1}{:>8.1}{:>8.2} |{:>8.1}{:>8.1}{:>8.2} |{:>9}{:>9} |{:>9.0}{:>9.0}",
            thousands(ours.held),
            setups.0 * 1e3,
            setups.1 * 1e3,
            setups.0 / setups.1,
            transactions.0 * 1e3,
            transactions.1 * 1e3,
            transactions.0 / transactions.1,
            rate(ours),
            rate(theirs),
            ours.memory.server,
            theirs.memory.server
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
