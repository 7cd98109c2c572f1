//! The command-line options of the network.

use core::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use strandline_netem::{Link, LinkConfig, Loss, Reordering};

use super::schedule::{self, Entry};
use super::settings::{self, Queue, Settings};
use super::topology::{PATHS_MAX, Topology};
use super::units;

/// Longest schedule file, bytes.
const SCHEDULE_BYTES_MAX: u64 = 4 << 20;

/// Default queue limit, in packets of full size.
const QUEUE_PACKETS_DEFAULT: usize = 1000;

/// Parameters of the network between the two sides. They apply to both directions of every path unless a
/// direction or a path overrides them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkArgs {
    /// One-way delay, such as 30ms
    #[arg(long, value_name = "TIME", value_parser = units::time, conflicts_with = "rtt")]
    delay: Option<Duration>,
    /// Round-trip delay, half of it in each direction
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    rtt: Option<Duration>,
    /// Maximum random addition to the delay; packets stay in order
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    jitter: Option<Duration>,
    /// Rate of IP packets, such as 100mbit or 1gbit [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    rate: Option<u64>,
    /// Queue limit in bytes (256k), or as the time to send the queue at the rate (50ms) [default: 1,000 packets of
    /// full size]
    #[arg(long, value_name = "SIZE|TIME", value_parser = settings::queue)]
    queue: Option<Queue>,
    /// Queue length above which ECN-capable packets are marked: bytes (30k) or a time (2ms)
    #[arg(long, value_name = "SIZE|TIME", value_parser = settings::queue)]
    mark: Option<Queue>,
    /// Random, independent loss of packets, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = settings::random_loss, group = "losses")]
    loss: Option<Loss>,
    /// Loss of every N-th packet
    #[arg(long, value_name = "N", value_parser = settings::regular_loss, group = "losses")]
    loss_every: Option<Loss>,
    /// Loss in bursts: loss rate and mean burst length in packets, such as 1%/4
    #[arg(long, value_name = "SHARE/PACKETS", value_parser = settings::burst_loss, group = "losses")]
    burst_loss: Option<Loss>,
    /// Loss by the Gilbert-Elliott model: probabilities per packet of entering the bad state, of leaving it, of loss in
    /// the bad state (default 100%) and in the good state (default 0%)
    #[arg(long, value_name = "P/R[/H[/K]]", value_parser = settings::gilbert_elliott, group = "losses")]
    gilbert: Option<Loss>,
    /// Reordering: share of delayed packets and maximum delay, such as 1%/5ms
    #[arg(long, value_name = "SHARE/TIME", value_parser = settings::reordering)]
    reorder: Option<Reordering>,
    /// Share of duplicated packets, such as 0.1%
    #[arg(long, value_name = "SHARE", value_parser = units::probability)]
    duplicate: Option<f64>,
    /// Share of packets with flipped bits, such as 0.1%
    #[arg(long, value_name = "SHARE", value_parser = units::probability)]
    corrupt: Option<f64>,
    /// Settings for the direction from left to right, such as delay=50ms,loss=1%
    #[arg(long, value_name = "SETTINGS")]
    to_right: Option<Settings>,
    /// Settings for the direction from right to left
    #[arg(long, value_name = "SETTINGS")]
    to_left: Option<Settings>,
    /// Add a path with these settings; repeat for several
    #[arg(long = "path", value_name = "SETTINGS", value_parser = path_settings)]
    paths: Vec<Settings>,
    /// Timed changes: 'TIME [path=N] [to-right|to-left] SETTINGS; ...', or @FILE with one per line
    #[arg(long, value_name = "CHANGES")]
    schedule: Option<String>,
    /// Seed of the random numbers: with the same seed the same packets are lost
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// MTU of the paths in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=65_535))]
    mtu: u16,
    /// Also assign IPv6 addresses; the kernel then occasionally sends its own packets
    #[arg(long)]
    ipv6: bool,
    /// Congestion control of the kernel's TCP on both sides
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    tcp: String,
}

/// Parses the settings of a path; may be empty.
fn path_settings(text: &str) -> Result<Settings, String> {
    if text.trim().is_empty() { Ok(Settings::default()) } else { text.parse() }
}

impl NetworkArgs {
    /// Returns the network that the options describe.
    ///
    /// # Errors
    /// If options contradict each other, or a schedule can't be read.
    pub fn topology(&self) -> Result<Topology> {
        let base = Settings {
            delay: self.delay.or(self.rtt.map(|rtt| rtt / 2)),
            jitter: self.jitter,
            rate_bps: self.rate,
            queue: self.queue,
            loss: self.loss.or(self.loss_every).or(self.burst_loss).or(self.gilbert),
            reordering: self.reorder,
            duplication: self.duplicate,
            corruption: self.corrupt,
            mark: self.mark,
            size_max: None,
            cut: None,
        };
        let one = [Settings::default()];
        let given = if self.paths.is_empty() { one.as_slice() } else { &self.paths };
        if given.len() > PATHS_MAX {
            bail!("--path: at most {PATHS_MAX} paths");
        }
        let mut paths = Vec::new();
        for path in given {
            let both = base.clone().with(path);
            let link = |direction: &Option<Settings>| {
                let settings = both.clone().with(&direction.clone().unwrap_or_default());
                self.config(&settings)
            };
            paths.push([link(&self.to_right)?, link(&self.to_left)?]);
        }
        let schedule = self.schedule(paths.len())?;
        let (mtu, ipv6, seed) = (self.mtu, self.ipv6, self.seed);
        if ipv6 && mtu < 1280 {
            bail!("--ipv6 requires an --mtu of at least 1280");
        }
        Ok(Topology { paths, mtu, ipv6, tcp: self.tcp.clone(), schedule, seed })
    }

    fn config(&self, settings: &Settings) -> Result<LinkConfig> {
        if settings.cut.is_some() {
            bail!("a network cannot start cut: use --schedule '0s cut'");
        }
        let rate_bps = settings.rate_bps.unwrap_or_default();
        if rate_bps == 0 && matches!(settings.queue, Some(Queue::Time(_))) {
            bail!("--queue as a time requires --rate: give it in bytes (256k), or add a rate (100mbit)");
        }
        let queue_bytes_max = QUEUE_PACKETS_DEFAULT * usize::from(self.mtu);
        let start = LinkConfig { queue_bytes_max, ..LinkConfig::default() };
        let mut link = Link::new(start.clone(), 0);
        for change in settings.changes(&start) {
            link.change(change);
        }
        Ok(link.config().clone())
    }

    fn schedule(&self, paths: usize) -> Result<Vec<Entry>> {
        let Some(text) = &self.schedule else { return Ok(Vec::new()) };
        let text = match text.strip_prefix('@') {
            Some(file) => strandline_output::read_text(file, SCHEDULE_BYTES_MAX)
                .with_context(|| format!("--schedule @{file}"))?,
            None => text.clone(),
        };
        let entries = schedule::parse(&text).map_err(|error| anyhow!("--schedule: {error}"))?;
        let missing = entries.iter().filter_map(|entry| entry.change.target.path).find(|&path| path > paths);
        if let Some(path) = missing {
            bail!("--schedule: no path {path}: add a --path for each path");
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
