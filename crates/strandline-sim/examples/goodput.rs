//! Goodput of one association under loss and reordering, in virtual time: a table of conditions, round-trip times and
//! rates, for comparing changes to recovery or congestion control.
//!
//! ```text
//! cargo run --release -p strandline-sim --example goodput -- --recovery rfc9260 --congestion rfc9260
//! cargo run --release -p strandline-sim --example goodput -- --recovery rack --only "random 1%" --rtt 60
//! ```
//!
//! One side sends messages of 8 KB as fast as it can, over a link with a queue of one bandwidth-delay product (at least
//! 100 KB), with losses and reordering in the direction of the data only. Buffers are large, so that only recovery and
//! congestion control limit the sender, unless `--tuned` uses auto-tuned buffers. Goodput is what the receiving
//! application read, in Mbit/s.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use clap::Parser;
use strandline_proto::config::{AssociationConfig, EndpointConfig, Recovery};
use strandline_proto::congestion::Algorithm;
use strandline_proto::event::{AssociationId, SendInfo};
use strandline_proto::time::Time;
use strandline_sim::grid::{self, Cell};
use strandline_sim::pair::{Pair, Side};

/// Goodput under loss and reordering, in virtual time
#[derive(Debug, Parser, Clone)]
struct Args {
    /// Loss recovery: rfc9260 or rack
    #[arg(long, default_value = "rack")]
    recovery: String,
    /// Congestion control: cubic, bbr or rfc9260
    #[arg(long, default_value = "cubic")]
    congestion: String,
    /// Only the condition of this name
    #[arg(long)]
    only: Option<String>,
    /// Round-trip times in milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0.2, 20.0, 60.0, 200.0])]
    rtt: Vec<f64>,
    /// Rates in Mbit/s
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000])]
    rate: Vec<u64>,
    /// Virtual seconds for each cell; three times as long for round trips above 50 ms
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Seeds for each cell; the table shows their median
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Auto-tuned buffers instead of 64 MiB
    #[arg(long)]
    tuned: bool,
    /// Print also the buffers, and counters of the sender: retransmissions, recoveries, time-outs, probes, undone
    #[arg(long)]
    counters: bool,
    /// Exactly this many seconds for each cell, however long its round trips
    #[arg(long)]
    exact: bool,
    /// Print the sender's state and what arrived at this interval, in milliseconds
    #[arg(long)]
    trace_ms: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Measured {
    mbps: f64,
    counters: String,
}

