//! The ways in: where connections and datagrams are accepted for a peer, and from whom.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use strandline_ops::{ConfigErrors, Flaw};

use super::file::{self, File};
use super::peers::{find_peer, flow_times};
use super::{ConfigError, ListenerConfig, ListenerKind, UdpForward, flaw, local, wrong};
use crate::capture::Capture;
use crate::protocol::Destination;
use crate::rules::Network;

/// The clients that a way in is for: those of some networks, or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clients(Arc<[Network]>);

impl Clients {
    pub(crate) fn include(&self, client: IpAddr) -> bool {
        self.0.is_empty() || self.0.iter().any(|network| network.contains(client))
    }
}

/// A table, and the number of its entry.
type Place = (&'static str, usize);

/// What tables of ways in have in common.
trait Way {
    fn listen(&self) -> &str;
    fn peer(&self) -> Option<&str>;
    fn clients(&self) -> &[String];
    /// Serves only what the kernel leads there.
    fn is_transparent(&self) -> bool {
        false
    }
}

macro_rules! ways {
    ($($table:ty, $is_transparent:literal;)+) => {$(
        impl Way for $table {
            fn listen(&self) -> &str {
                &self.listen
            }

            fn peer(&self) -> Option<&str> {
                self.peer.as_deref()
            }

            fn clients(&self) -> &[String] {
                &self.from
            }

            fn is_transparent(&self) -> bool {
                $is_transparent
            }
        }
    )+};
}

ways! {
    file::Proxy, false;
    file::Forward, false;
    file::Transparent, true;
}

/// Where a way in listens, for whom, and the number of its peer.
type Checked = (SocketAddr, Clients, usize);

/// The check of all ways in, and what it has found.
struct Check<'a> {
    file: &'a File,
    errors: &'a mut ConfigErrors,
    flaws: &'a mut Vec<Flaw>,
    listeners: Vec<ListenerConfig>,
    udp_forwards: Vec<UdpForward>,
}

impl Check<'_> {
    /// Checks where a way in listens, and whom it is for. Where other machines can reach it, that must be said.
    fn clients(&mut self, (table, at): Place, way: &dyn Way) -> Option<(SocketAddr, Clients)> {
        let key = |key: &str| format!("{table}[{at}].{key}");
        let from: Vec<Network> =
            self.errors.take_all(&key("from"), way.clients().iter().map(|text| text.parse()));
        let listen = self.errors.take(local(&key("listen"), way.listen()))?;
        let is_reachable = !listen.ip().to_canonical().is_loopback() && !way.is_transparent();
        if table == "preload" && is_reachable && !self.file.insecure {
            let message = format!(
                "{listen} is reachable from other machines: `strandline run` uses a gateway of its own host"
            );
            self.errors.add(wrong(key("listen"), message));
        } else if way.clients().is_empty() && is_reachable {
            let what = format!("{listen} is reachable from other machines, and all of them may use it");
            if self.file.insecure {
                self.flaws.push(flaw(table, &what));
            } else {
                let how = "name the networks of its clients, as from = [\"192.0.2.0/24\"] or --from 192.0.2.0/24, or listen on 127.0.0.1";
                self.errors.add(wrong(key("listen"), format!("{what}: {how}")));
            }
        }
        Some((listen, Clients(from.into())))
    }

    /// Checks what all ways in have.
    fn way(&mut self, (table, at): Place, way: &dyn Way) -> Option<Checked> {
        let peer = self.errors.take(find_peer(table, at, way.peer(), &self.file.peer));
        let (listen, from) = self.clients((table, at), way)?;
        Some((listen, from, peer?))
    }

    fn add(&mut self, (table, at): Place, way: &dyn Way, kind: ListenerKind) {
        if let Some((listen, from, peer)) = self.way((table, at), way) {
            self.listeners.push(ListenerConfig { kind, place: at, listen, peer, from });
        }
    }

    fn forward(&mut self, at: usize, entry: &file::Forward) {
        let to: Result<Destination, String> = entry.to.parse();
        let to = self.errors.take(to.map_err(|error| wrong(format!("forward[{at}].to"), error)));
        let times = self.errors.take(flow_times("forward", at, entry));
        let checked = self.way(("forward", at), entry);
        let (Some((listen, from, peer)), Some(to), Some(times)) = (checked, to, times) else { return };
        match times {
            Some(times) => self.udp_forwards.push(UdpForward { place: at, listen, peer, to, times, from }),
            None => {
                let kind = ListenerKind::Forward { to };
                self.listeners.push(ListenerConfig { kind, place: at, listen, peer, from });
            }
        }
    }
}

/// Checks all ways in.
pub(super) fn check(
    file: &File,
    errors: &mut ConfigErrors,
    flaws: &mut Vec<Flaw>,
) -> (Vec<ListenerConfig>, Vec<UdpForward>) {
    let mut check = Check { file, errors, flaws, listeners: Vec::new(), udp_forwards: Vec::new() };
    for (at, entry) in file.socks.iter().enumerate() {
        check.add(("socks", at), entry, ListenerKind::Socks { early_reply: entry.early_reply });
    }
    for (at, entry) in file.http_connect.iter().enumerate() {
        check.add(("http_connect", at), entry, ListenerKind::HttpConnect { early_reply: entry.early_reply });
    }
    for (at, entry) in file.preload.iter().enumerate() {
        check.add(("preload", at), entry, ListenerKind::Preload { early_reply: entry.early_reply });
    }
    for (at, entry) in file.forward.iter().enumerate() {
        check.forward(at, entry);
    }
    for (at, entry) in file.redirect.iter().enumerate() {
        let capture = check.errors.take_or(check_captures("redirect", at, entry), Vec::new());
        check.add(("redirect", at), entry, ListenerKind::Redirect { capture });
    }
    for (at, entry) in file.tproxy.iter().enumerate() {
        let capture = check.errors.take_or(check_captures("tproxy", at, entry), Vec::new());
        check.add(("tproxy", at), entry, ListenerKind::Tproxy { capture });
    }
    (check.listeners, check.udp_forwards)
}

/// Checks which connections rules are to bring to a socket. They need an address of their IP version there.
fn check_captures(table: &str, at: usize, entry: &file::Transparent) -> Result<Vec<Capture>, ConfigError> {
    let key = || format!("{table}[{at}].capture");
    let captures = entry.capture.iter().map(|text| text.parse()).collect::<Result<Vec<Capture>, String>>();
    let captures = captures.map_err(|message| wrong(key(), message))?;
    // An address that can't be parsed is reported by itself.
    let Ok(listen) = local(&format!("{table}[{at}].listen"), &entry.listen) else { return Ok(captures) };
    if captures.is_empty() {
        return Ok(captures);
    }
    let is_dual = listen.is_ipv6() && listen.ip().is_unspecified() && table == "redirect";
    if let Some(other) =
        captures.iter().find(|capture| capture.network.is_ipv6() != listen.is_ipv6() && !is_dual)
    {
        let message =
            format!("{} can't be captured at {listen}, an address of another IP version", other.network);
        return Err(wrong(key(), message));
    }
    if captures.iter().all(|capture| capture.is_excluded) {
        return Err(wrong(key(), "nothing is captured: all entries are left out by !"));
    }
    Ok(captures)
}
