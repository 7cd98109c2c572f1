//! Packets that are not encrypted, and hellos of peers that encrypt where this side does not: neither gets an
//! association, and both sides should learn why.

use std::time::{Duration, Instant};

use strandline_wire::chunk::kind;
use strandline_wire::number::VerificationTag;
use strandline_wire::{Packet, PacketBuilder};

use super::{Event, Layer, OUT_MAX};
use crate::header::Header;
use crate::packets::{Arrival, Outgoing};

/// Time between two reports of peers that don't encrypt.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Cause code of a User-Initiated Abort (RFC 9260 section 3.3.10.12), and what it says.
const USER_INITIATED_ABORT: u16 = 12;
const REASON: &[u8] = b"encryption required";

/// First bytes of a DTLS record with a message of a handshake: the type, and the versions 1.0 and 1.2.
const HELLO_RECORDS: [[u8; 3]; 2] = [[22, 0xfe, 0xff], [22, 0xfe, 0xfd]];

impl Layer {
    /// Answers an INIT that is not encrypted with an ABORT that says so.
    pub(super) fn refuse_plain(&mut self, now: Instant, arrival: &Arrival, datagram: &[u8]) {
        let Some(answer) = answer_to_init(datagram) else { return };
        if self.out.len() < OUT_MAX {
            let (destination, source) = (arrival.source, arrival.destination);
            self.out.push_back(Outgoing { destination, source, bytes: answer });
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            self.events.push_back(Event::NotEncrypted(arrival.source));
        }
    }
}

/// Returns the ABORT for a packet with an INIT, not longer than that packet; `None` for anything else.
fn answer_to_init(datagram: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::parse(datagram).ok()?;
    let (_, rest) = datagram.split_at_checked(16)?;
    let (initiate_tag, _) = rest.split_first_chunk()?;
    let is_init = datagram.get(4..8)? == [0; 4] && datagram.get(12) == Some(&kind::INIT);
    let tag = u32::from_be_bytes(*initiate_tag);
    if !is_init || tag == 0 || !packet.verify_checksum() {
        return None;
    }
    let reason = REASON.get(..datagram.len().saturating_sub(12 + 4 + 4)).unwrap_or(REASON);
    let mut buffer = vec![0; 12 + 4 + 4 + REASON.len() + 3];
    let ports = (packet.destination_port(), packet.source_port());
    let mut builder = PacketBuilder::new(&mut buffer, ports.0, ports.1, VerificationTag(tag));
    let value = builder.push_raw(kind::ABORT, 0, 4 + reason.len())?;
    let (head, text) = value.split_first_chunk_mut::<4>()?;
    let [c0, c1] = USER_INITIATED_ABORT.to_be_bytes();
    let [l0, l1] = (4 + reason.len() as u16).to_be_bytes();
    *head = [c0, c1, l0, l1];
    text.copy_from_slice(reason);
    let len = builder.finish();
    buffer.truncate(len);
    Some(buffer)
}

/// Returns what a host that does not encrypt answers to the first datagram of a peer that does, so that the
/// peer learns why there is no connection: a Retry without a token. `None` if a datagram is something else.
/// No state, and shorter than the question.
#[must_use]
pub fn answer_to_hello(datagram: &[u8]) -> Option<Vec<u8>> {
    let Some(Header::Initial { source, records, .. }) = Header::parse(datagram) else { return None };
    if !HELLO_RECORDS.iter().any(|start| records.starts_with(start)) {
        return None;
    }
    let mut bytes = Vec::new();
    Header::Retry { destination: source, token: &[] }.write(&mut bytes);
    Some(bytes)
}
