//! Parameters of the engine that experiments vary: each side sets its own.

use clap::ValueEnum;
use strandline::{Algorithm, AssociationConfig, ErrorDetectionMethod, Recovery, SackFrequency};

/// What is set of the engine. Where it is not given, the default of the stack holds.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "SCTP's parameters")]
pub struct Tuning {
    /// Congestion control of what this side sends (default: cubic)
    #[arg(long, value_enum, value_name = "NAME")]
    pub congestion: Option<Congestion>,
    /// How losses are found and repaired (default: rack)
    #[arg(long, value_enum, value_name = "HOW")]
    pub recovery: Option<Losses>,
    /// Acknowledge every N-th packet; 1 acknowledges each (default: it adapts, from 2 to 16)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub sack_frequency: Option<u8>,
    /// New packets sent at one opportunity (Max.Burst); 0: no limit (default: 4)
    #[arg(long, value_name = "PACKETS")]
    pub burst: Option<u16>,
    /// Give each chunk of new data a packet of its own
    #[arg(long)]
    pub no_bundling: bool,
    /// Leave the checksum out (RFC 9653), which both sides have to ask for. For measuring only: nothing below makes up
    /// for it
    #[arg(long)]
    pub zero_checksum: bool,
}

/// Congestion controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Congestion {
    /// RFC 9260's: a packet more each round trip, half after a loss
    Rfc9260,
    /// RFC 9438 with HyStart++
    Cubic,
    /// BBR, version 3: a model of the path's bandwidth and delay
    Bbr,
}

/// Kinds of loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Losses {
    /// RFC 9260 alone: three miss indications, and time-outs
    Rfc9260,
    /// By time (RFC 8985), with tail-loss probes; paced
    Rack,
}

impl Congestion {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Rfc9260 => Algorithm::Rfc9260,
            Self::Cubic => Algorithm::Cubic,
            Self::Bbr => Algorithm::Bbr,
        }
    }
}

impl Losses {
    fn recovery(self) -> Recovery {
        match self {
            Self::Rfc9260 => Recovery::Rfc9260,
            Self::Rack => Recovery::Rack,
        }
    }
}

impl Tuning {
    /// Sets them.
    pub(crate) fn apply(&self, config: AssociationConfig) -> AssociationConfig {
        AssociationConfig {
            congestion: self.congestion.map_or(config.congestion, Congestion::algorithm),
            recovery: self.recovery.map_or(config.recovery, Losses::recovery),
            sack_frequency: self.sack_frequency.map_or(config.sack_frequency, SackFrequency::Every),
            burst_max: self.burst.unwrap_or(config.burst_max),
            bundling: !self.no_bundling,
            zero_checksum: self.zero_checksum.then_some(ErrorDetectionMethod::SctpOverDtls),
            ..config
        }
    }
}
