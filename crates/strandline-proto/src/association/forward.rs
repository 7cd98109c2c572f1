//! FORWARD TSN and I-FORWARD-TSN: data that the peer abandons (RFC 3758 section 3.6, RFC 8260 section 2.3.1).

use strandline_wire::chunk::{ForwardTsn, IForwardTsn};

use super::Association;
use super::context::EndpointContext;
use crate::event::Event;
use crate::inbound::Cut;
use crate::inbound::forward::on_forward_tsn;
use crate::inbound::i_data::{charged_bytes, on_i_forward_tsn};
use crate::time::Time;

/// Processes a FORWARD TSN in a state that accepts data, if the extension was negotiated. Returns false to discard the
/// rest of the packet.
#[cold]
pub(super) fn on_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    chunk: &ForwardTsn<'_>,
) -> bool {
    let inbound = &mut association.inbound;
    let before = inbound.buffered_bytes();
    let point = association.config.partial_delivery_point;
    let outcome = on_forward_tsn(inbound, chunk, &mut cx.arena, point);
    cx.memory.on_received(before, inbound.buffered_bytes());
    match outcome {
        Ok(Some(Cut { stream, unread })) => {
            cx.event(association.id, Event::PartialDeliveryAborted { stream, unread });
        }
        Ok(None) => {}
        Err(what) => {
            association.abort_for_violation(cx, now, what);
            return false;
        }
    }
    true
}

/// Processes an I-FORWARD-TSN in a state that accepts data, if the extension was negotiated.
#[cold]
pub(super) fn on_i_chunk(association: &mut Association, cx: &mut EndpointContext, chunk: &IForwardTsn<'_>) {
    let inbound = &mut association.inbound;
    let before = charged_bytes(inbound);
    let point = association.config.partial_delivery_point;
    let cuts = on_i_forward_tsn(inbound, chunk, &mut cx.arena, point);
    cx.memory.on_received(before, charged_bytes(inbound));
    for Cut { stream, unread } in cuts {
        cx.event(association.id, Event::PartialDeliveryAborted { stream, unread });
    }
}
