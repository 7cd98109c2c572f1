//! SENDER DRY (RFC 6458 section 6.1.9): the peer has everything, and nothing waits to be sent.

use super::Association;
use super::context::EndpointContext;
use crate::event::Event;

/// Reports that the peer has all data and none waits to be sent, if that is so and the application wants to know.
pub(super) fn report_dry(association: &Association, cx: &mut EndpointContext) {
    if association.flags.reports_dry && association.outbound.is_empty() && association.state.sends_data() {
        cx.event(association.id, Event::SenderDry);
    }
}

/// Sets whether that is reported. It is at once if it is so now.
pub(crate) fn set_dry_reports(association: &mut Association, cx: &mut EndpointContext, on: bool) {
    if !core::mem::replace(&mut association.flags.reports_dry, on) {
        report_dry(association, cx);
    }
}
