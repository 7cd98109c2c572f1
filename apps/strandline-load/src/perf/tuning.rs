//! Parameters of the engine that experiments vary: each side sets its own.

use strandline::{AssociationConfig, ErrorDetectionMethod, SackFrequency};

/// What is set of the engine. Where it is not given, the default of the stack holds.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "SCTP's parameters")]
pub struct Tuning {
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

impl Tuning {
    /// Sets them.
    pub(crate) fn apply(&self, config: AssociationConfig) -> AssociationConfig {
        AssociationConfig {
            sack_frequency: self.sack_frequency.map_or(config.sack_frequency, SackFrequency::Every),
            burst_max: self.burst.unwrap_or(config.burst_max),
            bundling: !self.no_bundling,
            zero_checksum: self.zero_checksum.then_some(ErrorDetectionMethod::SctpOverDtls),
            ..config
        }
    }
}
