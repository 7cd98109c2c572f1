//! The topology: paths between the two sides, with their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strandline_netem::{Link, LinkConfig};

use super::schedule::{Direction, Entry};

/// Largest number of paths.
pub const PATHS_MAX: usize = 16;

/// One of the two networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Where the client usually runs.
    Left,
    /// Where the server usually runs.
    Right,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// Returns `left` or `right`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    /// Returns the host part of the side's addresses.
    fn host(self) -> u8 {
        match self {
            Self::Left => 1,
            Self::Right => 2,
        }
    }

    /// Returns the side's IPv4 address on a path (from 1): 10.0.PATH.1 or 10.0.PATH.2.
    #[must_use]
    pub fn ipv4(self, path: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, u8::try_from(path).unwrap_or(u8::MAX), self.host())
    }

    /// Returns the side's IPv6 address on a path (from 1): fd00:0:0:PATH::1 or ::2.
    #[must_use]
    pub fn ipv6(self, path: usize) -> Ipv6Addr {
        let path = u16::try_from(path).unwrap_or(u16::MAX);
        Ipv6Addr::new(0xfd00, 0, 0, path, 0, 0, 0, u16::from(self.host()))
    }
}

/// The network to emulate.
#[derive(Debug, Clone)]
pub struct Topology {
    /// For each path, its links to the right and to the left.
    pub paths: Vec<[LinkConfig; 2]>,
    /// MTU of every device.
    pub mtu: u16,
    /// Whether there are IPv6 addresses as well.
    pub ipv6: bool,
    /// Congestion control of the kernel's TCP.
    pub tcp: String,
    /// Scheduled changes.
    pub schedule: Vec<Entry>,
    /// Seed of all random decisions.
    pub seed: u64,
}

impl Topology {
    /// Returns the link of a path (from 0) in a direction, with its own seed.
    #[must_use]
    pub fn link(&self, path: usize, direction: Direction) -> Link {
        let index = usize::from(direction == Direction::ToLeft);
        let config = self.paths.get(path).and_then(|links| links.get(index)).cloned().unwrap_or_default();
        // Makes the seeds differ between links; any odd factor works.
        let number = (path * 2 + index) as u64;
        Link::new(config, self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns the addresses of a side by path: IPv4, then IPv6 if enabled.
    pub fn addresses(&self, side: Side) -> impl Iterator<Item = IpAddr> {
        let (v4, v6) = (self.paths.len(), if self.ipv6 { self.paths.len() } else { 0 });
        let v4 = (1..=v4).map(move |path| IpAddr::V4(side.ipv4(path)));
        v4.chain((1..=v6).map(move |path| IpAddr::V6(side.ipv6(path))))
    }

    /// Returns the placeholders for addresses in programs' arguments, with their values: `{left}`, `{right}`
    /// (path 1), `{left.2}`, `{right6}`, `{right6.2}`, ..., and the equivalent environment variables `LEFT`,
    /// `RIGHT_2`, ...
    #[must_use]
    pub fn substitutions(&self) -> Vec<(String, String, String)> {
        let mut all = Vec::new();
        for side in Side::BOTH {
            for path in 1..=self.paths.len() {
                let mut families = vec![("", IpAddr::V4(side.ipv4(path)))];
                if self.ipv6 {
                    families.push(("6", side.ipv6(path).into()));
                }
                for (family, address) in families {
                    let (name, upper) = (side.name(), side.name().to_uppercase());
                    if path == 1 {
                        let variable = format!("{upper}{family}");
                        all.push((format!("{{{name}{family}}}"), variable, address.to_string()));
                    }
                    let variable = format!("{upper}{family}_{path}");
                    all.push((format!("{{{name}{family}.{path}}}"), variable, address.to_string()));
                }
            }
        }
        all
    }

    /// Replaces the placeholders in a program's argument by addresses.
    #[must_use]
    pub fn substitute(&self, text: &str) -> String {
        let all = self.substitutions();
        all.iter().fold(text.to_owned(), |text, (placeholder, _, address)| text.replace(placeholder, address))
    }
}

#[cfg(test)]
mod tests;
