//! Completion time of a transfer on an open association, in virtual time: a table of conditions, round-trip times and
//! rates.
//!
//! ```text
//! cargo run --release -p strandline-sim --example completion -- --size 1000000 --rtt 20 --rate 100 --seeds 40
//! ```
//!
//! Two sides set up an association and pause. Then one sends `--size` bytes in messages of 16 KiB, over a
//! link with a queue of one bandwidth-delay product (at least 150 KB), with losses and reordering in the
//! direction of the data only. The completion time ends when the receiving application has read everything,
//! plus half a round trip for its answer. Each cell shows the median and the 90th percentile of the seeds in
//! ms.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use clap::Parser;
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::event::{AssociationId, SendInfo};
use strandline_proto::time::Time;
use strandline_sim::grid::{self, Cell};
use strandline_sim::pair::{Pair, Side};

/// Completion times on an open association, in virtual time
#[derive(Debug, Parser, Clone)]
struct Args {
    /// Bytes of a transfer
    #[arg(long, default_value_t = 1_000_000)]
    size: usize,
    /// Only the condition of this name
    #[arg(long)]
    only: Option<String>,
    /// Round-trip times in milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0.2, 20.0, 60.0, 200.0])]
    rtt: Vec<f64>,
    /// Rates in Mbit/s
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000])]
    rate: Vec<u64>,
    /// Transfers for each cell, each with its own seed
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Idle seconds of the association before the transfer
    #[arg(long, default_value_t = 5.0)]
    idle: f64,
    /// Start with the known path MTU, as from an earlier association
    #[arg(long)]
    mtu_known: bool,
    /// Transfers on one association, with a pause before each; the last one counts
    #[arg(long, default_value_t = 1)]
    transfers: u32,
    /// Print counters of each transfer
    #[arg(long)]
    counters: bool,
    /// Print the sender's state at this interval, in milliseconds
    #[arg(long)]
    trace_ms: Option<u64>,
}

fn endpoint(args: &Args) -> EndpointConfig {
    let mut association = AssociationConfig::default();
    if args.mtu_known {
        association.path_mtu_initial = 1500;
    }
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

/// Returns the completion time in milliseconds.
fn measure(args: &Args, cell: &Cell, seed: u64) -> f64 {
    let config = endpoint(args);
    let mut pair = Pair::with_seed(config.clone(), config, cell.link(150_000, false), seed);
    pair.segments_max = 64;
    let (a, b) = pair.connect();
    let addresses = (pair.addresses(Side::A)[0].ip(), pair.addresses(Side::B)[0].ip());
    let forward = pair.network.link(addresses.0, addresses.1);
    forward.change(strandline_netem::Change::Config(cell.link(150_000, true)));
    let mut took = 0.0;
    for _ in 0..args.transfers {
        pair.run_for(Duration::from_secs_f64(args.idle));
        let began = pair.now;
        transfer(args, &mut pair, a, b);
        took = pair.now.since(began).as_secs_f64() * 1e3 + cell.rtt_ms / 2.0;
        if args.counters {
            let stats = pair.a.endpoint.status(a).expect("it lasts").stats;
            let path = &pair.a.endpoint.paths(a).expect("it lasts")[0];
            println!(
                "  seed {seed}: {took:.1} ms, cwnd {}, sent {} again {} recoveries {} timeouts {} probes {} undone {}",
                path.cwnd,
                stats.data_sent,
                stats.retransmissions,
                stats.fast_recoveries,
                stats.timeouts,
                stats.tail_probes,
                stats.undone
            );
        }
        pair.clear_captured();
    }
    took
}

/// Runs a transfer until everything was read, for at most two minutes.
fn transfer(args: &Args, pair: &mut Pair, a: AssociationId, b: AssociationId) {
    let message = Bytes::from(vec![7; 16384]);
    let (began, mut looked) = (pair.now, pair.now);
    let (mut received, mut left, mut messages) = (0, args.size, Vec::new());
    loop {
        let now = pair.now;
        while left > 0 {
            let next = message.slice(..left.min(message.len()));
            let len = next.len();
            if pair.a.endpoint.send(now, a, SendInfo::default(), next).is_err() {
                break;
            }
            left -= len;
        }
        pair.b.endpoint.recv_many(now, b, &mut messages, 1000);
        received += messages.drain(..).map(|message| message.data.len()).sum::<usize>();
        if received >= args.size || now.since(began) > Duration::from_secs(120) {
            return;
        }
        if args.trace_ms.is_some_and(|each| now.since(looked) >= Duration::from_millis(each)) {
            looked = now;
            trace(pair, a, began, received);
        }
        pair.step();
    }
}

fn trace(pair: &mut Pair, a: AssociationId, began: Time, received: usize) {
    let path = &pair.a.endpoint.paths(a).expect("it lasts")[0];
    let ends = [Side::A, Side::B].map(|side| pair.addresses(side)[0].ip());
    let queued = pair.network.link(ends[0], ends[1]).queued_bytes(pair.now.as_nanos());
    println!(
        "{:7.1} ms: received {received:8} cwnd {:7} ssthresh {:10} flight {:7} srtt {:6.2} ms queued {queued:7}",
        pair.now.since(began).as_secs_f64() * 1e3,
        path.cwnd,
        path.ssthresh,
        path.flight,
        path.srtt.unwrap_or_default().as_secs_f64() * 1e3
    );
}

fn main() {
    let args = Args::parse();
    let cells = grid::cells(args.only.as_deref(), &args.rate, &args.rtt);
    let results = grid::measure_all(&cells, |cell| {
        let mut all: Vec<_> = (1..=args.seeds).map(|seed| measure(&args, cell, seed)).collect();
        all.sort_by(f64::total_cmp);
        all
    });
    print(&args, &cells, &results);
}

fn print(args: &Args, cells: &[Cell], results: &[Vec<f64>]) {
    let rtts: Vec<String> = args.rtt.iter().map(|rtt| format!("{rtt} ms")).collect();
    println!("| {} bytes | Mbit/s | {} |", args.size, rtts.join(" | "));
    println!("|---|---|{}", "---|".repeat(rtts.len()));
    for (row, measured) in cells.chunks(rtts.len()).zip(results.chunks(rtts.len())) {
        let at = |all: &Vec<f64>, share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
        let numbers: Vec<String> =
            measured.iter().map(|all| format!("{:.1}, {:.1}", at(all, 0.5), at(all, 0.9))).collect();
        println!("| {} | {} | {} |", row[0].condition.name, row[0].rate_mbps, numbers.join(" | "));
    }
}
