//! The network section of a plan.

use core::fmt;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::netem::topology::{Side, Topology};

/// The kernel's default MTU of a loopback interface.
const LOOPBACK_MTU: u32 = 65_536;

/// What carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// The emulator between two namespaces.
    Netem,
    /// A pair of virtual Ethernet devices between two namespaces.
    Veth,
    /// The loopback interface of a namespace of its own.
    Loopback,
    /// None: programs create what they need themselves.
    None,
    /// None: the program simulates in virtual time.
    Simulator,
}

/// The network between the two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetworkPlan {
    /// What carries the packets.
    pub kind: NetworkKind,
    /// The emulator's settings for both directions; may contain variables.
    #[serde(default)]
    pub link: String,
    /// Settings that override them from left (client) to right (server).
    #[serde(default)]
    pub to_right: String,
    /// Settings that override them from right to left.
    #[serde(default)]
    pub to_left: String,
    /// Number of paths, all with these settings (netem only).
    #[serde(default = "one_path", skip_serializing_if = "is_one_path")]
    pub paths: u8,
    /// Changes during the run, in the syntax of the emulator's `--schedule`; their clock starts with the
    /// client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// Congestion control of the kernel's TCP on networks created for the run; default CUBIC. On other networks
    /// it is the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// MTU of the devices; default 1,500, for a loopback interface 65,536.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Every how many IP packets one is dropped (loopback only), counted over both directions and all protocols; 0
    /// means none. May contain variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_every: Option<String>,
    /// Whether the veth pair passes bursts unsegmented (TSO, GSO, GRO and their equivalents for UDP).
    #[serde(default)]
    pub offloads: bool,
    /// Processors of the client and of the server, in the syntax of taskset(1).
    pub cores: Option<[String; 2]>,
    /// Lateness of the emulator above which a run is invalid.
    pub late_limit: Option<String>,
    /// The only processor of the emulator's thread (netem only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator_core: Option<usize>,
}

/// Returns the system's default congestion control.
fn system_tcp() -> String {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    if text.trim().is_empty() { "unknown".to_owned() } else { text.trim().to_owned() }
}

fn one_path() -> u8 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one_path(paths: &u8) -> bool {
    *paths == 1
}

/// The changes of a series to the plan's network.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetworkChange {
    /// See [`NetworkPlan::kind`].
    pub kind: Option<NetworkKind>,
    /// See [`NetworkPlan::link`].
    pub link: Option<String>,
    /// See [`NetworkPlan::to_right`].
    pub to_right: Option<String>,
    /// See [`NetworkPlan::to_left`].
    pub to_left: Option<String>,
    /// See [`NetworkPlan::schedule`].
    pub schedule: Option<String>,
    /// See [`NetworkPlan::tcp`].
    pub tcp: Option<String>,
    /// See [`NetworkPlan::mtu`].
    pub mtu: Option<u32>,
    /// See [`NetworkPlan::loss_every`].
    pub loss_every: Option<String>,
    /// See [`NetworkPlan::offloads`].
    pub offloads: Option<bool>,
}

impl NetworkKind {
    /// Returns whether no network is created, so that root is not needed and there are no two sides.
    #[must_use]
    pub fn is_alone(self) -> bool {
        matches!(self, Self::None | Self::Simulator)
    }

    /// Returns the range of valid MTUs; none without devices.
    #[must_use]
    pub fn mtus(self) -> RangeInclusive<u32> {
        match self {
            Self::Netem | Self::Veth => 576..=65_535,
            Self::Loopback => 576..=LOOPBACK_MTU,
            Self::None | Self::Simulator => RangeInclusive::new(1, 0),
        }
    }
}

