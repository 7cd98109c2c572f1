//! What a plan says of the network.

use core::fmt;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::netem::topology::{Side, Topology};

/// What the kernel gives a loopback interface.
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
    /// None: the programs make what they need themselves.
    None,
    /// None: the program simulates in virtual time.
    Simulator,
}

/// What is between the two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetworkPlan {
    /// What carries the packets.
    pub kind: NetworkKind,
    /// Settings of the emulator for both directions; may have variables.
    #[serde(default)]
    pub link: String,
    /// Settings on top of them from left (client) to right (server).
    #[serde(default)]
    pub to_right: String,
    /// Settings on top of them from right to left.
    #[serde(default)]
    pub to_left: String,
    /// How many paths there are, all with these settings: netem.
    #[serde(default = "one_path", skip_serializing_if = "is_one_path")]
    pub paths: u8,
    /// Changes while it runs, as `--schedule` of the emulator has them; their clock begins with the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schedule: String,
    /// Congestion control of the kernel's TCP, on every network that is made here: CUBIC if not given. Without such a network
    /// it is the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// MTU of the devices; if not given 1,500, and 65,536 of a loopback interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Whether the veth pair passes bursts whole (TSO, GSO, GRO and the same for UDP).
    #[serde(default)]
    pub offloads: bool,
    /// Processors of the client and of the server, as taskset(1) takes them.
    pub cores: Option<[String; 2]>,
    /// Lateness of the emulator above which a run is invalid.
    pub late_limit: Option<String>,
    /// The processor of the emulator, which its thread doesn't leave: netem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator_core: Option<usize>,
}

/// The congestion control that sockets begin with here.
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

/// What a series changes of the network.
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
    /// See [`NetworkPlan::offloads`].
    pub offloads: Option<bool>,
}

impl NetworkKind {
    /// Whether nothing is made for a run: no root is needed, and there are no two sides.
    #[must_use]
    pub fn is_alone(self) -> bool {
        matches!(self, Self::None | Self::Simulator)
    }

    /// The MTUs that its devices may have: none without devices.
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
    /// MTU of the devices.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        let usual = if self.kind == NetworkKind::Loopback { LOOPBACK_MTU } else { 1500 };
        self.mtu.unwrap_or(usual)
    }

    /// Congestion control of the kernel's TCP on a network that is made here.
    #[must_use]
    pub fn tcp(&self) -> &str {
        self.tcp.as_deref().unwrap_or("cubic")
    }

    /// As it was for a run: on no network of our own TCP takes the system's congestion control, whatever the plan says,
    /// and a simulation has no TCP.
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

    /// What the kernel is told of it, without paths.
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

    /// The network of a series.
    #[must_use]
    pub fn with(&self, change: &NetworkChange) -> Self {
        let mut network = self.clone();
        let NetworkChange { kind, link, to_right, to_left, schedule, tcp, mtu, offloads } = change.clone();
        network.kind = kind.unwrap_or(network.kind);
        network.link = link.unwrap_or(network.link);
        network.to_right = to_right.unwrap_or(network.to_right);
        network.to_left = to_left.unwrap_or(network.to_left);
        network.schedule = schedule.unwrap_or(network.schedule);
        network.tcp = tcp.or(network.tcp);
        network.mtu = mtu.or(network.mtu);
        network.offloads = offloads.unwrap_or(network.offloads);
        network
    }

    /// The processors that a side's programs run on, as taskset(1) takes them.
    #[must_use]
    pub fn cores(&self, side: Side) -> Option<&str> {
        let [client, server] = self.cores.as_ref()?;
        Some(if side == Side::Left { client } else { server })
    }
}

/// As plans write it.
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

/// All of it in a line, for people.
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
