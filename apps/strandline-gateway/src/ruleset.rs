//! The rules that bring captured connections to a gateway, as text for nftables and `ip`. No I/O.
//!
//! A table has up to two chains of each kind:
//!
//! | chain | hook | connections |
//! |---|---|---|
//! | `own` | output | of this host's programs, for redirects |
//! | `forwarded` | prerouting | of other hosts, for redirects that listen beyond loopback |
//! | `diverted` | prerouting | of other hosts, with TPROXY |
//!
//! Other tables are for connections that are open, and outlast the first ([`Open`]).
//!
//! The flag `owner` ties the table to the process that has made it: the kernel removes it when that process
//! ends, however that happens.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::capture::Capture;

/// Mark of the gateway's own connections, which are not captured.
pub(crate) const OWN_MARK: u32 = 0x5354_4701;
/// Mark of packets that TPROXY diverts: a rule of routing leads them to this host.
const DIVERTED_MARK: u32 = 0x5354_4702;

/// A listener, and what comes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) listen: SocketAddr,
    pub(crate) is_tproxy: bool,
    pub(crate) captures: Vec<Capture>,
}

/// The rules of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ruleset {
    /// Number by which its table and its routes are told apart from those of other gateways.
    number: u32,
    captured: Vec<Captured>,
    /// Instead of what is captured: what open connections need.
    open: Option<Open>,
}

/// Open connections that need rules, also if no new ones are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// Redirected ones: the kernel translates their packets as long as any chain for that exists, and a rule
    /// that tracks connections.
    Redirected,
    /// Those of TPROXY, of IP version 4 or 6: packets for which there is a socket are diverted to this host.
    Diverted(u8),
}

impl Ruleset {
    pub(crate) const fn new(number: u32, captured: Vec<Captured>) -> Self {
        Self { number, captured, open: None }
    }

    /// Returns the rules that open connections need.
    pub(crate) const fn for_open(number: u32, open: Open) -> Self {
        Self { number, captured: Vec::new(), open: Some(open) }
    }

    /// Returns the open connections that these rules are for; `None` if they are for new ones.
    pub(crate) const fn open(&self) -> Option<Open> {
        self.open
    }

    /// Returns what connections need, once they are open, that come by these rules.
    pub(crate) fn needs(&self) -> impl Iterator<Item = Open> {
        let redirected = self.captured.iter().any(|captured| !captured.is_tproxy);
        redirected.then_some(Open::Redirected).into_iter().chain(self.families().map(Open::Diverted))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.captured.is_empty() && self.open.is_none()
    }

    /// Returns the name of the table, of family `inet`.
    pub(crate) fn table(&self) -> String {
        format!("strandline_gateway_{}", self.number)
    }

    /// Returns the input of `nft`.
    pub(crate) fn nft(&self) -> String {
        let mut text = format!("table inet {} {{\n  flags owner;\n", self.table());
        let of_programs = |captured: &&Captured| !captured.is_tproxy;
        let of_others = |captured: &&Captured| !captured.is_tproxy && !captured.listen.ip().is_loopback();
        let diverted = |captured: &&Captured| captured.is_tproxy;
        let chain = |text: &mut String, name: &str, hook: &str, chosen: Vec<&Captured>| {
            if chosen.is_empty() {
                return;
            }
            // Writing to a string can't fail.
            let _ = write!(text, "  chain {name} {{\n    type {hook}; policy accept;\n");
            let _ = writeln!(text, "    meta mark {OWN_MARK:#x} return;");
            text.push_str("    fib daddr type local return;\n");
            for capture in chosen.iter().flat_map(|each| &each.captures).filter(|capture| capture.is_excluded)
            {
                let _ = writeln!(text, "    {capture} return;");
            }
            for each in chosen {
                for capture in each.captures.iter().filter(|capture| !capture.is_excluded) {
                    let _ = writeln!(text, "    {capture} {};", each.verdict(capture));
                }
            }
            text.push_str("  }\n");
        };
        let all = &self.captured;
        let own = all.iter().filter(of_programs).collect();
        chain(&mut text, "own", "nat hook output priority -100", own);
        let others = all.iter().filter(of_others).collect();
        chain(&mut text, "forwarded", "nat hook prerouting priority -100", others);
        let diverted = all.iter().filter(diverted).collect();
        chain(&mut text, "diverted", "filter hook prerouting priority -150", diverted);
        match self.open {
            None => {}
            Some(Open::Redirected) => text.push_str(
                "  chain open {\n    type nat hook output priority -100; policy accept;\n    ct state established accept;\n  }\n",
            ),
            Some(Open::Diverted(family)) => {
                let _ = write!(
                    text,
                    "  chain open {{\n    type filter hook prerouting priority -150; policy accept;\n    \
                     meta nfproto ipv{family} meta l4proto tcp socket transparent 1 socket wildcard 0 \
                     meta mark set {DIVERTED_MARK:#x} accept;\n  }}\n"
                );
            }
        }
        text.push_str("}\n");
        text
    }

    /// Returns the words of the `ip` commands that lead diverted packets to this host.
    pub(crate) fn routes(&self) -> Vec<String> {
        self.families()
            .flat_map(|family| {
                let (any, table) = (if family == 4 { "0.0.0.0/0" } else { "::/0" }, self.number);
                [
                    format!("-{family} route add local {any} dev lo table {table}"),
                    format!("-{family} rule add fwmark {DIVERTED_MARK:#x} lookup {table}"),
                ]
            })
            .collect()
    }

    /// Returns the words of the `ip` commands that undo [`routes`](Self::routes).
    pub(crate) fn undo(&self) -> Vec<String> {
        self.families().flat_map(|family| undo(family, self.number)).collect()
    }

    /// Returns the IP versions with diverted packets.
    fn families(&self) -> impl Iterator<Item = u8> {
        let has = |is_ipv6: bool| {
            self.captured.iter().any(|each| each.is_tproxy && each.listen.is_ipv6() == is_ipv6)
        };
        [4, 6]
            .into_iter()
            .filter(move |family| has(*family == 6) || self.open == Some(Open::Diverted(*family)))
    }
}

/// Returns the words of the `ip` commands that undo the routes of an IP version.
pub(crate) fn undo(family: u8, number: u32) -> [String; 2] {
    [
        format!("-{family} rule del fwmark {DIVERTED_MARK:#x} lookup {number}"),
        format!("-{family} route flush table {number}"),
    ]
}

/// Returns the numbers of rulesets with diverted packets, from the output of `ip rule`.
pub(crate) fn routed(listed: &str) -> Vec<u32> {
    let mark = format!("fwmark {DIVERTED_MARK:#x} lookup ");
    let after = |line: &str| line.split_once(&mark).map(|(_, number)| number.trim().to_owned());
    listed.lines().filter_map(|line| after(line)?.parse().ok()).collect()
}

impl Captured {
    /// Returns what happens to packets that match.
    fn verdict(&self, capture: &Capture) -> String {
        let (ip, port) = (self.listen.ip(), self.listen.port());
        let family = if capture.network.is_ipv6() { "ip6" } else { "ip" };
        let address = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        if self.is_tproxy {
            let to = if ip.is_unspecified() { format!(":{port}") } else { format!("{address}:{port}") };
            return format!("meta mark set {DIVERTED_MARK:#x} tproxy {family} to {to} accept");
        }
        if ip.is_unspecified() || ip.is_loopback() {
            format!("redirect to :{port}")
        } else {
            format!("dnat {family} to {address}:{port}")
        }
    }
}

#[cfg(test)]
mod tests;
