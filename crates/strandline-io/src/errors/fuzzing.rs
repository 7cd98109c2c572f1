//! Any bytes as entries of a socket's error queue.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{ASSOCIATION_LEN, Errors, QUOTED_MAX, REPORTS_MAX, State};
use crate::IcmpKind;
use crate::sys::control::Messages;
use crate::sys::error_queue::{QueuedError, in_messages};

/// Entries of one input at most.
const ENTRIES_MAX: usize = 512;

/// Each entry is a byte of choices, the lengths of its control messages and of the quoted packet, and both. Reports are
/// bounded, and none is repeated.
pub fn run(bytes: &[u8]) {
    for encapsulated in [false, true] {
        let (errors, mut state) = (Errors::new(encapsulated), State::default());
        let mut rest = bytes;
        for _ in 0..ENTRIES_MAX {
            let Some(([choices, control, quoted], after)) = rest.split_first_chunk::<3>() else { break };
            let (control, after) = after.split_at(after.len().min(usize::from(*control)));
            let (quoted, after) = after.split_at(after.len().min(usize::from(*quoted)));
            rest = after;
            let entry =
                QueuedError { destination: destination(*choices), ..in_messages(Messages { rest: control }) };
            note(&errors, &mut state, &entry, quoted);
        }
    }
}

fn destination(choices: u8) -> Option<SocketAddr> {
    let port = 9_899 + u16::from(choices >> 4);
    match choices & 3 {
        0 => None,
        1 => Some((Ipv4Addr::LOCALHOST, port).into()),
        _ => Some((Ipv6Addr::LOCALHOST, port).into()),
    }
}

fn note(errors: &Errors, state: &mut State, entry: &QueuedError, quoted: &[u8]) {
    let before = state.reports.len();
    errors.note_entry(state, entry, quoted);
    assert!(state.reports.len() <= REPORTS_MAX, "a flood is bounded");
    let Some(last) = state.reports.back().filter(|_| state.reports.len() > before) else { return };
    assert_eq!(entry.destination.map(|to| to.ip()), Some(last.destination.ip()));
    assert_eq!(last.destination.port() != 0, errors.encapsulated, "SCTP over IP has no port of UDP");
    assert!(last.quoted.len() <= QUOTED_MAX && quoted.starts_with(&last.quoted));
    assert!(last.kind != IcmpKind::NoRoute, "only the system itself says so");
    if let IcmpKind::PacketTooBig { mtu } = last.kind {
        assert_eq!(mtu, entry.info);
    }
    let association = last.quoted.get(..ASSOCIATION_LEN);
    let repeats = state.reports.iter().rev().nth(1).is_some_and(|other| {
        (other.destination, other.kind) == (last.destination, last.kind)
            && other.quoted.get(..ASSOCIATION_LEN) == association
    });
    assert!(!repeats, "one report of several alike");
}
