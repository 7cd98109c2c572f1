//! A trace of a test: the content of each packet and the state of each path, as lines of JSON ([docs/trace.md] has the
//! format).
//!
//! It is written by the tasks that send and receive, under the lock of the shard. Writing is buffered and
//! formats without building a tree first, so that tests at 1 Gbit/s can be traced.
//!
//! [docs/trace.md]: https://github.com/strandline/strandline/blob/main/docs/trace.md

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use strandline::{
    Direction, ObservedAssociation, ObservedPacket, PacketObserver, Reachability, SentAgain, Tsn,
};
use tokio::time::Instant;

/// Version of the format.
const FORMAT: u32 = 1;
/// Number of bytes that are written at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes a trace. Write errors are reported at the end and don't stop the test.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    output: Mutex<Output>,
}

struct Output {
    lines: BufWriter<Box<dyn Write + Send>>,
    failure: Option<io::Error>,
    /// Associations by local port.
    associations: BTreeMap<u16, Known>,
}

/// The last recorded state of an association.
#[derive(Debug, Default)]
struct Known {
    /// The highest TSN that was sent.
    highest: Option<Tsn>,
    paths: Vec<PathState>,
    state: Option<State>,
}

/// The association, path and time of an event.
#[derive(Debug, Clone, Copy, Serialize)]
struct Place {
    t: f64,
    port: u16,
    peer: SocketAddr,
}

/// A line of a trace.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    Start {
        t: f64,
        format: u32,
        version: &'a str,
    },
    Data {
        #[serde(flatten)]
        place: Place,
        sent: bool,
        first: u32,
        last: u32,
        bytes: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        again: Option<&'static str>,
    },
    Sack {
        #[serde(flatten)]
        place: Place,
        sent: bool,
        cumulative: u32,
        a_rwnd: u32,
        gaps: &'a [(u16, u16)],
        duplicates: usize,
    },
    Path {
        #[serde(flatten)]
        place: Place,
        #[serde(flatten)]
        state: &'a PathState,
    },
    Association {
        t: f64,
        port: u16,
        #[serde(flatten)]
        state: &'a State,
    },
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct PathState {
    state: &'static str,
    primary: bool,
    cwnd: u32,
    recovery_window: Option<u32>,
    ssthresh: u32,
    flight: u32,
    srtt_us: Option<f64>,
    rto_us: f64,
    /// Pacing rate in bytes per second.
    pacing_rate: Option<u64>,
    mtu: u16,
}

/// The state of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct State {
    peer_rwnd: u32,
    a_rwnd: u32,
    send_buffer: u32,
    send_buffered: usize,
    receive_buffer: u32,
    receive_buffered: u32,
    retransmissions: u32,
    fast_recoveries: u32,
    timeouts: u32,
    tail_probes: u32,
    undone: u32,
}

/// DATA with consecutive TSNs, sent for the same reason.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: Tsn,
    last: Tsn,
    bytes: usize,
    again: Option<&'static str>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl Trace {
    /// Creates the trace file, replacing an existing one.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn create(path: &Path) -> Result<Arc<Self>> {
        let file = File::create(path).with_context(|| {
            format!("writing the trace {}: does the directory exist, and is it writable?", path.display())
        })?;
        Ok(Arc::new(Self::to(file)))
    }

    fn to(out: impl Write + Send + 'static) -> Self {
        let output = Output {
            lines: BufWriter::with_capacity(BUFFER_BYTES, Box::new(out)),
            failure: None,
            associations: BTreeMap::new(),
        };
        let trace = Self { began: Instant::now(), output: Mutex::new(output) };
        trace.output().line(&Event::Start { t: 0.0, format: FORMAT, version: env!("CARGO_PKG_VERSION") });
        trace
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Describes what could not be written, and why.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut output = self.output();
        let flushed = output.lines.flush();
        output.failure.take().map_or(flushed, Err).context("the trace is incomplete: is the disk full?")
    }
}

impl Output {
    fn line(&mut self, event: &Event<'_>) {
        if self.failure.is_none() {
            let written = serde_json::to_writer(&mut self.lines, event).map_err(io::Error::from);
            self.failure = written.and_then(|()| self.lines.write_all(b"\n")).err();
        }
    }

    fn data(&mut self, place: Place, sent: bool, run: Run) {
        let Run { first: Tsn(first), last: Tsn(last), bytes, again } = run;
        self.line(&Event::Data { place, sent, first, last, bytes, again });
    }

