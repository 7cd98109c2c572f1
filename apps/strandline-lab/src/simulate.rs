//! `strandline lab simulate`: an SCTP transfer in virtual time. The same arguments give the same result on any
//! machine.

mod probe;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use strandline::{
    Algorithm, AssociationConfig, AssociationStats, EndpointConfig, SackFrequency, SendInfo, StreamScheduler,
};
use strandline_netem::{LinkConfig, LinkStats};
use strandline_output::outln;
use strandline_sim::pair::{Pair, Side};

use self::probe::{PROBES, Probes};
use crate::netem::settings::Settings;
use crate::netem::units;

/// Default queue limit of a link, as of `strandline netem`.
const QUEUE_BYTES: usize = 1000 * 1500;
/// Bytes of messages kept waiting in the send buffer, if it has room.
const AHEAD_BYTES: usize = 256 << 10;

/// Arguments of `strandline lab simulate`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline lab simulate --link rate=1gbit,rtt=1ms --to-right loss=1% --time 10
  strandline lab simulate --link rate=100mbit,rtt=60ms --sack-frequency 6 --seed 7
  strandline lab simulate --link rate=10mbit,rtt=60ms --size 1mi --congestion bbr \\
      --interleaving --scheduler priority --probe 200

One association sends messages for --time seconds of virtual time, with this program's engine
on both sides. Prints one JSON object with the names of 'strandline perf --json'.")]
pub struct SimulateArgs {
    /// Settings of both directions of the link, as for --path of 'strandline netem exec'
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    pub link: String,
    /// Settings that override --link from the sender to the receiver
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    pub to_right: String,
    /// Settings that override --link from the receiver to the sender
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    pub to_left: String,
    /// Duration in virtual seconds
    #[arg(short, long, default_value_t = 10.0, value_name = "SECS")]
    pub time: f64,
    /// Size of messages in bytes, such as 8192 or 8ki
    #[arg(short = 'l', long, default_value = "8ki", value_name = "BYTES", value_parser = units::size)]
    pub size: usize,
    /// Acknowledge every N-th packet; 0 for adaptive
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub sack_frequency: u8,
    /// Maximum number of new packets sent in one burst (Max.Burst); 0 for no limit
    #[arg(long, value_name = "PACKETS", default_value_t = 4)]
    pub burst: u16,
    /// Congestion control: rfc9260, cubic, bbr, dctcp or swift
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    pub congestion: Algorithm,
    /// Messages of different streams may be interleaved (RFC 8260)
    #[arg(long)]
    pub interleaving: bool,
    /// Order of what several streams have to send
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Scheduler::FirstCome)]
    pub scheduler: Scheduler,
    /// Send a message of this size on another stream, of higher priority, every --probe-interval. The other
    /// side sends it back; the report has the round-trip times
    #[arg(long, value_name = "BYTES", value_parser = units::size)]
    pub probe: Option<usize>,
    /// Time between these messages
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::time, requires = "probe")]
    pub probe_interval: Duration,
    /// Size of each receive buffer in bytes [default: auto-tuned]
    #[arg(long, value_name = "BYTES", value_parser = units::size)]
    pub receive_buffer: Option<usize>,
    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// The order of what several streams have to send (RFC 8260 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scheduler {
    /// The order in which messages were given
    FirstCome,
    /// One message of each stream in turn
    RoundRobin,
    /// One packet of each stream in turn
    RoundRobinPerPacket,
    /// The stream of the highest priority first
    Priority,
    /// Equal numbers of bytes for all streams
    Fair,
    /// Bytes in proportion to the streams' weights
    Weighted,
}

impl From<Scheduler> for StreamScheduler {
    fn from(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::FirstCome => Self::FirstComeFirstServed,
            Scheduler::RoundRobin => Self::RoundRobin,
            Scheduler::RoundRobinPerPacket => Self::RoundRobinPerPacket,
            Scheduler::Priority => Self::Priority,
            Scheduler::Fair => Self::FairCapacity,
            Scheduler::Weighted => Self::WeightedFairQueueing,
        }
    }
}

/// Runs the simulation and prints its report.
///
/// # Errors
/// If arguments are invalid, or the association is not established.
pub fn run(args: &SimulateArgs) -> Result<ExitCode> {
    outln!("{}", simulate(args)?);
    Ok(ExitCode::SUCCESS)
}

