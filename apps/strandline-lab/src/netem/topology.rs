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
mod tests {
    use super::*;

    fn topology(paths: usize, ipv6: bool) -> Topology {
        let paths = vec![[LinkConfig::default(), LinkConfig::default()]; paths];
        Topology { paths, mtu: 1500, ipv6, tcp: "cubic".to_owned(), schedule: Vec::new(), seed: 1 }
    }

    #[test]
    fn addresses_take_the_place_of_their_names() {
        let topology = topology(2, true);
        let text = topology.substitute("x {left} {right}:80 {right.2} [{right6.2}] {right.3} {other}");
        assert_eq!(text, "x 10.0.1.1 10.0.1.2:80 10.0.2.2 [fd00:0:0:2::2] {right.3} {other}");
        let variables: Vec<_> =
            topology.substitutions().into_iter().map(|(_, variable, _)| variable).collect();
        assert!(variables.contains(&"RIGHT6_2".to_owned()) && variables.contains(&"LEFT".to_owned()));
        assert_eq!(topology.addresses(Side::Left).count(), 4);
    }

    #[test]
    fn every_link_has_a_seed_of_its_own() {
        let mut topology = topology(2, false);
        for links in &mut topology.paths {
            for link in links {
                link.loss = strandline_netem::Loss::Random(0.5);
            }
        }
        let mut fates = Vec::new();
        for path in 0..2 {
            for direction in Direction::BOTH {
                let mut link = topology.link(path, direction);
                let fate: Vec<_> = (0..64).map(|_| link.offer(0, 100)).collect();
                assert!(!fates.contains(&fate), "path {path} {direction:?}");
                fates.push(fate);
            }
        }
    }
}
