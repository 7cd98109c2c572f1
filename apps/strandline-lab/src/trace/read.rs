//! Parses traces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The longest trace, and its longest line.
const BYTES_MAX: u64 = 16 << 30;
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The version of the format that is read.
const FORMAT: u32 = 1;

/// The parts of a trace that are drawn.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) events: Vec<Event>,
    /// The number of the last line if it is incomplete.
    pub(super) cut: Option<usize>,
}

/// A line of a trace.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event {
    Start {
        format: u32,
    },
    Data {
        t: f64,
        port: u16,
        sent: bool,
        first: u32,
        last: u32,
        bytes: u64,
        #[serde(default)]
        again: Option<String>,
    },
    Sack {
        t: f64,
        port: u16,
        sent: bool,
        cumulative: u32,
        #[serde(default)]
        gaps: Vec<(u32, u32)>,
    },
    Path {
        t: f64,
        port: u16,
        peer: String,
        cwnd: f64,
        ssthresh: f64,
        flight: f64,
    },
    Association {
        t: f64,
        port: u16,
        peer_rwnd: f64,
    },
    /// Lines that later versions add.
    #[serde(other)]
    Other,
}

impl Event {
    fn t(&self) -> f64 {
        match self {
            Self::Data { t, .. }
            | Self::Sack { t, .. }
            | Self::Path { t, .. }
            | Self::Association { t, .. } => *t,
            Self::Start { .. } | Self::Other => 0.0,
        }
    }
}

impl Trace {
    /// Parses a file. An incomplete last line is left out: the program that wrote it was killed.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("opening the trace {}", path.display()))?;
        Self::parse(BufReader::new(file.take(BYTES_MAX + 1)))
            .with_context(|| format!("reading {}", path.display()))
    }

    pub(super) fn parse(mut text: impl BufRead) -> Result<Self> {
        let (mut events, mut cut) = (Vec::new(), None);
        let (mut line, mut read) = (Vec::new(), 0);
        for number in 0.. {
            line.clear();
            let len = (&mut text).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)? as u64;
            if len == 0 {
                break;
            }
            read += len;
            ensure!(len <= LINE_BYTES_MAX, "line {} is longer than 1 MiB: is this a trace?", number + 1);
            ensure!(read <= BYTES_MAX, "the trace is larger than the limit of 16 GiB");
            let is_last = text.fill_buf()?.is_empty();
            let event: Event = match serde_json::from_slice(&line) {
                Err(error) if error.is_eof() && is_last && number > 0 => {
                    cut = Some(number + 1);
                    break;
                }
                parsed => parsed.with_context(|| format!("line {} is malformed", number + 1))?,
            };
            match event {
                Event::Start { format } => ensure!(
                    format == FORMAT,
                    "the trace has format {format}, but this version reads format {FORMAT}: use the version that wrote it"
                ),
                _ if number == 0 => {
                    anyhow::bail!("the file is not a trace written by `strandline perf --trace`")
                }
                _ => {}
            }
            events.push(event);
        }
        Ok(Self { events, cut })
    }

    /// Returns the bytes of DATA sent and received, by port.
    fn bytes(&self) -> BTreeMap<u16, [u64; 2]> {
        let mut bytes_of: BTreeMap<u16, [u64; 2]> = BTreeMap::new();
        for event in &self.events {
            if let Event::Data { port, sent, bytes, .. } = event {
                let [out, into] = bytes_of.entry(*port).or_default();
                let sum = if *sent { out } else { into };
                *sum = sum.saturating_add(*bytes);
            }
        }
        bytes_of
    }

    /// Returns the port of the association with most data.
    pub(super) fn busiest(&self) -> Option<u16> {
        self.bytes()
            .into_iter()
            .max_by_key(|(_, [sent, received])| sent.saturating_add(*received))
            .map(|(port, _)| port)
    }

    /// Returns whether this side sends more than it receives.
    pub(super) fn sends(&self, port: u16) -> bool {
        self.bytes().get(&port).is_none_or(|[sent, received]| sent >= received)
    }

    /// Returns the ports of the associations.
    pub(super) fn ports(&self) -> Vec<u16> {
        self.bytes().into_keys().collect()
    }

    /// Returns the time of the last event, seconds.
    pub(super) fn end(&self) -> f64 {
        self.events.iter().map(Event::t).fold(0.0, f64::max)
    }
}