/// Returns the report of a transfer.
///
/// # Errors
/// See [`run`].
pub fn simulate(args: &SimulateArgs) -> Result<Value> {
    if !(args.time > 0.0 && args.time <= 3600.0) {
        bail!("--time {} is out of range: use 0 to 3600 virtual seconds", args.time);
    }
    args.check_sizes()?;
    let both = settings(&args.link)?;
    let [to_right, to_left] = [settings(&args.to_right)?, settings(&args.to_left)?];
    let config = EndpointConfig { association: args.association()?.into(), ..EndpointConfig::default() };
    let start = LinkConfig { queue_bytes_max: QUEUE_BYTES, ..LinkConfig::default() };
    let mut pair = Pair::with_seed(config.clone(), config, start, args.seed);
    let [left, right] =
        [Side::A, Side::B].map(|side| pair.addresses(side).first().map(std::net::SocketAddr::ip));
    let (Some(left), Some(right)) = (left, right) else { bail!("an endpoint has no address") };
    set(&mut pair, left, right, &both.clone().with(&to_right));
    set(&mut pair, right, left, &both.with(&to_left));
    let Some((sender, receiver)) = pair.try_connect() else {
        bail!("the association was not established within a minute of virtual time");
    };
    let began = pair.now;
    let message = bytes::Bytes::from(vec![b'x'; args.size]);
    let (mut received, mut refused) = (0_u64, None);
    let start = |size| Probes::start(&mut pair, (sender, receiver), size, args.probe_interval);
    let mut probes = args.probe.map(start).transpose()?;
    pair.run_until(Duration::from_secs_f64(args.time), |pair| {
        while pair.a.endpoint.status(sender).is_some_and(|status| {
            let waiting = status.send_buffered.saturating_sub(status.unacknowledged_bytes as usize);
            waiting < AHEAD_BYTES.max(2 * args.size) && pair.a.endpoint.send_space(sender) >= args.size
        }) {
            let sent = pair.a.endpoint.send(pair.now, sender, SendInfo::default(), message.clone());
            if let Err(error) = sent {
                refused = Some(error.to_string());
                break;
            }
        }
        for message in pair.recv_all(Side::B, receiver) {
            match &mut probes {
                Some(probes) if message.stream == PROBES => probes.send_back(pair, message),
                _ => received += message.data.len() as u64,
            }
        }
        if let Some(probes) = &mut probes {
            probes.go_on(pair);
        }
        // Captured packets are not needed and would fill the memory.
        pair.clear_captured();
        refused.is_some()
    });
    if let Some(error) = refused {
        bail!("sending: {error}");
    }
    let seconds = (pair.now - began).as_secs_f64();
    let link = *pair.network.link(left, right).stats();
    let stats = pair.a.endpoint.status(sender).map(|status| status.stats).unwrap_or_default();
    let mut report = args.report(received, seconds, &stats, &link);
    if let Some(probes) = probes {
        report["end"]["probe"] = probes.report();
    }
    Ok(report)
}

fn settings(text: &str) -> Result<Settings> {
    if text.trim().is_empty() { Ok(Settings::default()) } else { text.parse().map_err(anyhow::Error::msg) }
}

fn set(pair: &mut Pair, from: IpAddr, to: IpAddr, settings: &Settings) {
    let link = pair.network.link(from, to);
    let config = link.config().clone();
    for change in settings.changes(&config) {
        link.change(change);
    }
}

impl SimulateArgs {
    /// Checks the sizes of messages, before there is memory for one.
    fn check_sizes(&self) -> Result<()> {
        let limit = AssociationConfig::default().message_size_max;
        for (option, size) in [("--size", Some(self.size)), ("--probe", self.probe)] {
            if size.is_some_and(|size| size > limit as usize) {
                bail!("{option}: a message has at most {limit} bytes");
            }
        }
        Ok(())
    }

    fn association(&self) -> Result<AssociationConfig> {
        let usual = AssociationConfig::default();
        let receive_buffer = self.receive_buffer.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let mut config = AssociationConfig {
            congestion: self.congestion,
            stream_scheduler: self.scheduler.into(),
            sack_frequency: match self.sack_frequency {
                0 => SackFrequency::Adaptive,
                packets => SackFrequency::Every(packets),
            },
            burst_max: self.burst,
            receive_buffer,
            // The bulk must not pause where one message ends.
            send_buffer: self.probe.map(|_| u32::try_from(4 * self.size).unwrap_or(u32::MAX)),
            partial_delivery_point: usual.partial_delivery_point.min(receive_buffer.unwrap_or(u32::MAX)),
            ..usual
        };
        config.extensions.interleaving = self.interleaving;
        config.validate()?;
        Ok(config)
    }

    fn report(&self, received: u64, seconds: f64, stats: &AssociationStats, link: &LinkStats) -> Value {
        json!({
            "start": { "seed": self.seed, "link": self.link, "to_right": self.to_right, "to_left": self.to_left,
                       "version": env!("CARGO_PKG_VERSION") },
            "end": {
                "sum_received": {
                    "bytes": received,
                    "seconds": seconds,
                    "bits_per_second": received as f64 * 8.0 / seconds,
                },
                "sum_sent": {
                    "retransmits": stats.retransmissions,
                    "fast_recoveries": stats.fast_recoveries,
                    "timeouts": stats.timeouts,
                    "packets_sent": stats.packets_sent,
                    "packets_received": stats.packets_received,
                    "chunks_sent": stats.data_sent,
                },
                "link": {
                    "offered": link.offered,
                    "dropped_loss": link.dropped_loss,
                    "dropped_queue": link.dropped_queue,
                },
            },
        })
    }
}
