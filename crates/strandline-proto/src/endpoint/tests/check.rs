//! Invariants of every test: for every packet that an endpoint sends, and for an association after every step.

use strandline_wire::chunk::Chunk;

use super::*;

/// Asserts RFC 9260 sections 3.2 (lengths), 5.1 (COOKIE chunks first, INIT and INIT ACK alone), 6.1 and 6.10 (control
/// chunks before DATA, ascending TSNs, SHUTDOWN COMPLETE alone), 6.2 (one SACK), 6.8 (checksum), 8.5.1 A (tag 0), 9.1
/// (no DATA with ABORT). The checksum may be zero (RFC 9653 section 5.2) only if the sender is allowed to omit it,
/// and never with INIT, COOKIE ECHO or ASCONF.
pub(super) fn assert_well_formed(sent: &Sent, zero_allowed: bool) {
    let packet = Packet::parse(&sent.bytes).unwrap();
    let zero = zero_allowed && packet.checksum() == 0;
    let demanded = [kind::INIT, kind::COOKIE_ECHO, kind::ASCONF].iter().any(|kind| has(*kind)(sent));
    assert!(packet.verify_checksum() || (zero && !demanded));
    assert!(sent.bytes.len().is_multiple_of(4));
    let kinds = sent.kinds();
    assert!(!kinds.is_empty());
    for alone in [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE] {
        assert!(!kinds.contains(&alone) || kinds.len() == 1, "bundled: {kinds:?}");
    }
    for first in [kind::COOKIE_ECHO, kind::COOKIE_ACK] {
        let before = usize::from(kinds[0] == kind::AUTH);
        assert!(kinds.iter().skip(1 + before).all(|kind| *kind != first), "not first: {kinds:?}");
    }
    assert!(kinds.iter().filter(|kind| **kind == kind::AUTH).count() <= 1, "two AUTHs: {kinds:?}");
    let data = kinds.iter().position(|kind| *kind == kind::DATA).unwrap_or(kinds.len());
    assert!(kinds[data..].iter().all(|kind| *kind == kind::DATA), "control after DATA: {kinds:?}");
    assert!(!kinds.contains(&kind::ABORT) || data == kinds.len(), "DATA with ABORT");
    assert!(kinds.iter().filter(|kind| **kind == kind::SACK).count() <= 1, "two SACKs");
    assert_eq!(packet.verification_tag().0 == 0, kinds == [kind::INIT], "tag 0 is for INIT");
    for raw in packet.chunks().flatten() {
        match raw.kind {
            kind::ABORT | kind::ERROR => assert_lengths(raw.value),
            kind::INIT | kind::INIT_ACK => assert_lengths(&raw.value[16..]),
            _ => {}
        }
    }
    let mut last = None;
    // A HEARTBEAT ACK returns the content of the HEARTBEAT as it was, valid or not, so not every chunk can be parsed.
    for raw in packet.chunks().flatten().filter(|raw| raw.kind == kind::DATA) {
        let Ok(Chunk::Data(data)) = raw.parse() else { panic!("DATA that cannot be parsed") };
        assert!(!data.payload.is_empty());
        assert!(last.is_none_or(|last| data.tsn.is_after(last)), "TSNs do not rise");
        last = Some(data.tsn);
    }
}

/// Parameters or causes fill a chunk's value exactly: the padding of the last one is outside Chunk Length (section
/// 3.2).
fn assert_lengths(mut list: &[u8]) {
    while !list.is_empty() {
        let len = usize::from(u16::from_be_bytes([list[2], list[3]]));
        assert!(len >= 4 && len <= list.len(), "length {len} of {}", list.len());
        if list.len() - len < 4 {
            return assert_eq!(list.len(), len, "padding of the last one counted");
        }
        list = &list[len.next_multiple_of(4)..];
    }
}

/// Asserts that each path's flight equals the sum of the sending half, chunk by chunk, and that its T3-rtx runs while
/// anything is in flight, or outstanding without an answer (section 6.3.2).
pub(super) fn assert_balanced(endpoint: &Endpoint) {
    for association in (0..4).filter_map(|slot| endpoint.table.at(slot)) {
        for (index, path) in association.paths.iter() {
            assert_eq!(path.flight, association.outbound.flight_of(index), "flight of {index:?}");
            let outstanding = path.flight > 0 || association.outbound.has_overdue(index);
            let timed = !outstanding || path.rtx_deadline != Time::MAX || association.state.in_setup();
            assert!(timed, "T3-rtx does not run");
        }
    }
}
