//! Fuzz targets: functions that take arbitrary bytes and panic if a parser of this crate violates its
//! contract.

use core::net::{IpAddr, SocketAddr, SocketAddrV6};

use crate::auth::Users;
use crate::bindings::{Binding, Journal, SealFlow};
use crate::codec::binding_answer;
pub use crate::server::fuzzing::{config, dns, websocket, worker};
use crate::service::{End, Tokens};
use crate::transaction::{Flow, Protocol};

/// STUN: a response belongs to its request, is not much larger, and is itself not answered.
pub fn stun(bytes: &[u8]) {
    for from in ["192.0.2.1:5060", "[2001:db8::1]:5060"] {
        let Ok(from) = from.parse() else { continue };
        let Some(answer) = binding_answer(bytes, from) else { continue };
        assert!(answer.len() <= bytes.len() + 24);
        assert_eq!(answer.get(4..20), bytes.get(4..20), "cookie and transaction");
        assert_eq!(binding_answer(&answer, from), None);
    }
}

/// Sealed tokens: arbitrary text is rejected, a sealed flow opens unchanged, and a modified token is
/// rejected.
pub fn tokens(bytes: &[u8]) {
    let tokens = Tokens::new([7; 16]);
    assert_eq!(tokens.read(bytes), None);
    assert_eq!((tokens.read_flow(bytes), tokens.read_path(bytes)), (None, None));
    let Some(([at, caller @ .., callee_protocol], tag)) = bytes.split_first_chunk::<34>() else { return };
    let caller = flow(caller);
    let callee = Flow { protocol: protocol(*callee_protocol), ..caller };
    let ends = [(caller, tokens.host_hash(b"example.com")), (callee, tokens.host_hash(tag))]
        .map(|(flow, host)| End { flow, host });
    let mut texts = [const { Vec::new() }; 3];
    let [token, sealed, path] = &mut texts;
    tokens.write(&ends[0], &ends[1], tag, token);
    tokens.seal(&caller, sealed);
    tokens.write_path(&caller, path);
    assert!(tokens.read(token).is_some_and(|read| read.caller == ends[0] && read.callee == ends[1]));
    assert_eq!((tokens.read_flow(sealed), tokens.read_path(path)), (Some(caller), Some(caller)));
    assert_eq!((tokens.read_flow(path), tokens.read_path(sealed)), (None, None), "kinds differ");
    for text in [token, sealed, path] {
        let at = usize::from(*at) % text.len();
        if let Some(letter) = text.get_mut(at) {
            *letter = if *letter == b'A' { b'B' } else { b'A' };
        }
        assert_eq!(tokens.read(text), None);
        assert_eq!((tokens.read_flow(text), tokens.read_path(text)), (None, None));
    }
}

fn protocol(number: u8) -> Protocol {
    Protocol::ALL.into_iter().cycle().nth(number.into()).unwrap_or(Protocol::Udp)
}

/// A flow without a domain, made from 32 bytes.
fn flow(bytes: &[u8; 32]) -> Flow {
    let [number, kind, p0, p1, z0, z1, z2, z3, c0, c1, c2, c3, c4, c5, c6, c7, ip @ ..] = *bytes;
    let (ip, port) = (core::net::Ipv6Addr::from(ip), u16::from_le_bytes([p0, p1]));
    let peer = match kind & 3 {
        0 => SocketAddr::new(IpAddr::from([z0, z1, z2, z3]), port),
        1 => {
            let link_local = (ip.to_bits() & u128::from(u64::MAX)) | 0xfe80 << 112;
            SocketAddrV6::new(link_local.into(), port, 0, u32::from_le_bytes([z0, z1, z2, z3])).into()
        }
        _ => SocketAddr::new(ip.into(), port),
    };
    Flow {
        connection: u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
        ..Flow::to(protocol(number), peer)
    }
}

/// The journal of a store: the entries together are no longer than the journal, and a binding that was read
/// and written again reads the same.
pub fn journal(bytes: &[u8]) {
    let mut len = 0;
    for (aor, state) in Journal::read(bytes) {
        len += aor.len() + state.len();
        state.split(|byte| *byte == b'\n').for_each(rows);
    }
    assert!(len <= bytes.len());
    rows(bytes);
}

fn rows(line: &[u8]) {
    // Forbidden bytes are replaced when a binding is written, so the second round changes nothing.
    let Some(mut binding) = Binding::read(line) else { return };
    for _ in 0..2 {
        let mut out = Vec::new();
        binding.write(&mut out);
        assert!(out.len() <= 2 * line.len() + 128);
        let written = out.strip_suffix(b"\n").map(<[u8]>::to_vec);
        let again = written.and_then(|line| Binding::read(&line));
        let Some(again) = again else { panic!("a binding that was written can't be read") };
        let kept = (again.flow, again.flow_use, again.gruu);
        assert_eq!(kept, (binding.flow, binding.flow_use, binding.gruu));
        binding = again;
    }
    let mut out = Vec::new();
    binding.write(&mut out);
    assert_eq!(Binding::read(out.strip_suffix(b"\n").unwrap_or(&out)), Some(binding));
}

/// A file of users: an error names an existing line, and there are no more users than lines.
pub fn users(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let lines = text.lines().count();
    match Users::read(text) {
        Ok(users) => {
            assert!(users.len() <= lines);
            assert!(users.domains().all(|(domain, line)| !domain.is_empty() && (1..=lines).contains(&line)));
        }
        Err(error) => assert!((1..=lines).contains(&error.line) && !error.what.is_empty()),
    }
}

#[cfg(test)]
mod tests;
