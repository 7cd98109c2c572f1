//! The network of a run: the emulator's, a veth pair, a loopback interface, or none. It is created for each run
//! and removed after it.

mod loopback;
mod plan;
mod veth;

use anyhow::{Result, anyhow};
use clap::Parser;

use crate::netem::namespace::Namespaces;
use crate::netem::network::{EmulatorArgs, Network};
use crate::netem::options::NetworkArgs;
use crate::netem::report::Report;
use crate::netem::topology::{Side, Topology};

pub use plan::{NetworkChange, NetworkKind, NetworkPlan};

/// The emulator's options, parsed as on its command line, so that plans use the same syntax.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Options {
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    emulator: EmulatorArgs,
}

impl Options {
    fn of(network: &NetworkPlan, seed: u64) -> Result<(Topology, EmulatorArgs), String> {
        if network.paths == 0 {
            return Err("paths must be at least 1".to_owned());
        }
        let path = || ["--path".to_owned(), network.link.clone()];
        let mut words: Vec<String> = (0..network.paths).flat_map(|_| path()).collect();
        let options = [
            ("--to-right", &network.to_right),
            ("--to-left", &network.to_left),
            ("--schedule", &network.schedule),
        ];
        for (option, value) in options {
            if !value.is_empty() {
                words.extend([option.to_owned(), value.clone()]);
            }
        }
        if let Some(limit) = &network.late_limit {
            words.extend(["--late-limit".to_owned(), limit.clone()]);
        }
        if let Some(core) = network.emulator_core {
            words.extend(["--core".to_owned(), core.to_string()]);
        }
        let (seed, mtu) = (seed.to_string(), network.mtu().to_string());
        words.extend(["--seed", &seed, "--mtu", &mtu, "--tcp", network.tcp()].map(str::to_owned));
        let options = Self::try_parse_from(words).map_err(|error| {
            // Only the first part of the message: the usage of the command line doesn't help in a plan.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        })?;
        let topology = options.network.topology().map_err(|error| format!("{error:#}"))?;
        Ok((topology, options.emulator))
    }
}

/// Checks that the network of a run is valid.
///
/// # Errors
/// What is invalid and what is expected.
pub fn check(network: &NetworkPlan, seed: u64) -> Result<(), String> {
    let kind = network.kind;
    let mtus = kind.mtus();
    if let Some(mtu) = network.mtu
        && !mtus.contains(&mtu)
    {
        let (least, most) = (mtus.start(), mtus.end());
        return Err(if kind.is_alone() {
            format!("mtu applies to network devices, and kind = \"{kind}\" has none: omit it")
        } else {
            format!("mtu = {mtu}: with kind = \"{kind}\" it must be {least} to {most}")
        });
    }
    if network.offloads && kind != NetworkKind::Veth {
        return Err(format!("offloads require kind = \"veth\", not \"{kind}\""));
    }
    if network.loss_every.is_some() && kind != NetworkKind::Loopback {
        return Err(format!("loss-every requires kind = \"loopback\", not \"{kind}\""));
    }
    network.loss_every()?;
    if let (true, Some(tcp)) = (kind.is_alone(), &network.tcp) {
        let has = if kind == NetworkKind::Simulator {
            "a simulation has no TCP"
        } else {
            "TCP uses the system's settings"
        };
        return Err(format!("tcp = \"{tcp}\" has no effect: with kind = \"{kind}\" {has}; omit it"));
    }
    if kind == NetworkKind::Netem {
        return Options::of(network, seed).map(|_| ());
    }
    let simulated = kind == NetworkKind::Simulator;
    let of_emulator = [
        ("several paths", network.paths != 1),
        ("link", !network.link.is_empty() && !simulated),
        ("to-right", !network.to_right.is_empty()),
        ("to-left", !network.to_left.is_empty()),
        ("schedule", !network.schedule.is_empty()),
        ("late-limit", network.late_limit.is_some()),
        ("emulator-core", network.emulator_core.is_some()),
    ];
    match of_emulator.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((key, _)) if simulated => Err(format!(
            "{key}: a simulation uses only the link of [network], as {{link}} in the client's command; put other settings \
             into that command, such as --to-right loss=1%"
        )),
        Some((key, _)) => Err(format!("{key} requires the emulator: kind = \"netem\"")),
    }
}

/// The network of a run. It is removed when this value is dropped.
#[derive(Debug)]
pub enum Joined {
    /// The emulator between two namespaces.
    Netem(Box<Network>),
    /// A veth pair between two namespaces.
    Veth(Namespaces),
    /// The loopback interface of a namespace.
    Loopback(Namespaces),
    /// No network.
    Alone,
}

impl Joined {
    /// Creates the network, with the seed of everything random.
    ///
    /// # Errors
    /// If something is missing, with advice.
    pub fn start(name: &str, network: &NetworkPlan, seed: u64) -> Result<Self> {
        match network.kind {
            NetworkKind::Netem => {
                let (topology, emulator) = Options::of(network, seed).map_err(|wrong| anyhow!(wrong))?;
                Ok(Self::Netem(Box::new(Network::start(name, topology, &emulator)?)))
            }
            NetworkKind::Veth => Ok(Self::Veth(veth::create(name, network)?)),
            NetworkKind::Loopback => Ok(Self::Loopback(loopback::create(name, network)?)),
            NetworkKind::None | NetworkKind::Simulator => Ok(Self::Alone),
        }
    }

    /// Returns the network's namespaces, if it has any.
    #[must_use]
    pub fn namespaces(&self) -> Option<&Namespaces> {
        match self {
            Self::Netem(network) => Some(network.namespaces()),
            Self::Veth(namespaces) | Self::Loopback(namespaces) => Some(namespaces),
            Self::Alone => None,
        }
    }

    /// Returns the namespace that a side's programs run in.
    #[must_use]
    pub fn place(&self, side: Side) -> Side {
        if matches!(self, Self::Loopback(_)) { loopback::SIDE } else { side }
    }

    /// Starts the clock of the schedule.
    pub fn begin(&self) {
        if let Self::Netem(network) = self {
            network.begin();
        }
    }

    /// Removes the network; returns the emulator's report, if there was one.
    ///
    /// # Errors
    /// If the emulator stopped earlier, with the reason.
    pub fn finish(self) -> Result<Option<Report>> {
        match self {
            Self::Netem(network) => network.finish().map(Some),
            Self::Veth(_) | Self::Loopback(_) | Self::Alone => Ok(None),
        }
    }
}