fn endpoint(args: &Args) -> EndpointConfig {
    let recovery = match args.recovery.as_str() {
        "rfc9260" => Recovery::Rfc9260,
        "rack" => Recovery::Rack,
        other => panic!("--recovery rfc9260 or rack, not {other}"),
    };
    let congestion = match args.congestion.as_str() {
        "rfc9260" => Algorithm::Rfc9260,
        "cubic" => Algorithm::Cubic,
        "bbr" => Algorithm::Bbr,
        other => panic!("--congestion cubic, bbr or rfc9260, not {other}"),
    };
    let buffer = (!args.tuned).then_some(64 << 20);
    let association = AssociationConfig {
        recovery,
        congestion,
        send_buffer: buffer,
        receive_buffer: buffer,
        path_mtu_initial: 1500,
        ..AssociationConfig::default()
    };
    // A receiver with an auto-tuned buffer learns the round-trip time from a heartbeat.
    let heartbeat_interval = association.heartbeat_interval.filter(|_| args.tuned);
    let association = AssociationConfig { heartbeat_interval, ..association };
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

fn send_all(pair: &mut Pair, id: AssociationId, message: &Bytes) {
    let now = pair.now;
    while pair.a.endpoint.send(now, id, SendInfo::default(), message.clone()).is_ok() {}
}

fn measure(args: &Args, cell: &Cell, seed: u64) -> Measured {
    let config = endpoint(args);
    let mut pair = Pair::with_seed(config.clone(), config, cell.link(100_000, false), seed);
    pair.segments_max = 64;
    let (a, b) = pair.connect();
    let addresses = (pair.addresses(Side::A)[0].ip(), pair.addresses(Side::B)[0].ip());
    let forward = pair.network.link(addresses.0, addresses.1);
    forward.change(strandline_netem::Change::Config(cell.link(100_000, true)));
    let message = Bytes::from(vec![7; 8192]);
    let seconds = if cell.rtt_ms > 50.0 && !args.exact { args.seconds * 3.0 } else { args.seconds };
    let (mut received, mut messages, mut steps) = (0u64, Vec::new(), 0u32);
    let mut trace = args.trace_ms.map(|ms| Trace::new(pair.now, Duration::from_millis(ms)));
    send_all(&mut pair, a, &message);
    pair.run_until(Duration::from_secs_f64(seconds), |pair| {
        let now = pair.now;
        pair.b.endpoint.recv_many(now, b, &mut messages, 1000);
        received += messages.drain(..).map(|message| message.data.len() as u64).sum::<u64>();
        steps += 1;
        send_all(pair, a, &message);
        if steps.is_multiple_of(64) {
            pair.clear_captured();
        }
        if let Some(trace) = &mut trace {
            trace.look(pair, a, received);
        }
        false
    });
    let sender = pair.a.endpoint.status(a).expect("the association lasts");
    let receiver = pair.b.endpoint.status(b).expect("the association lasts");
    let stats = sender.stats;
    let counters = format!(
        "buffers {} to {} KB, sent {} again {} recoveries {} timeouts {} probes {} undone {}",
        sender.send_buffer >> 10,
        receiver.receive_buffer >> 10,
        stats.data_sent,
        stats.retransmissions,
        stats.fast_recoveries,
        stats.timeouts,
        stats.tail_probes,
        stats.undone
    );
    Measured { mbps: received as f64 * 8.0 / seconds / 1e6, counters }
}

/// Prints a line at regular intervals.
#[derive(Debug)]
struct Trace {
    began: Time,
    each: Duration,
    last: Time,
    received: u64,
}

impl Trace {
    fn new(now: Time, each: Duration) -> Self {
        println!("     ms  came  paced    cwnd  flight  srtt_ms  queued_kb again buffered_kb room_kb");
        Self { began: now, each, last: now, received: 0 }
    }

    fn look(&mut self, pair: &mut Pair, a: AssociationId, received: u64) {
        let took = pair.now.since(self.last);
        if took < self.each {
            return;
        }
        let mbps = (received - self.received) as f64 * 8.0 / took.as_secs_f64() / 1e6;
        (self.last, self.received) = (pair.now, received);
        let (Some(status), Some(paths)) = (pair.a.endpoint.status(a), pair.a.endpoint.paths(a)) else {
            return;
        };
        let path = &paths[0];
        let ends = [Side::A, Side::B].map(|side| pair.addresses(side)[0].ip());
        let now_ns = pair.now.as_nanos();
        let queued = pair.network.link(ends[0], ends[1]).queued_bytes(now_ns);
        println!(
            "{:7.1} {mbps:5.0} {:6.0} {:7} {:7} {:8.2} {:10} {:5} {:11} {:7}",
            pair.now.since(self.began).as_secs_f64() * 1e3,
            path.pacing_rate.unwrap_or(0) as f64 * 8e-6,
            path.cwnd,
            path.flight,
            path.srtt.unwrap_or_default().as_secs_f64() * 1e3,
            queued >> 10,
            status.stats.retransmissions,
            status.send_buffered >> 10,
            status.peer_rwnd >> 10,
        );
    }
}

fn main() {
    let args = Args::parse();
    let cells = grid::cells(args.only.as_deref(), &args.rate, &args.rtt);
    let results = grid::measure_all(&cells, |cell| {
        let mut all: Vec<_> = (1..=args.seeds).map(|seed| measure(&args, cell, seed)).collect();
        all.sort_by(|one, other| one.mbps.total_cmp(&other.mbps));
        all.swap_remove(all.len() / 2)
    });
    print(&args, &cells, &results);
}

fn print(args: &Args, cells: &[Cell], results: &[Measured]) {
    let rtts: Vec<String> = args.rtt.iter().map(|rtt| format!("{rtt} ms")).collect();
    println!("| {}, {} | Mbit/s | {} |", args.recovery, args.congestion, rtts.join(" | "));
    println!("|---|---|{}", "---|".repeat(rtts.len()));
    let rows = cells.chunks(rtts.len()).zip(results.chunks(rtts.len()));
    for (row, measured) in rows {
        let numbers: Vec<String> = measured.iter().map(|one| format!("{:.2}", one.mbps)).collect();
        println!("| {} | {} | {} |", row[0].condition.name, row[0].rate_mbps, numbers.join(" | "));
        if args.counters {
            for (cell, one) in row.iter().zip(measured) {
                println!("    {} ms: {}", cell.rtt_ms, one.counters);
            }
        }
    }
}
