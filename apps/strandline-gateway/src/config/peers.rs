//! The peers, and where they are asked to listen.

use std::sync::Arc;
use std::time::Duration;

use strandline_ops::{ConfigErrors, Flaw};

use super::file::{self, File, Protocol};
use super::mapping::{self, MapRule};
use super::{
    ConfigError, FLOW_IDLE_TIMEOUT, FlowTimes, IDLE_TIMEOUT, Keep, LIFETIME, ListenerConfig, Peer, Reverse,
    SCTP_PORT, Security, UdpForward, WAIT, local, sctp_port, seconds, wrong,
};

/// Checks a peer.
pub(super) fn check_peer(
    at: usize,
    file: &File,
    security: Security,
    errors: &mut ConfigErrors,
) -> Option<Peer> {
    let all = &file.peer;
    let peer = all.get(at)?;
    let key = |key: &str| format!("peer[{at}].{key}");
    let is_name = peer.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if peer.name.is_empty() || !is_name {
        let message = format!("`{}` is not a name of letters, digits, `-`, `_` and `.`", peer.name);
        errors.add(wrong(key("name"), message));
    } else if all.iter().take(at).any(|other| other.name == peer.name) {
        errors.add(wrong(key("name"), format!("`{}` is the name of another peer, too", peer.name)));
    }
    if peer.addresses.is_empty() {
        errors.add(wrong(key("addresses"), "at least one HOST:PORT of the far gateway's --listen"));
    }
    let (map, contexts_max) = mapping::check_peer(at, peer, errors);
    let addresses = errors.take_all(&key("addresses"), peer.addresses.iter().map(|text| text.parse()));
    Some(Peer {
        name: peer.name.clone(),
        addresses,
        sctp_port: errors.take_or(sctp_port(&key("sctp_port"), peer.sctp_port), SCTP_PORT),
        keep: peer.keep,
        idle_timeout: peer.idle_timeout_secs.map_or(IDLE_TIMEOUT, seconds),
        fallback: peer.fallback,
        wait: peer.wait_ms.map_or(WAIT, |ms| Duration::from_millis(ms.into())),
        map,
        contexts_max,
        security,
        is_needed: true,
        identity: identity(at, file),
    })
}

/// Returns all that is said of a peer: an association with it is kept as long as that is the same.
fn identity(at: usize, file: &File) -> String {
    let name = file.peer.get(at).map(|peer| peer.name.as_str());
    let is_of_it = |reverse: &&file::Forward| reverse.peer.as_deref().is_none_or(|peer| Some(peer) == name);
    let reverses: Vec<_> = file.reverse.iter().filter(is_of_it).collect();
    format!("{:?} {reverses:?}", file.peer.get(at))
}

/// Notes which peers may need an association.
pub(super) fn note_needed(
    peers: &mut [Peer],
    map: &[Arc<MapRule>],
    reverses: &[Reverse],
    udp_forwards: &[UdpForward],
) {
    for (at, peer) in peers.iter_mut().enumerate() {
        peer.is_needed = mapping::may_be_stream(map, peer)
            || reverses.iter().any(|reverse| reverse.peer == at)
            || udp_forwards.iter().any(|forward| forward.peer == at);
        peer.identity += if peer.is_needed { "" } else { " not needed" };
    }
}

/// Checks where peers are asked to listen.
pub(super) fn check_reverses(file: &File, errors: &mut ConfigErrors) -> Vec<Reverse> {
    let mut reverses = Vec::new();
    for (at, reverse) in file.reverse.iter().enumerate() {
        let key = |key: &str| format!("reverse[{at}].{key}");
        if !reverse.from.is_empty() {
            errors.add(wrong(key("from"), "its clients are the peer's: there is no such key"));
        }
        let listen = errors.take(local(&key("listen"), &reverse.listen));
        let peer = errors.take(find_peer("reverse", at, reverse.peer.as_deref(), &file.peer));
        let to = reverse.to.parse().map_err(|error: String| wrong(key("to"), error));
        let to = errors.take(to);
        let udp = errors.take(flow_times("reverse", at, reverse));
        if let (Some(listen), Some(peer), Some(to), Some(udp)) = (listen, peer, to, udp) {
            reverses.push(Reverse { listen, peer, to, udp });
        }
    }
    reverses
}

/// Returns which peers are asked to listen only for a while, or never: no client of theirs sets an association up.
pub(super) fn on_demand_flaws(
    peers: &[Peer],
    reverses: &[Reverse],
    listeners: &[ListenerConfig],
    udp_forwards: &[UdpForward],
) -> Vec<Flaw> {
    let on_demand = |reverse: &Reverse| peers.get(reverse.peer).filter(|peer| peer.keep == Keep::OnDemand);
    let flaw_of = |(at, reverse): (usize, &Reverse)| {
        let peer = on_demand(reverse)?;
        let has_clients = listeners.iter().any(|listener| listener.peer == reverse.peer)
            || udp_forwards.iter().any(|forward| forward.peer == reverse.peer);
        let when = match has_clients {
            true => "it listens only while clients here have an association with it",
            false => "it never listens, because no listener here sets an association up",
        };
        let message = format!("peer {} is kept on-demand: {when}; use keep = \"warm\"", peer.name);
        Some(Flaw { key: format!("reverse[{at}]").into(), message, is_error: false })
    };
    reverses.iter().enumerate().filter_map(flaw_of).collect()
}

/// Returns the times of UDP flows; TCP has none.
pub(super) fn flow_times(
    table: &str,
    at: usize,
    forward: &file::Forward,
) -> Result<Option<FlowTimes>, ConfigError> {
    if forward.protocol == Protocol::Udp {
        return Ok(Some(FlowTimes {
            lifetime: forward.lifetime_ms.map_or(LIFETIME, |ms| Duration::from_millis(ms.into())),
            idle_timeout: forward.idle_timeout_secs.map_or(FLOW_IDLE_TIMEOUT, seconds),
        }));
    }
    let given = [("lifetime_ms", forward.lifetime_ms), ("idle_timeout_secs", forward.idle_timeout_secs)];
    match given.iter().find(|(_, value)| value.is_some()) {
        Some((key, _)) => Err(wrong(format!("{table}[{at}].{key}"), "only for protocol = \"udp\"")),
        None => Ok(None),
    }
}

/// Returns the number of the peer that an entry names; the only one need not be named.
pub(super) fn find_peer(
    table: &str,
    at: usize,
    name: Option<&str>,
    peers: &[file::Peer],
) -> Result<usize, ConfigError> {
    let key = format!("{table}[{at}].peer");
    let known = || peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, peers) {
        (_, []) => Err(wrong(key, "no peer is defined: give --peer NAME=HOST:PORT, or a table [[peer]]")),
        (None, [_]) => Ok(0),
        (None, _) => {
            Err(wrong(key, format!("there are several peers, so it must be one of them: {}", known())))
        }
        (Some(name), _) => peers
            .iter()
            .position(|peer| peer.name == name)
            .ok_or_else(|| wrong(key, format!("there is no peer `{name}`, only: {}", known()))),
    }
}
