//! The report, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use strandline::MemoryReport;

/// All measurements, in bytes.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    /// Number of associations that share the tables.
    pub(super) count: u32,
    pub(super) one_to_many: Account,
    pub(super) one_to_one: Account,
    pub(super) gaps: Vec<Gap>,
}

/// The memory of one association.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Account {
    /// Bytes by part of the stack: association, paths, inbound, outbound, endpoint, socket.
    pub(super) parts: BTreeMap<&'static str, usize>,
    /// Bytes by item of each part.
    pub(super) items: Vec<(&'static str, usize)>,
    /// Bytes in the engine: association, paths, inbound, outbound, set-up, and the share of the endpoint's
    /// tables.
    pub(super) engine: usize,
    /// Bytes in the socket layer.
    pub(super) socket: usize,
    pub(super) total: usize,
}

impl Account {
    pub(super) fn new(report: &MemoryReport) -> Self {
        let mut parts = BTreeMap::new();
        for (name, bytes) in &report.items {
            let part = name.split_once(':').map_or(*name, |(part, _)| part);
            *parts.entry(part).or_insert(0) += *bytes;
        }
        let total = report.total();
        let socket = parts.get("socket").copied().unwrap_or(0);
        Self { parts, items: report.items.clone(), engine: total - socket, socket, total }
    }

    fn item(&self, begins: &str) -> usize {
        self.items.iter().filter(|(name, _)| name.starts_with(begins)).map(|(_, bytes)| bytes).sum()
    }
}

/// The memory of the receiving association while a segment is missing.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Gap {
    /// Number of segments received beyond the missing one.
    pub(super) segments: u16,
    /// Bytes of the record of received TSNs.
    pub(super) map: usize,
    /// Bytes of waiting user data and their records.
    pub(super) waiting: usize,
    /// Bytes of the whole association, the socket's part included.
    pub(super) total: usize,
}

impl Gap {
    pub(super) fn new(segments: u16, account: &Account) -> Self {
        Self {
            segments,
            map: account.item("inbound: gap map"),
            waiting: account.item("inbound: records") + account.item("inbound: user data"),
            total: account.total,
        }
    }
}

impl Report {
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "Idle association, one of {}, server side; bytes", self.count)?;
        writeln!(out, "{:<56}{:>13}{:>13}", "", "one-to-many", "one-to-one")?;
        for ((name, many), (_, one)) in self.one_to_many.items.iter().zip(&self.one_to_one.items) {
            writeln!(out, "{name:<56}{many:>13}{one:>13}")?;
        }
        writeln!(out, "{:<56}{:>13}{:>13}", "total", self.one_to_many.total, self.one_to_one.total)?;
        writeln!(out, "\nWhile one segment is missing, one-to-many; bytes")?;
        writeln!(out, "{:>20}{:>12}{:>12}{:>12}", "segments beyond", "gap map", "data held", "total")?;
        for gap in &self.gaps {
            writeln!(out, "{:>20}{:>12}{:>12}{:>12}", gap.segments, gap.map, gap.waiting, gap.total)?;
        }
        Ok(())
    }
}
