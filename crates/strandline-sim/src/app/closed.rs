//! The end of an association, and which reasons an honest peer leaves for it.

use strandline_proto::event::CloseReason;

use super::{App, Context};
use crate::greedy::OVERDRAWN;
use crate::violation::{Violation, demand, violation};

/// Cause code of a Missing Mandatory Parameter (RFC 9260 section 3.3.10.2).
const MISSING_PARAMETER: u16 = 2;
/// Cause code of a User-Initiated Abort (RFC 9260 section 3.3.10.12).
const USER_INITIATED_ABORT: u16 = 12;
/// Cause code of a Protocol Violation (RFC 9260 section 3.3.10.13).
const PROTOCOL_VIOLATION: u16 = 13;

/// Cause code of a restart with addresses that the association does not have (RFC 9260 section 3.3.10.11).
const RESTART_WITH_NEW_ADDRESSES: u16 = 11;

/// Cause code of a set-up from an encapsulation port other than that of the existing association
/// (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).
const RESTART_WITH_NEW_ENCAPSULATION_PORT: u16 = 14;

/// True for the reason of an ABORT with which an endpoint ends an association without answers. (It has the code of a
/// violation, as kernels send it.)
fn gave_up(reason: &[u8]) -> bool {
    reason.ends_with(b"exceeded: no answer")
        || reason.ends_with(b"exceeded: no COOKIE ACK")
        || reason == b"the shutdown took too long"
}

impl App {
    pub(super) fn on_closed(&mut self, cx: &mut Context<'_>, reason: &CloseReason) -> Result<(), Violation> {
        let end = self.end;
        self.learn_tags(cx);
        self.closed = Some(reason.clone());
        self.habits.relocating.as_ref().map_or(Ok(()), |relocating| relocating.on_closed(end.id))?;
        if !matches!(reason, CloseReason::Shutdown) {
            cx.ledger.broke_off(end.host);
        }
        self.readable = true;
        if cx.ledger.is_tampered(end.host, self.peer_host) {
            return Ok(());
        }
        match reason {
            CloseReason::Shutdown => cx.ledger.shut_down(end),
            CloseReason::ProtocolViolation(OVERDRAWN) if cx.ledger.is_greedy(self.peer_host) => {
                cx.ledger.overdrawn();
                Ok(())
            }
            CloseReason::ProtocolViolation(what) => {
                violation(format!("{end:?} accuses an honest peer of: {what}"))
            }
            // Code 0 is an ABORT without cause, from an endpoint that does not know the association.
            CloseReason::PeerAborted { code: 0 | USER_INITIATED_ABORT, .. } => Ok(()),
            CloseReason::PeerAborted { code: PROTOCOL_VIOLATION, reason } if gave_up(reason) => Ok(()),
            CloseReason::PeerAborted { code: PROTOCOL_VIOLATION, reason }
                if cx.ledger.is_greedy(end.host) && *reason == OVERDRAWN.as_bytes() =>
            {
                Ok(())
            }
            // A host whose port has changed cannot prove that the association of its old port is its own. Only a
            // set-up may fail for this, never an existing association.
            CloseReason::PeerAborted { code: RESTART_WITH_NEW_ENCAPSULATION_PORT, .. }
                if !self.up && cx.ledger.is_rebound(end.host) =>
            {
                Ok(())
            }
            // A host that restarts names all addresses that it began with, some of which an application had deleted.
            CloseReason::PeerAborted { code: RESTART_WITH_NEW_ADDRESSES, .. }
                if !self.up && cx.ledger.has_moved(end.host) =>
            {
                Ok(())
            }
            // A host that comes back without the agreed authentication is refused (RFC 4895 section 9).
            CloseReason::PeerAborted { code: MISSING_PARAMETER, .. }
                if !self.up && end.life > 0 && cx.ledger.at_times_authenticated.contains(&end.host) =>
            {
                Ok(())
            }
            CloseReason::PeerAborted { code, reason } => {
                violation(format!("{end:?} was aborted by an honest peer: cause {code}, {reason:?}"))
            }
            CloseReason::TimedOut => {
                // Losses before the calm may cause one expiry after it.
                let late = self.calm.is_some_and(|since| cx.now > since + cx.last_expiry);
                // A COOKIE ECHO stays unanswered if the host has crashed, if its association ended abnormally, or if
                // the cookie's key is gone (RFC 9260 section 5.1.5): the INIT ACK of a set-up that began before the
                // calm may be that old.
                let outdated = self.calm.is_some_and(|since| self.began < since)
                    && cx.now.since(self.began) > cx.keys_last;
                let forgotten = !self.up && (outdated || cx.ledger.may_have_forgotten(self.peer_host));
                let one_sided = self.up && cx.ledger.is_one_sided(self.peer_host, self.tags);
                // A peer whose COOKIE ACK was lost may have left the only address that is known of it.
                let moved = !self.up && self.habits.relocating.is_some();
                demand(!late || forgotten || one_sided || moved, || {
                    format!("{end:?} timed out though nothing is lost any more")
                })
            }
            CloseReason::Aborted | CloseReason::Unreachable | CloseReason::NoRoute => Ok(()),
        }
    }
}
