//! `--check` tries what a start would do: it binds the addresses, opens the access log, and has nft check the rules of
//! captured connections. All failures are reported, not only the first.

use std::fs::OpenOptions;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use anyhow::Result;
use strandline_ops::{Flaw, StartAddress, bind_hint, not_opened};

use crate::config::{ListenerConfig, Settings};
use crate::desired_listeners::captured_by;
use crate::interception;
use crate::listeners;
use crate::ruleset::{Captured, Ruleset};

/// Returns why a gateway could not start now.
pub(crate) fn flaws(settings: &Settings) -> Vec<Flaw> {
    let mut flaws = listen_flaws(settings);
    for listener in &settings.listeners {
        let name = listener.kind.name();
        let address = address(format!("{name}[{}].listen", listener.place), name, listener.listen);
        let error = listeners::try_bind(listener).err();
        flaws.extend(error.map(|error| address.failed(&error, |error| listeners::hint(listener, error))));
    }
    for forward in &settings.udp_forwards {
        let key = format!("forward[{}].listen", forward.place);
        let address = StartAddress { is_udp: true, ..address(key, "forward of UDP", forward.listen) };
        flaws.extend(address.not_bound(bind_hint));
    }
    let admin = settings.admin.map(|at| address("admin".to_owned(), "admin", at));
    flaws.extend(admin.and_then(|admin| admin.not_bound(bind_hint)));
    if let Some(log) = settings.access_log.as_deref().filter(|path| *path != Path::new("-")) {
        flaws.extend(not_opened("access_log", log, OpenOptions::new().append(true)));
    }
    flaws.extend(interception_flaw(settings));
    flaws
}

/// Returns why the rules of captured connections can't be set: an error of the first listener whose rules fail.
fn interception_flaw(settings: &Settings) -> Option<Flaw> {
    let with_captures = settings.listeners.iter();
    let all: Vec<(&ListenerConfig, Captured)> =
        with_captures.filter_map(|each| Some((each, captured_by(each, each.listen)?))).collect();
    let together = check_rules(all.iter().map(|(_, captured)| captured.clone()).collect()).err()?;
    let alone = |(listener, captured): &(&'_ ListenerConfig, Captured)| {
        let error = check_rules(vec![captured.clone()]).err()?;
        Some((format!("{}[{}].capture", listener.kind.name(), listener.place), error))
    };
    // Rules may fail only together.
    let (key, error) = all.iter().find_map(alone).unwrap_or_else(|| ("capture".to_owned(), together));
    Some(Flaw { key: key.into(), message: format!("{error:#}"), is_error: true })
}

/// Checks what a start would set.
fn check_rules(captured: Vec<Captured>) -> Result<()> {
    let rules = Ruleset::new(0, captured);
    let needs_routes = !rules.routes().is_empty();
    let open = rules.needs().map(|open| Ruleset::for_open(0, open));
    let all: Vec<Ruleset> = open.chain([rules.clone()]).filter(|rules| !rules.is_empty()).collect();
    all.iter().try_for_each(interception::check)?;
    if needs_routes { interception::check_routes() } else { Ok(()) }
}

fn address(key: String, name: &str, address: SocketAddr) -> StartAddress {
    StartAddress { key: key.into(), name: name.to_owned(), address, is_udp: false }
}

/// Returns why associations can't be accepted. The socket has all addresses if several are listed, which must be those
/// of this host nevertheless.
fn listen_flaws(settings: &Settings) -> Vec<Flaw> {
    let Some(listen) = &settings.listen else { return Vec::new() };
    let at = |at| StartAddress { is_udp: true, ..address("listen".to_owned(), "associations", at) };
    let missing = listen.addresses.iter().filter_map(|ip| {
        let any_port: io::Result<UdpSocket> = UdpSocket::bind((*ip, 0));
        Some(at((*ip, listen.socket.port()).into()).failed(&any_port.err()?, bind_hint))
    });
    let mut flaws: Vec<Flaw> = missing.collect();
    flaws.extend(at(listen.socket).not_bound(bind_hint));
    flaws
}
