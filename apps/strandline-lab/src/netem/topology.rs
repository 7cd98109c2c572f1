//! Which paths there are between the two networks, with what addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strandline_netem::{Link, LinkConfig};

use super::schedule::{Direction, Entry};

/// How many paths there may be.
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
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    /// `left` or `right`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }

    /// Its host part in the addresses.
    fn host(self) -> u8 {
        match self {
            Self::Left => 1,
            Self::Right => 2,
        }
    }

    /// Its IPv4 address on a path (from 1): 10.0.PATH.1 or 10.0.PATH.2.
    #[must_use]
    pub fn ipv4(self, path: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, u8::try_from(path).unwrap_or(u8::MAX), self.host())
    }

    /// Its IPv6 address on a path (from 1): fd00:0:0:PATH::1 or ::2.
    #[must_use]
    pub fn ipv6(self, path: usize) -> Ipv6Addr {
        let path = u16::try_from(path).unwrap_or(u16::MAX);
        Ipv6Addr::new(0xfd00, 0, 0, path, 0, 0, 0, u16::from(self.host()))
    }
}

/// The network to be emulated.
#[derive(Debug, Clone)]
pub struct Topology {
    /// For each path its links to the right and to the left.
    pub paths: Vec<[LinkConfig; 2]>,
    /// MTU of every device.
    pub mtu: u16,
    /// Whether there are IPv6 addresses, too.
    pub ipv6: bool,
    /// Congestion control of the kernel's TCP.
    pub tcp: String,
    /// Changes to come.
    pub schedule: Vec<Entry>,
    /// Seed of all random decisions.
    pub seed: u64,
}

impl Topology {
    /// The link of a path (from 0) in a direction, with a seed of its own.
    #[must_use]
    pub fn link(&self, path: usize, direction: Direction) -> Link {
        let index = usize::from(direction == Direction::ToLeft);
        let config = self.paths.get(path).and_then(|links| links.get(index)).cloned().unwrap_or_default();
        // Different for each link; any odd factor will do.
        let number = (path * 2 + index) as u64;
        Link::new(config, self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// The addresses of a side, path by path: IPv4, then IPv6 if there is.
    pub fn addresses(&self, side: Side) -> impl Iterator<Item = IpAddr> {
        let (v4, v6) = (self.paths.len(), if self.ipv6 { self.paths.len() } else { 0 });
        let v4 = (1..=v4).map(move |path| IpAddr::V4(side.ipv4(path)));
        v4.chain((1..=v6).map(move |path| IpAddr::V6(side.ipv6(path))))
    }

    /// What stands for addresses in a program's arguments: `{left}`, `{right}` (path 1), `{left.2}`, `{right6}`,
    /// `{right6.2}`, ... with what replaces it, and the same as variables of the environment: `LEFT`, `RIGHT_2`, ...
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

    /// A program's argument with addresses in place of what stands for them.
    #[must_use]
    pub fn substitute(&self, text: &str) -> String {
        let all = self.substitutions();
        all.iter().fold(text.to_owned(), |text, (placeholder, _, address)| text.replace(placeholder, address))
    }
}

#[cfg(test)]
mod tests;
