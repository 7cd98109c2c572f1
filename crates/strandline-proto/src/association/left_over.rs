//! Cookies that are left over from another process of the peer (RFC 9260 section 5.2.4 action B, decision 166).
//!
//! An INIT that arrives during our set-up is answered with our own tag, whatever the peer's tag is. The process that
//! sent it may be gone by the time its cookie comes back, delayed or replayed. The cookie is left over once the process
//! with the present tag of the peer has answered a packet that was sent after the cookie was made.

use strandline_wire::number::{Tsn, VerificationTag};

use super::Association;
use super::context::EndpointContext;
use super::cookie::Cookie;
use crate::time::Time;

/// What shows whether cookies for other tags of the peer are left over. Only an association that answered such an INIT
/// during its set-up has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OtherInits {
    /// When the latest of these INITs came, and its tag.
    latest: (Time, VerificationTag),
    /// The process with the peer's present tag has answered a packet that was sent at this time or later.
    answered_since: Time,
    /// The next TSN when the association was established, or when all numbers were reset.
    first_tsn: Tsn,
}

/// Notes an INIT of the peer's address, whether or not it is answered.
pub(crate) fn note_init(association: &mut Association, now: Time, tag: VerificationTag) {
    if association.state.in_setup() && tag != association.peer_tag {
        let (latest, first_tsn) = ((now, tag), association.initial_tsn);
        let noted = OtherInits { latest, answered_since: Time::ZERO, first_tsn };
        association.extras.get_or_insert_default().other_inits = Some(noted);
    }
}

/// Notes that the peer's process has answered a packet that was sent at `answered` or later, by which the association
/// was established or restarted, or passed to another process. If the cookie of another process is newer, a HEARTBEAT
/// asks the present one.
pub(super) fn on_established(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    answered: Time,
) {
    let first_tsn = association.outbound.next_tsn();
    let Some(noted) = other_inits(association) else { return };
    (noted.answered_since, noted.first_tsn) = (answered, first_tsn);
    let (created, tag) = noted.latest;
    if created >= answered && tag != association.peer_tag && association.state.heartbeats() {
        association.send_heartbeat(cx, now, association.control_path);
    }
}

/// Notes an answer to a HEARTBEAT or to a RE-CONFIG. None is sent before the association is established, and the
/// cookies in question are made before that.
pub(super) fn on_answer(association: &mut Association, now: Time) {
    if let Some(noted) = other_inits(association) {
        noted.answered_since = now;
    }
}

/// Prepares for a reset of all numbers (RFC 6525 section 5.2.4), after which `next` is our next TSN: what was
/// acknowledged before counts from then on without its number.
pub(super) fn on_renumbering(association: &mut Association, next: Tsn) {
    let acknowledged = association.outbound.cumulative_ack();
    if let Some(noted) = other_inits(association) {
        if acknowledged.is_at_or_after(noted.first_tsn) {
            noted.answered_since = Time::MAX;
        }
        noted.first_tsn = next;
    }
}

fn other_inits(association: &mut Association) -> Option<&mut OtherInits> {
    association.extras.as_mut()?.other_inits.as_mut()
}

/// True if a cookie with our tag and another one of the peer is left over: it is discarded.
pub(super) fn is_left_over(association: &Association, cookie: &Cookie) -> bool {
    let noted = association.extras.as_ref().and_then(|extras| extras.other_inits);
    let answers = |noted: OtherInits| {
        cookie.created < noted.answered_since
            || association.outbound.cumulative_ack().is_at_or_after(noted.first_tsn)
    };
    !association.state.in_setup() && noted.is_some_and(answers)
}
