//! Fuzz targets: functions of any bytes that panic if a parser of this crate breaks a promise.

use crate::control::Control;
use crate::header::{Header, TOKEN_LEN};
use crate::known_hosts::KnownHosts;
use crate::tags::{Inbound, Tags};

/// Any bytes as a datagram, as a message between layers, and as an SCTP packet of one of two connections.
/// What was parsed is written as it was read, and a packet never passes over both connections.
pub fn dtls_datagram(bytes: &[u8]) {
    if let Some(header) = Header::parse(bytes)
        && !matches!(header, Header::Initial { token, .. } if token.len() > TOKEN_LEN)
    {
        let mut written = Vec::new();
        header.write(&mut written);
        assert_eq!(written, bytes);
    }
    if let Some(control) = Control::parse(bytes) {
        assert_eq!(Control::parse(&control.to_bytes()), Some(control));
    }
    let mut tags = Tags::default();
    let first = tags.on_inbound(1, bytes);
    let _ = tags.on_outbound(bytes);
    if matches!(first, Inbound::Init(_)) {
        assert_eq!(tags.on_inbound(2, bytes), Inbound::Drop);
    }
}

/// Any text as a list of known hosts. It is written so that it means the same when it is read again.
pub fn known_hosts(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(mut hosts) = KnownHosts::parse(text) else { return };
    assert_eq!(KnownHosts::parse(&hosts.to_string()).as_ref(), Ok(&hosts));
    let all: Vec<_> = hosts.hosts().cloned().collect();
    assert!(all.iter().all(|host| !hosts.add(host.clone())), "each is listed already");
    all.iter().for_each(|host| {
        let _ = hosts.remove(&host.name);
    });
    assert_eq!(hosts.hosts().count(), 0);
}

#[cfg(test)]
mod tests;
