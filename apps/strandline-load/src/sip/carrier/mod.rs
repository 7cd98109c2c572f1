//! Transports of SIP messages.

pub(super) mod sctp;
pub(super) mod set;
pub(super) mod short_lived_tcp;
pub(super) mod tcp;
pub(super) mod udp;

use super::out::Out;

/// Groups the messages by source: returns each source, and the positions of its messages.
fn by_source(out: &Out) -> impl Iterator<Item = (usize, &[(usize, usize, usize)])> {
    let together = out.messages.chunk_by(|(a, ..), (b, ..)| a == b);
    together.filter_map(|messages| Some((messages.first()?.0, messages)))
}

fn bytes<'a>(out: &'a Out, message: &(usize, usize, usize)) -> &'a [u8] {
    out.bytes.get(message.1..message.2).unwrap_or(&[])
}
