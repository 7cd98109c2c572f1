//! Dynamic streams that are opened before the association is established: their data travels with the COOKIE ECHO
//! (RFC 9260 section 5.1 C, decision 168).

use strandline_wire::number::VerificationTag;

use super::context::EndpointContext;
use super::cookie::Cookie;
use super::offer::Offer;
use super::state::{Setup, State};
use super::{Association, reconfig};
use crate::event::{CloseReason, Event};
use crate::number::Tsn;
use crate::reconfiguration::DynamicStreamsEvent;
use crate::time::Time;

/// Returns whether this side opens the even ones of the dynamic streams; `None` before the INIT ACK. The side with the
/// lower verification tag does.
pub(crate) fn opens_even(association: &Association) -> Option<bool> {
    let is_known = !matches!(association.state, State::CookieWait(_));
    is_known.then(|| is_lower(association, association.peer_tag, association.peer_initial_tsn))?
}

/// Returns whether this side's verification tag is the lower one, or its initial TSN if they are equal.
fn is_lower(association: &Association, peer_tag: VerificationTag, peer_tsn: Tsn) -> Option<bool> {
    let own = (association.local_tag.0, association.initial_tsn.0);
    let peers = (peer_tag.0, peer_tsn.0);
    (own != peers).then_some(own < peers)
}

/// Returns whether dynamic streams that may have been opened by an earlier INIT ACK are still those of this side by
/// the one that made `offer`. An INIT ACK of other tags can't be used then: their data would be taken for the peer's.
pub(super) fn keep_parity(association: &Association, offer: &Offer<'_>) -> bool {
    let State::CookieWait(setup) = &association.state else { return true };
    setup.even.is_none() || setup.even == is_lower(association, offer.tag, offer.initial_tsn)
}

/// Reports that dynamic streams can be opened: the INIT ACK has come.
pub(super) fn on_agreed(association: &mut Association, cx: &mut EndpointContext) {
    reconfig::adopt_peers_tsn(association);
    if association.extras.as_ref().is_none_or(|extras| extras.dynamic_from.is_none()) {
        return;
    }
    note_parity(association);
    cx.event(association.id, Event::DynamicStreams(DynamicStreamsEvent::Agreed));
}

/// Notes which streams the application takes for those of this side from now on.
pub(crate) fn note_parity(association: &mut Association) {
    let even = opens_even(association);
    if let State::CookieEchoed(setup) = &mut association.state {
        setup.even = even;
    }
}

/// Asks for another INIT ACK after one that can't be used: the listener has no state, and chooses other tags. The INIT
/// is sent again at once the first time, and by T1-init, which backs off, if other INIT ACKs can't be used either.
#[cold]
pub(super) fn ask_for_other_tags(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let State::CookieWait(setup) = &mut association.state else { return };
    if core::mem::replace(&mut setup.refused, true) {
        return;
    }
    setup.attempts += 1;
    if setup.attempts > association.config.init_retrans_max {
        return association.end(cx, now, CloseReason::TimedOut);
    }
    association.send_init(cx, now);
}

/// Returns why a COOKIE ECHO is refused of a peer that may have restarted while data of dynamic streams is under way:
/// an earlier process of the peer may have it, and another one would get it a second time. `None` if there is no such
/// data, or no process has it.
pub(super) fn refusal_of_other_peer(association: &Association, cookie: &Cookie) -> Option<&'static str> {
    let State::CookieEchoed(setup) = &association.state else { return None };
    let is_sent = setup.even.is_some() && association.outbound.next_tsn() != association.initial_tsn;
    let refuses = is_sent && !crossed(association, setup, cookie);
    refuses.then_some("restarted during the set-up, and may have got data before")
}

/// True if the peer's INIT came so soon that our COOKIE ECHO can't have been at the peer before: within half a round
/// trip. The same process has answered our INIT and sent its own then (section 5.2.4 action B), and it discards a
/// COOKIE ECHO with the tag of its INIT ACK. Dynamic streams that the new tag gives to the peer can't be kept.
fn crossed(association: &Association, setup: &Setup, cookie: &Cookie) -> bool {
    let keeps = setup.even == is_lower(association, cookie.peer_tag, cookie.peer_initial_tsn);
    let round_trip = association.paths.get(association.control_path).rto.srtt().unwrap_or_default();
    keeps && setup.stale == 0 && cookie.created.since(setup.sent_at) < round_trip / 2
}