    /// Returns the reason why an outgoing chunk is a retransmission, if it is one.
    fn again(&mut self, port: u16, tsn: Tsn, seen: Option<ObservedAssociation<'_>>) -> Option<&'static str> {
        let highest = &mut self.associations.entry(port).or_default().highest;
        if highest.is_none_or(|highest| tsn.is_after(highest)) {
            *highest = Some(tsn);
            return None;
        }
        Some(match seen.and_then(|seen| seen.sent_again(tsn)) {
            Some(SentAgain::Probe) => "probe",
            Some(SentAgain::Lost) => "lost",
            Some(SentAgain::TimedOut) => "timeout",
            Some(_) | None => "unknown",
        })
    }

    /// Records changes of the association and its paths.
    fn look(&mut self, t: f64, port: u16, seen: ObservedAssociation<'_>) {
        let known = self.associations.entry(port).or_default();
        let (before, state_before) = (std::mem::take(&mut known.paths), known.state);
        let paths = seen.paths();
        let states: Vec<PathState> = paths.iter().map(PathState::of).collect();
        for (path, (number, state)) in paths.iter().zip(states.iter().enumerate()) {
            if before.get(number) != Some(state) {
                self.line(&Event::Path { place: Place { t, port, peer: path.address }, state });
            }
        }
        let state = seen.status().map(|status| State::of(&status));
        if let Some(state) = state.as_ref().filter(|state| state_before.as_ref() != Some(*state)) {
            self.line(&Event::Association { t, port, state });
        }
        let known = self.associations.entry(port).or_default();
        known.paths = states;
        known.state = state.or(state_before);
    }
}

impl PathState {
    fn of(path: &strandline::PathStatus) -> Self {
        Self {
            state: match path.state {
                Reachability::Unconfirmed => "unconfirmed",
                Reachability::Active => "active",
                Reachability::PotentiallyFailed => "potentially failed",
                Reachability::Inactive => "inactive",
                _ => "unknown",
            },
            primary: path.primary,
            cwnd: path.cwnd,
            recovery_window: path.recovery_window,
            ssthresh: path.ssthresh,
            flight: path.flight,
            srtt_us: path.srtt.map(micros),
            rto_us: micros(path.rto),
            pacing_rate: path.pacing_rate,
            mtu: path.mtu,
        }
    }
}

impl State {
    fn of(status: &strandline::Status) -> Self {
        Self {
            peer_rwnd: status.peer_rwnd,
            a_rwnd: status.a_rwnd,
            send_buffer: status.send_buffer,
            send_buffered: status.send_buffered,
            receive_buffer: status.receive_buffer,
            receive_buffered: status.receive_buffered,
            retransmissions: status.stats.retransmissions,
            fast_recoveries: status.stats.fast_recoveries,
            timeouts: status.stats.timeouts,
            tail_probes: status.stats.tail_probes,
            undone: status.stats.undone,
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl PacketObserver for Trace {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        let Some((source, destination)) = packet.ports() else { return };
        let sent = packet.direction == Direction::Sent;
        let port = if sent { source } else { destination };
        let t = packet.at.saturating_duration_since(self.began).as_secs_f64();
        let (place, seen) = (Place { t, port, peer: packet.peer }, packet.association());
        let mut output = self.output();
        let mut run: Option<Run> = None;
        for data in packet.data() {
            let again = if sent { output.again(port, data.tsn, seen) } else { None };
            if let Some(run) = run.as_mut().filter(|run| run.last + 1 == data.tsn && run.again == again) {
                run.last = data.tsn;
                run.bytes += data.bytes;
                continue;
            }
            let next = Run { first: data.tsn, last: data.tsn, bytes: data.bytes, again };
            if let Some(run) = run.replace(next) {
                output.data(place, sent, run);
            }
        }
        if let Some(run) = run {
            output.data(place, sent, run);
        }
        if let Some(sack) = packet.sack() {
            let (Tsn(cumulative), a_rwnd, gaps) = (sack.cumulative, sack.a_rwnd, &sack.gaps);
            let duplicates = sack.duplicates;
            output.line(&Event::Sack { place, sent, cumulative, a_rwnd, gaps, duplicates });
        }
        if let Some(seen) = seen {
            output.look(t, port, seen);
        }
    }
}

#[cfg(test)]
mod tests;
