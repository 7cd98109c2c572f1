//! Parameters of the engine that experiments vary; each side sets its own.

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use strandline::{
    Address, Algorithm, Association, AssociationConfig, ErrorDetectionMethod, ExtensionsConfig,
    FastRetransmit, Multipath, Recovery, SackFrequency,
};

/// Parameters of the engine. The stack's default applies where one is not given.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "SCTP parameters")]
pub struct Tuning {
    /// Use only RFC 9260: its loss recovery, congestion control, bursts, acknowledgements and buffers. The options
    /// below override parts of it
    #[arg(long)]
    pub rfc9260: bool,
    /// Congestion control of this side's data [default: cubic]. It also applies to TCP if the kernel has the
    /// algorithm (rfc9260 is its reno; default: the system's)
    #[arg(long, value_enum, value_name = "NAME")]
    pub congestion: Option<Congestion>,
    /// Congestion control of this side's data to one address of the peer; repeat for several addresses (not
    /// dctcp, which applies to whole associations)
    #[arg(long, value_name = "ADDR=NAME", value_parser = path_congestion)]
    pub path_congestion: Vec<(Address, Congestion)>,
    /// Negotiate explicit congestion notification (RFC 3168); required on both sides
    #[arg(long)]
    pub ecn: bool,
    /// Loss detection and recovery [default: rack]
    #[arg(long, value_enum, value_name = "HOW")]
    pub recovery: Option<Losses>,
    /// Path on which lost data is retransmitted, if there are several [default: same-path]
    #[arg(long, value_enum, value_name = "WHERE")]
    pub fast_retransmit: Option<Again>,
    /// Send new data on all paths at once, if there are several [default: off]
    #[arg(long, value_enum, value_name = "HOW")]
    pub multipath: Option<Paths>,
    /// Acknowledge every N-th packet [default: adaptive, 2 to 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub sack_frequency: Option<u8>,
    /// Maximum number of new packets sent in one burst (Max.Burst); 0 for no limit [default: 4]
    #[arg(long, value_name = "PACKETS")]
    pub burst: Option<u16>,
    /// Send each chunk of new data in its own packet
    #[arg(long)]
    pub no_bundling: bool,
    /// Omit the checksum (RFC 9653); required on both sides. Only for measurements: no lower layer replaces
    /// it
    #[arg(long)]
    pub zero_checksum: bool,
}

/// A congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Congestion {
    /// RFC 9260: additive increase, halving after a loss
    Rfc9260,
    /// RFC 9438 with HyStart++
    Cubic,
    /// BBRv3: a model of the path's bandwidth and delay
    Bbr,
    /// RFC 8257, with ECN, on both sides: for data centers with switches that mark packets
    Dctcp,
    /// Swift (SIGCOMM 2020), delay-based: for data centers with switches that don't mark packets
    Swift,
}

/// A kind of loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Losses {
    /// RFC 9260: three miss indications, and time-outs
    Rfc9260,
    /// RACK-TLP (RFC 8985), with pacing
    Rack,
}

/// The path on which lost data is retransmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Again {
    /// The path on which it was lost; data lost twice takes another path
    SamePath,
    /// Another active path at once
    OtherPath,
}

/// Whether several paths are used at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Paths {
    /// One path at a time
    Off,
    /// All paths, as fair as one flow where they share a link
    Coupled,
    /// All paths, each as a flow of its own
    Independent,
}

impl Congestion {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Rfc9260 => Algorithm::Rfc9260,
            Self::Cubic => Algorithm::Cubic,
            Self::Bbr => Algorithm::Bbr,
            Self::Dctcp => Algorithm::Dctcp,
            Self::Swift => Algorithm::Swift,
        }
    }
}

