//! The ways in: where connections and datagrams are accepted for a peer, and from whom.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use strandline_ops::Flaw;

use super::file::{self, File};
use super::{
    ConfigError, ListenerConfig, ListenerKind, Peer, UdpForward, find_peer, flaw, flow_times, local, wrong,
};
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

/// Checks where a way in listens, and whom it is for. Where other machines can reach it, that must be said.
fn check_clients(
    (table, at): Place,
    way: &dyn Way,
    is_insecure: bool,
    flaws: &mut Vec<Flaw>,
) -> Result<(SocketAddr, Clients), ConfigError> {
    let key = |key: &str| format!("{table}[{at}].{key}");
    let listen = local(&key("listen"), way.listen())?;
    let from = way.clients().iter().map(|text| text.parse()).collect::<Result<Vec<Network>, String>>();
    let from = from.map_err(|message| wrong(key("from"), message))?;
    if from.is_empty() && !listen.ip().to_canonical().is_loopback() && !way.is_transparent() {
        let what = format!("{listen} is reachable from other machines, and all of them may use it");
        if !is_insecure {
            let how = "name the networks of its clients, as from = [\"192.0.2.0/24\"] or --from 192.0.2.0/24, or listen on 127.0.0.1";
            return Err(wrong(key("listen"), format!("{what}: {how}")));
        }
        flaws.push(flaw(table, &what));
    }
    Ok((listen, Clients(from.into())))
}

fn destination(at: usize, forward: &file::Forward) -> Result<Destination, ConfigError> {
    forward.to.parse().map_err(|error: String| wrong(format!("forward[{at}].to"), error))
}

/// Checks all ways in.
pub(super) fn check(
    file: &File,
    peers: &[Peer],
    flaws: &mut Vec<Flaw>,
) -> Result<(Vec<ListenerConfig>, Vec<UdpForward>), ConfigError> {
    let mut udp_forwards = Vec::new();
    let mut listeners = Vec::new();
    let mut add = |(table, at): Place, way: &dyn Way, kind: ListenerKind| {
        let (listen, from) = check_clients((table, at), way, file.insecure, flaws)?;
        let peer = find_peer(table, at, way.peer(), peers)?;
        listeners.push(ListenerConfig { kind, listen, peer, from });
        Ok::<(), ConfigError>(())
    };
    for (at, entry) in file.socks.iter().enumerate() {
        add(("socks", at), entry, ListenerKind::Socks { early_reply: entry.early_reply })?;
    }
    for (at, entry) in file.http_connect.iter().enumerate() {
        add(("http_connect", at), entry, ListenerKind::HttpConnect { early_reply: entry.early_reply })?;
    }
    for (at, entry) in file.preload.iter().enumerate() {
        let listen = local(&format!("preload[{at}].listen"), &entry.listen)?;
        if !listen.ip().to_canonical().is_loopback() && !file.insecure {
            let message = format!(
                "{listen} is reachable from other machines: `strandline run` uses a gateway of its own host"
            );
            return Err(wrong(format!("preload[{at}].listen"), message));
        }
        let kind = ListenerKind::Preload { early_reply: entry.early_reply };
        add(("preload", at), entry, kind)?;
    }
    for (at, entry) in file.forward.iter().enumerate() {
        let to = destination(at, entry)?;
        if flow_times("forward", at, entry)?.is_none() {
            add(("forward", at), entry, ListenerKind::Forward { to })?;
        }
    }
    for (at, entry) in file.redirect.iter().enumerate() {
        let capture = check_captures("redirect", at, entry)?;
        add(("redirect", at), entry, ListenerKind::Redirect { capture })?;
    }
    for (at, entry) in file.tproxy.iter().enumerate() {
        let capture = check_captures("tproxy", at, entry)?;
        add(("tproxy", at), entry, ListenerKind::Tproxy { capture })?;
    }
    for (at, entry) in file.forward.iter().enumerate() {
        let Some(times) = flow_times("forward", at, entry)? else { continue };
        let (listen, from) = check_clients(("forward", at), entry, file.insecure, flaws)?;
        let peer = find_peer("forward", at, entry.peer.as_deref(), peers)?;
        udp_forwards.push(UdpForward { listen, peer, to: destination(at, entry)?, times, from });
    }
    Ok((listeners, udp_forwards))
}

/// Checks which connections rules are to bring to a socket. They need an address of their IP version there.
fn check_captures(table: &str, at: usize, entry: &file::Transparent) -> Result<Vec<Capture>, ConfigError> {
    let key = || format!("{table}[{at}].capture");
    let captures = entry.capture.iter().map(|text| text.parse()).collect::<Result<Vec<Capture>, String>>();
    let captures = captures.map_err(|message| wrong(key(), message))?;
    if captures.is_empty() {
        return Ok(captures);
    }
    let listen = local(&format!("{table}[{at}].listen"), &entry.listen)?;
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
