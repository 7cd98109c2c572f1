//! What is captured: destinations whose connections come to a gateway without the knowledge of their clients. No I/O.

use std::fmt;
use std::str::FromStr;

use crate::rules::Network;

/// One entry of a list: `[!]NETWORK[:PORTS]`. The ports are numbers and ranges, separated by commas. An entry
/// with `!` is left out, wherever it stands in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) network: Network,
    /// Ranges of ports; empty: all.
    pub(crate) ports: Vec<(u16, u16)>,
    pub(crate) is_excluded: bool,
}

impl FromStr for Capture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wants = || {
            format!(
                "`{text}` is not NETWORK[:PORTS], such as 10.2.0.0/16, 10.2.0.7:80,443, [2001:db8::/32]:8000-8100, or one of \
                 these with ! before it, which is left out"
            )
        };
        let (is_excluded, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (network, ports) = split(rest);
        let network: Network = network.parse().map_err(|_| wants())?;
        let ports = match ports {
            None | Some("*") => Vec::new(),
            Some(ports) => ports.split(',').map(range).collect::<Option<_>>().ok_or_else(wants)?,
        };
        Ok(Self { network, ports, is_excluded })
    }
}

/// Splits the network from the ports.
fn split(text: &str) -> (&str, Option<&str>) {
    // Colons of an IPv6 address come before `]` or `/`; one without either has no ports.
    let from = text.find([']', '/']).unwrap_or(0);
    let has_ports = from > 0 || text.matches(':').count() == 1;
    match text.get(from..).and_then(|rest| rest.find(':')).filter(|_| has_ports) {
        Some(at) => {
            let (network, ports) = text.split_at(from + at);
            (network, ports.get(1..))
        }
        None => (text, None),
    }
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first != 0 && first <= last).then_some((first, last))
}

impl fmt::Display for Capture {
    /// Writes what nftables matches.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.network.is_ipv6() { "ip6" } else { "ip" };
        write!(f, "{family} daddr {}", self.network)?;
        if self.ports.is_empty() {
            return f.write_str(" meta l4proto tcp");
        }
        f.write_str(" tcp dport { ")?;
        for (at, (first, last)) in self.ports.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            if first == last { write!(f, "{first}")? } else { write!(f, "{first}-{last}")? }
        }
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests;
