//! The listeners of a configuration: the identity of each socket, where its connections go, and how it is announced.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::config::{ListenerConfig, ListenerKind, Settings, UdpForward};
use crate::handover::{ListenerId, SocketKind};
use crate::link::Link;
use crate::listeners::{Target, UdpTarget};
use crate::ruleset::Captured;

/// A listener of the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DesiredListener<'a> {
    Tcp(&'a ListenerConfig),
    Udp(&'a UdpForward),
}

/// A listener as status and start-up output show it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AnnouncedListener {
    pub(crate) listener: &'static str,
    pub(crate) listen: SocketAddr,
    pub(crate) peer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// Whether it accepts nothing, because its socket has failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) failed: bool,
}

/// Returns what rules bring to each socket, whose address `listens` knows.
pub(crate) fn captured(settings: &Settings, listens: impl Fn(ListenerId) -> SocketAddr) -> Vec<Captured> {
    let all = wanted(settings).into_iter().filter_map(|(id, desired)| match desired {
        DesiredListener::Tcp(desired) => captured_by(desired, listens(id)),
        DesiredListener::Udp(_) => None,
    });
    all.collect()
}

/// Returns what rules bring to the socket of a listener at an address; `None` if none do.
pub(crate) fn captured_by(desired: &ListenerConfig, listen: SocketAddr) -> Option<Captured> {
    let captures = desired.kind.captures().to_vec();
    let is_tproxy = matches!(desired.kind, ListenerKind::Tproxy { .. });
    (!captures.is_empty()).then_some(Captured { listen, is_tproxy, captures })
}

/// Returns where the connections of a listener go.
pub(crate) fn tcp_target(desired: &ListenerConfig, link: &Arc<Link>) -> Target {
    Target {
        kind: Arc::new(desired.kind.clone()),
        link: Arc::clone(link),
        from: desired.from.clone(),
        _user: link.users.socket(),
    }
}

/// Returns where the datagrams of a socket go.
pub(crate) fn udp_target(forward: &UdpForward, link: &Arc<Link>) -> UdpTarget {
    UdpTarget { forward: Arc::new(forward.clone()), link: Arc::clone(link), _user: link.users.socket() }
}

/// Returns how a listener at an address is announced.
pub(crate) fn announced(listen: SocketAddr, desired: DesiredListener<'_>, link: &Link) -> AnnouncedListener {
    let (name, to) = match desired {
        DesiredListener::Tcp(ListenerConfig { kind: ListenerKind::Forward { to }, .. }) => {
            ("forward", Some(to))
        }
        DesiredListener::Tcp(desired) => (desired.kind.name(), None),
        DesiredListener::Udp(forward) => ("udp", Some(&forward.to)),
    };
    let (peer, to) = (link.name.to_string(), to.map(ToString::to_string));
    AnnouncedListener { listener: name, listen, peer, to, failed: false }
}

/// Returns all listeners of a configuration, with the identity of each socket.
pub(crate) fn wanted(settings: &Settings) -> Vec<(ListenerId, DesiredListener<'_>)> {
    let mut all: Vec<(ListenerId, DesiredListener<'_>)> = Vec::new();
    let tcp = settings.listeners.iter().map(|desired| {
        let kind = match desired.kind {
            ListenerKind::Tproxy { .. } => SocketKind::Transparent,
            ListenerKind::Preload { .. } => SocketKind::Narrow,
            _ => SocketKind::Tcp,
        };
        (desired.listen, kind, DesiredListener::Tcp(desired))
    });
    let udp = settings
        .udp_forwards
        .iter()
        .map(|desired| (desired.listen, SocketKind::Udp, DesiredListener::Udp(desired)));
    for (listen, kind, desired) in tcp.chain(udp) {
        let number = all.iter().filter(|(id, _)| id.listen == listen && id.kind == kind).count();
        all.push((ListenerId { listen, kind, number }, desired));
    }
    all
}