impl Congestion {
    /// Returns the name that the kernel's TCP uses for the same controller.
    pub(crate) fn of_tcp(self) -> Option<&'static str> {
        match self {
            Self::Rfc9260 => Some("reno"),
            Self::Cubic => Some("cubic"),
            Self::Bbr => Some("bbr"),
            Self::Dctcp => Some("dctcp"),
            Self::Swift => None,
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

impl Again {
    fn fast_retransmit(self) -> FastRetransmit {
        match self {
            Self::SamePath => FastRetransmit::SamePath,
            Self::OtherPath => FastRetransmit::OtherPath,
        }
    }
}

impl Paths {
    fn multipath(self) -> Multipath {
        match self {
            Self::Off => Multipath::Off,
            Self::Coupled => Multipath::Coupled,
            Self::Independent => Multipath::Independent,
        }
    }
}

impl Tuning {
    /// Refuses options that TCP doesn't have: a comparison in which an option has no effect would be
    /// misleading.
    pub(crate) fn check_tcp(&self) -> Result<()> {
        let given = [
            (self.rfc9260, "--rfc9260"),
            (!self.path_congestion.is_empty(), "--path-congestion"),
            (self.ecn, "--ecn"),
            (self.recovery.is_some(), "--recovery"),
            (self.fast_retransmit.is_some(), "--fast-retransmit"),
            (self.multipath.is_some(), "--multipath"),
            (self.sack_frequency.is_some(), "--sack-frequency"),
            (self.burst.is_some(), "--burst"),
            (self.no_bundling, "--no-bundling"),
            (self.zero_checksum, "--zero-checksum"),
        ];
        for (is_given, name) in given {
            ensure!(!is_given, "{name} requires SCTP: omit it with --transport tcp");
        }
        let has = self.congestion.is_none_or(|congestion| congestion.of_tcp().is_some());
        ensure!(has, "--congestion is not available for TCP: use rfc9260 (reno), cubic, bbr or dctcp");
        Ok(())
    }

    /// Returns the configuration that the options modify.
    pub(crate) fn base(&self) -> AssociationConfig {
        if self.rfc9260 { AssociationConfig::rfc9260() } else { AssociationConfig::default() }
    }

    /// Sets the controllers of individual paths of an association.
    pub(crate) fn apply_to_paths(&self, association: &Association) -> Result<()> {
        for (address, congestion) in &self.path_congestion {
            let chosen = association.control().set_path_congestion(*address, Some(congestion.algorithm()));
            chosen.with_context(|| format!("--path-congestion {address}"))?;
        }
        Ok(())
    }

    /// Applies the options to a configuration.
    pub(crate) fn apply(&self, config: AssociationConfig) -> AssociationConfig {
        AssociationConfig {
            congestion: self.congestion.map_or(config.congestion, Congestion::algorithm),
            recovery: self.recovery.map_or(config.recovery, Losses::recovery),
            fast_retransmit: self.fast_retransmit.map_or(config.fast_retransmit, Again::fast_retransmit),
            sack_frequency: self.sack_frequency.map_or(config.sack_frequency, SackFrequency::Every),
            burst_max: self.burst.unwrap_or(config.burst_max),
            bundling: !self.no_bundling,
            extensions: ExtensionsConfig {
                multipath: self.multipath.map_or(config.extensions.multipath, Paths::multipath),
                ecn: self.ecn || config.extensions.ecn,
                zero_checksum: self.zero_checksum.then_some(ErrorDetectionMethod::SctpOverDtls),
                ..config.extensions
            },
            ..config
        }
    }
}

fn path_congestion(text: &str) -> Result<(Address, Congestion)> {
    let wrong = || anyhow!("expected ADDR=NAME, such as 192.0.2.7=bbr, not {text:?}");
    let (address, name) = text.split_once('=').ok_or_else(wrong)?;
    let congestion = Congestion::from_str(name, false).map_err(|_| {
        let names = Congestion::value_variants().iter().filter_map(Congestion::to_possible_value);
        let names: Vec<_> =
            names.map(|value| value.get_name().to_owned()).filter(|name| name != "dctcp").collect();
        anyhow!("unknown algorithm {name:?}: use {}", names.join(", "))
    })?;
    ensure!(
        congestion != Congestion::Dctcp,
        "dctcp applies to whole associations: use --congestion dctcp on both sides"
    );
    Ok((address.parse().map_err(|_| wrong())?, congestion))
}

#[cfg(test)]
mod tests;
