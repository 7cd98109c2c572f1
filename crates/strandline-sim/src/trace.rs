//! The record of a run: a hash of everything, the last entries to read, and a capture for Wireshark.

use core::time::Duration;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use strandline_proto::time::Time;
use strandline_wire::pcapng::{PcapngWriter, Record};
use strandline_wire::print;

use crate::network::Carried;

/// Formats a datagram on one line: addresses, and the packet in the format of `strandline-wire`'s printer.
#[must_use]
pub fn print_packet(datagram: &Carried) -> String {
    format!("{} > {} {}", datagram.source, datagram.destination, print::line(&datagram.bytes))
}

#[derive(Debug, Clone)]
enum Entry {
    Packet { at: Time, datagram: Carried, fate: &'static str },
    Note { at: Time, text: String },
}

impl Entry {
    fn line(&self) -> String {
        match self {
            Self::Packet { at, datagram, fate } => format!(
                "{at:?} {}{}{fate}",
                print_packet(datagram),
                if fate.is_empty() { "" } else { " -- " }
            ),
            Self::Note { at, text } => format!("{at:?} -- {text}"),
        }
    }
}

/// The record of a run.
#[derive(Debug)]
pub struct Trace {
    hasher: DefaultHasher,
    packets: u64,
    keep: usize,
    entries: VecDeque<Entry>,
}

impl Trace {
    /// Creates a record that keeps the last `keep` entries, besides the hash of all.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Self { hasher: DefaultHasher::new(), packets: 0, keep, entries: VecDeque::new() }
    }

    /// Records a transmitted datagram. `fate` is what became of it, if it was not simply delivered.
    pub fn packet(&mut self, at: Time, datagram: &Carried, fate: &'static str) {
        self.packets += 1;
        (at, datagram.source, datagram.destination, fate).hash(&mut self.hasher);
        self.hasher.write(&datagram.bytes);
        self.keep_entry(|| Entry::Packet { at, datagram: datagram.clone(), fate });
    }

    /// Records another event. `what` is always hashed; `text` is called only if the entry is kept.
    pub fn note(&mut self, at: Time, what: impl Hash, text: impl FnOnce() -> String) {
        at.hash(&mut self.hasher);
        what.hash(&mut self.hasher);
        self.keep_entry(|| Entry::Note { at, text: text() });
    }

    fn keep_entry(&mut self, entry: impl FnOnce() -> Entry) {
        if self.keep == 0 {
            return;
        }
        if self.entries.len() == self.keep {
            self.entries.pop_front();
        }
        self.entries.push_back(entry());
    }

    /// Returns the number of packets transmitted so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the hash of everything so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Writes the kept packets as a capture for Wireshark.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_pcapng(&self, out: impl Write) -> io::Result<()> {
        let mut capture = PcapngWriter::new(out)?;
        for entry in &self.entries {
            if let Entry::Packet { at, datagram, fate } = entry {
                capture.write(&Record {
                    timestamp: Duration::from_nanos(at.as_nanos()),
                    source: datagram.source,
                    destination: datagram.destination,
                    packet: &datagram.bytes,
                    comment: fate,
                })?;
            }
        }
        capture.flush()
    }

    /// Returns the kept entries, oldest first, one line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.entries.iter().map(Entry::line).collect()
    }
}
