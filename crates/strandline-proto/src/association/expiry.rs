//! When messages are abandoned (RFC 3758, RFC 7496): at the end of their lifetime, or for others.

use super::context::EndpointContext;
use super::{Association, abandon, reconfig};
use crate::event::SendInfo;
use crate::outbound::partial::{self, Skipping};
use crate::time::Time;

/// Gives up what may not be transmitted any more. Called before anything is transmitted, and when a lifetime ends.
pub(super) fn abandon_due(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    if !partial::is_partial(&association.outbound) || association.state.is_closed() {
        return;
    }
    let skipping = abandon::may_skip(association);
    if let Some(abandoned) = partial::abandon_due(&mut association.outbound, now, skipping) {
        abandon::apply(association, cx, now, abandoned);
        progress(association, cx, now);
    }
    abandon::watch_lifetimes(association);
}

/// Gives up messages of a lower priority for a message of `len` bytes that the send buffer has no room for.
/// Returns true if there is room now.
pub(crate) fn make_room(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    info: &SendInfo,
    len: usize,
) -> bool {
    if !partial::is_partial(&association.outbound) {
        return false;
    }
    let agreed = abandon::may_skip(association) == Skipping::Agreed;
    let messages_max = association.config.send_messages_max;
    let wanted = (info, len, messages_max as usize);
    let Some(abandoned) = partial::abandon_lower(&mut association.outbound, now, wanted, agreed) else {
        return false;
    };
    abandon::apply(association, cx, now, abandoned);
    progress(association, cx, now);
    true
}

/// Goes on with what waited for the messages that were abandoned.
fn progress(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    if association.reconfig.is_some() {
        let path = association.control_path;
        reconfig::progress(association, cx, now, path);
    }
    association.progress_shutdown(cx, now);
}
