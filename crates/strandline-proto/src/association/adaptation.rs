//! Adaptation Layer Indication of the peer (RFC 5061 section 4.2.6).

use super::Association;
use super::context::EndpointContext;
use crate::event::Event;

/// Keeps the code point of the peer's INIT, INIT ACK or State Cookie.
pub(super) fn adopt(association: &mut Association, code_point: Option<u32>) {
    if code_point.is_some() {
        association.extras.get_or_insert_default().adaptation = code_point;
    } else if let Some(extras) = &mut association.extras {
        extras.adaptation = None;
    }
}

/// Returns the code point, if the peer has sent one.
pub(super) fn code_point(association: &Association) -> Option<u32> {
    association.extras.as_ref()?.adaptation
}

/// Reports the code point, if the peer has sent one.
pub(super) fn report(association: &Association, cx: &mut EndpointContext) {
    if let Some(code_point) = code_point(association) {
        cx.event(association.id, Event::AdaptationLayer { code_point });
    }
}
