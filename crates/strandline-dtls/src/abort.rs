//! The packet by which the engine learns that an association's connection has failed.

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::kind;
use strandline_wire::number::VerificationTag;

use crate::tags::Orphan;

/// Cause code of the ABORT by which the engine learns that the connection has failed. No standard assigns it.
pub const FAILURE_CAUSE: u16 = 0xbc5c;

/// Bytes of the reason at most.
const REASON_MAX: usize = 480;

/// Returns an ABORT as if from the association's peer, with a reason as text.
pub(crate) fn abort_packet(orphan: &Orphan, reason: &str) -> Vec<u8> {
    let reason = reason.as_bytes();
    let reason = reason.get(..REASON_MAX).unwrap_or(reason);
    let mut buffer = vec![0; 12 + 4 + 4 + REASON_MAX + 4];
    let tag = VerificationTag(orphan.local_tag);
    let mut builder = PacketBuilder::new(&mut buffer, orphan.peer_port, orphan.local_port, tag);
    if let Some(value) = builder.push_raw(kind::ABORT, 0, 4 + reason.len())
        && let Some((head, text)) = value.split_first_chunk_mut::<4>()
    {
        let [c0, c1] = FAILURE_CAUSE.to_be_bytes();
        let [l0, l1] = (4 + reason.len() as u16).to_be_bytes();
        *head = [c0, c1, l0, l1];
        text.copy_from_slice(reason);
    }
    let len = builder.finish();
    buffer.truncate(len);
    buffer
}