impl NetworkPlan {
    /// Returns the MTU of the devices.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        let usual = if self.kind == NetworkKind::Loopback { LOOPBACK_MTU } else { 1500 };
        self.mtu.unwrap_or(usual)
    }

    /// Returns every how many packets of a loopback interface one is dropped (0: none), if the plan says so.
    ///
    /// # Errors
    /// If the setting is not such a number.
    pub fn loss_every(&self) -> Result<Option<u32>, String> {
        let Some(text) = &self.loss_every else { return Ok(None) };
        match text.parse() {
            Ok(every) if every != 1 => Ok(Some(every)),
            _ => Err(format!(
                "loss-every = \"{text}\" must be 0 or a number from 2: \"10\" is every tenth packet"
            )),
        }
    }

    /// Returns the congestion control of the kernel's TCP on a network created for the run.
    #[must_use]
    pub fn tcp(&self) -> &str {
        self.tcp.as_deref().unwrap_or("cubic")
    }

    /// Returns the network as recorded for a run: without a network of its own, TCP uses the system's
    /// congestion control whatever the plan says, and a simulation has no TCP.
    #[must_use]
    pub fn as_made(&self) -> Self {
        let tcp = match self.kind {
            NetworkKind::Netem | NetworkKind::Veth | NetworkKind::Loopback => self.tcp().to_owned(),
            NetworkKind::None => system_tcp(),
            NetworkKind::Simulator => "none".to_owned(),
        };
        let mtu = (!self.kind.is_alone()).then(|| self.mtu());
        Self { tcp: Some(tcp), mtu, ..self.clone() }
    }

    /// Returns the topology for the kernel's settings, without paths.
    pub(super) fn topology(&self) -> Topology {
        Topology {
            paths: Vec::new(),
            mtu: u16::try_from(self.mtu()).unwrap_or(u16::MAX),
            ipv6: false,
            tcp: self.tcp().to_owned(),
            schedule: Vec::new(),
            seed: 0,
        }
    }

    /// Returns the network of a series.
    #[must_use]
    pub fn with(&self, change: &NetworkChange) -> Self {
        let mut network = self.clone();
        let NetworkChange { kind, link, to_right, to_left, schedule, tcp, mtu, loss_every, offloads } =
            change.clone();
        network.kind = kind.unwrap_or(network.kind);
        network.link = link.unwrap_or(network.link);
        network.to_right = to_right.unwrap_or(network.to_right);
        network.to_left = to_left.unwrap_or(network.to_left);
        network.schedule = schedule.unwrap_or(network.schedule);
        network.tcp = tcp.or(network.tcp);
        network.mtu = mtu.or(network.mtu);
        network.loss_every = loss_every.or(network.loss_every);
        network.offloads = offloads.unwrap_or(network.offloads);
        network
    }

    /// Returns the processors that a side's programs run on, in the syntax of taskset(1).
    #[must_use]
    pub fn cores(&self, side: Side) -> Option<&str> {
        let [client, server] = self.cores.as_ref()?;
        Some(if side == Side::Left { client } else { server })
    }
}

/// Formats the kind as written in plans.
impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Netem => "netem",
            Self::Veth => "veth",
            Self::Loopback => "loopback",
            Self::None => "none",
            Self::Simulator => "simulator",
        })
    }
}

/// Formats the network on one line for people.
impl fmt::Display for NetworkPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.paths != 1 {
            write!(f, "; {} paths", self.paths)?;
        }
        let texts = [
            ("", &self.link),
            ("to the right ", &self.to_right),
            ("to the left ", &self.to_left),
            ("schedule ", &self.schedule),
        ];
        for (name, text) in texts {
            if !text.is_empty() {
                write!(f, "; {name}{text}")?;
            }
        }
        if let Some(mtu) = self.mtu {
            write!(f, "; mtu={mtu}")?;
        }
        if let Some(every) = &self.loss_every {
            write!(f, "; loss-every={every}")?;
        }
        if self.offloads {
            write!(f, "; offloads")?;
        }
        if let Some([client, server]) = &self.cores {
            write!(f, "; cores {client} and {server}")?;
        }
        if let Some(core) = self.emulator_core {
            write!(f, "; emulator on core {core}")?;
        }
        if let Some(limit) = &self.late_limit {
            write!(f, "; late-limit={limit}")?;
        }
        write!(f, "; tcp={}", self.tcp())
    }
}
