//! A COOKIE ECHO for an existing association (RFC 9260 section 5.2.4): restart, collision, late and duplicate
//! cookies.

use core::net::IpAddr;
use std::sync::Arc;

use strandline_wire::cause::{Cause, Causes};
use strandline_wire::chunk;

use super::addresses::choose_sources;
use super::auth;
use super::build::{Ports, cookie_answer};
use super::context::EndpointContext;
use super::cookie::Cookie;
use super::deadlines::Deadlines;
use super::diagnostics::log_of;
use super::ecn::Ecn;
use super::error_counts::ErrorCounts;
use super::features::Extensions;
use super::left_over::{self, is_left_over};
use super::offer::encode_cause;
use super::setup::{OTHER_CHUNKS, adopt_interleaving, paths_of};
use super::{Association, State, adaptation, asconf, early_streams, reconfig, sack_size, stream_credit};
use crate::config::Recovery;
use crate::event::{CloseReason, Event, FailureCause};
use crate::inbound::i_data::{charged_bytes, partly_delivered};
use crate::inbound::stream_credit as incoming;
use crate::outbound::Outbound;
use crate::outbound::interleaving::may_interleave;
use crate::outbound::scheduling::keep_settings;
use crate::outbound::stream_credit as outgoing;
use crate::path::{Path, PathSet, take_repetition};
use crate::path_index::{PathIndex, PathMask};
use crate::time::Time;

/// The action of Table 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieAction {
    /// A: the peer restarted. Also B once the association is established, if the peer numbers its data anew.
    Restart,
    /// B: both sides set up at once, and the peer chose a new tag.
    Collision,
    /// C, and every case that the table does not list.
    Discard,
    /// D: a duplicate, or the end of a plain collision.
    Duplicate,
}

/// Returns the local addresses after a restart: those that the INIT ACK named and that were not deleted since. The peer
/// knows of no address that its earlier state has let us add meanwhile (RFC 5061).
fn local_after(local: &[IpAddr], cookie: &Cookie) -> Vec<IpAddr> {
    let kept: Vec<_> = local.iter().copied().filter(|own| cookie.named.contains(own)).collect();
    if kept.is_empty() { local.to_vec() } else { kept }
}

impl Association {
    /// Looks up the action in Table 12.
    pub(crate) fn classify(&self, cx: &EndpointContext, cookie: &Cookie) -> CookieAction {
        let local = cookie.local_tag == self.local_tag;
        let peer = cookie.peer_tag == self.peer_tag;
        let ties = cx.tie_tags(self.local_tag, self.peer_tag) == (cookie.local_tie_tag, cookie.peer_tie_tag);
        // Of an INIT that came before authentication was agreed on.
        let drops_auth = self.features.has(Extensions::AUTHENTICATION)
            && !self.state.in_setup()
            && !cookie.features.has(Extensions::AUTHENTICATION);
        // A peer whose numbers are others has lost its state since it has accepted our cookie: it answers none of the
        // data of before. Row B would continue with numbers that it does not know.
        let renumbers = !self.state.in_setup() && cookie.peer_initial_tsn != self.peer_initial_tsn;
        match (local, peer) {
            (_, false) if drops_auth => CookieAction::Discard,
            (false, false) if ties => CookieAction::Restart,
            (true, false) if is_left_over(self, cookie) => CookieAction::Discard,
            (true, false) if renumbers => CookieAction::Restart,
            (true, false) => CookieAction::Collision,
            (true, true) => CookieAction::Duplicate,
            _ => CookieAction::Discard,
        }
    }

    /// True if the cookie's tags are the association's: its age does not matter then (section 5.2.4 step 3).
    pub(crate) fn matches_tags(&self, cookie: &Cookie) -> bool {
        cookie.local_tag == self.local_tag && cookie.peer_tag == self.peer_tag
    }

    /// Applies an action to the association. Returns true if the rest of the packet (DATA after the COOKIE ECHO) must
    /// be processed as well.
    pub(crate) fn on_cookie_echo(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        cookie: &Cookie,
        action: CookieAction,
    ) -> bool {
        let establishes = matches!(self.state, State::CookieEchoed(_));
        match action {
            CookieAction::Discard => return false,
            CookieAction::Restart => {
                if matches!(self.state, State::ShutdownAckSent) {
                    self.refuse_restart(cx, now, cookie);
                    return false;
                }
                self.restart(cx, now, cookie);
            }
            CookieAction::Collision => {
                let other_peer = early_streams::refusal_of_other_peer(self, cookie);
                if let Some(why) = other_peer.or_else(|| refusal_of_other_kind(self, cookie)) {
                    end_for_other_peer(self, cx, now, cookie, why);
                    return false;
                }
                self.collide(cx, now, cookie);
            }
            CookieAction::Duplicate => {
                if matches!(self.state, State::CookieEchoed(_)) {
                    self.establish(cx, now);
                    left_over::on_established(self, cx, now, cookie.created);
                } else if self.config.recovery != Recovery::Rfc9260 {
                    self.send_again_what_timed_out();
                }
            }
        }
        let from = self.paths.by_address(cookie.source.ip()).filter(|index| self.is_confirmed(*index));
        self.control_path = from.unwrap_or(self.control_path);
        // Of several COOKIE ECHOs with data (decision 49) only the first needs an immediate answer. The others have
        // been answered, or are about to be.
        let repeated = action == CookieAction::Duplicate && !establishes && !self.comes_late(now, cookie);
        self.flags.cookie_ack_again =
            repeated && !self.flags.cookie_ack_due && self.config.recovery != Recovery::Rfc9260;
        self.flags.cookie_ack_due |= !self.flags.cookie_ack_again;
        // The application has requested it before, and may be gone by now.
        if self.flags.shutdown_wanted {
            self.shutdown(cx, now);
        }
        true
    }

    /// True if all answers to the peer's simultaneous packets were sent, assuming that none is delayed by more than
    /// SACK.Delay: the COOKIE ACK was lost.
    fn comes_late(&self, now: Time, cookie: &Cookie) -> bool {
        let srtt = self.paths.get(self.control_path).rto.srtt().unwrap_or_default();
        now.since(cookie.created) > srtt + self.config.sack_delay
    }

    /// Retransmits data that timed out, along with the COOKIE ACK. The peer could accept no data before it, and the
    /// timer has been backed off repeatedly. The packets count as probes: whoever has seen the cookie can repeat it as
    /// often as it likes.
    fn send_again_what_timed_out(&mut self) {
        for index in self.paths.indices() {
            let outstanding = self.paths.get(index).flight > 0 || self.outbound.has_overdue(index);
            if outstanding && take_repetition(self.paths.get_mut(index)) {
                let marked = self.outbound.on_timeout(index, false);
                self.paths.get_mut(index).on_lost(marked);
            }
        }
    }

    /// Handles action A in SHUTDOWN-ACK-SENT: no new association, SHUTDOWN ACK again, and an ERROR.
    fn refuse_restart(&mut self, cx: &mut EndpointContext, now: Time, cookie: &Cookie) {
        self.send_shutdown_ack(cx, now);
        let causes = encode_cause(&Cause::CookieWhileShuttingDown);
        // The peer's declarations belong to its earlier state.
        let ports = Ports { tag: cookie.peer_tag, zero_checksum: false, ..self.ports() };
        let error = chunk::Error { causes: Causes::new(&causes) };
        let auth = auth::of_cookie(cx, Some(self), cookie.auth.as_deref());
        cookie_answer(&mut cx.control, self.route(self.control_path), ports, auth.as_ref(), &error);
    }

    /// Handles action A: as if an ABORT and a new COOKIE ECHO had arrived, but the application keeps its association.
    /// Complete received messages can still be read; unacknowledged ones are reported as failed.
    fn restart(&mut self, cx: &mut EndpointContext, now: Time, cookie: &Cookie) {
        reconfig::end(self, cx);
        asconf::end(self, cx);
        let refused = outgoing::refused_streams(&self.outbound);
        self.fail_queued(cx, FailureCause::Restarted);
        let config = Arc::clone(&self.config);
        let before = charged_bytes(&self.inbound);
        let cuts = partly_delivered(&self.inbound);
        let by_report = incoming::is_by_report(&self.inbound);
        let (unread, cut) = self.inbound.restart(
            cookie.peer_initial_tsn,
            cookie.inbound_streams,
            config.receive_buffer_start(),
        );
        let freed = before.saturating_sub(charged_bytes(&self.inbound));
        cx.memory.on_read(freed);
        let outbound = Outbound::new(cookie.local_initial_tsn, cookie.peer_rwnd, cookie.outbound_streams);
        let before = core::mem::replace(&mut self.outbound, outbound);
        keep_settings(&mut self.outbound, before);
        let paths = core::mem::replace(&mut self.paths, paths_of(cx, now, &config, cookie));
        self.flags.added = PathMask::default();
        self.keep_choices(&paths);
        self.paths.set_local(local_after(paths.local(), cookie));
        choose_sources(self);
        self.flags.recovery_due = false;
        (self.flags.held, self.flags.sourceless) = (false, false);
        self.local_tag = cookie.local_tag;
        self.peer_tag = cookie.peer_tag;
        self.features = cookie.features;
        auth::adopt(self, cx, cookie.auth.as_deref());
        let adopted = adopt_interleaving(self);
        debug_assert!(adopted, "nothing was sent");
        incoming::set_by_report(&mut self.inbound, by_report);
        self.ecn = Ecn::agreed(cookie.features.has(Extensions::ECN));
        self.initial_tsn = cookie.local_initial_tsn;
        self.peer_initial_tsn = cookie.peer_initial_tsn;
        let state = core::mem::replace(&mut self.state, State::Established);
        self.deadlines = Deadlines::default();
        self.errors = ErrorCounts::default();
        sack_size::forget(self, |_| true);
        self.sack_path = PathIndex::FIRST;
        self.control_path = PathIndex::FIRST;
        self.start_heartbeats(cx, now);
        left_over::on_established(self, cx, now, cookie.created);
        self.touch_idle(now);
        cx.stats.restarts += 1;
        if let Some(log) = log_of(self) {
            log.restart(state.public());
        }
        for stream in cuts {
            cx.event(self.id, Event::PartialDeliveryAborted { stream, unread });
        }
        cx.event(self.id, Event::Restarted { unread, cut });
        adaptation::adopt(self, cookie.adaptation);
        adaptation::report(self, cx);
        auth::report_support(self, cx);
        cx.event(self.id, Event::Writable);
        for stream in refused {
            cx.event(self.id, Event::StreamWritable { stream });
        }
        self.announce_readable(cx);
    }

    /// Keeps controllers that the application selected for paths.
    fn keep_choices(&mut self, before: &PathSet) {
        for (_, path) in before.iter().filter(|(_, path)| path.own_congestion().is_some()) {
            if let Some(index) = self.paths.by_address(path.remote.ip()) {
                self.paths.get_mut(index).set_congestion(path.own_congestion(), &self.config);
            }
        }
    }

    /// Handles action B: our tag stays, the peer's is the cookie's. So is its Random Number (RFC 4895 section
    /// 6.1). What an established association has agreed on stays as well: both directions are in use.
    fn collide(&mut self, cx: &mut EndpointContext, now: Time, cookie: &Cookie) {
        self.peer_tag = cookie.peer_tag;
        let sets_up = self.state.in_setup();
        if sets_up || self.features.has(Extensions::AUTHENTICATION) {
            auth::adopt(self, cx, cookie.auth.as_deref());
        }
        if !sets_up {
            return left_over::on_established(self, cx, now, cookie.created);
        }
        self.features = cookie.features;
        adaptation::adopt(self, cookie.adaptation);
        self.ecn = Ecn::agreed(cookie.features.has(Extensions::ECN));
        let config = Arc::clone(&self.config);
        self.peer_initial_tsn = cookie.peer_initial_tsn;
        let _ = self.inbound.restart(
            cookie.peer_initial_tsn,
            cookie.inbound_streams,
            config.receive_buffer_start(),
        );
        reconfig::adopt_peers_tsn(self);
        let adopted = adopt_interleaving(self);
        debug_assert!(adopted, "refusal_of_other_kind has checked it");
        for failed in self.outbound.set_peer(cookie.peer_rwnd, cookie.outbound_streams) {
            cx.on_send_bytes_gone(failed.data.len());
            cx.event(self.id, Event::SendFailed(failed));
        }
        stream_credit::report_writable(self, cx);
        let named = core::iter::once(cookie.source.ip()).chain(cookie.addresses.iter().copied());
        for ip in named {
            if self.paths.by_address(ip).is_none() {
                let remote = core::net::SocketAddr::new(ip, cookie.source.port());
                let _ = self.paths.add(Path::new(remote, None, &config, cx.link_to(ip), now));
            }
        }
        self.establish(cx, now);
        left_over::on_established(self, cx, now, cookie.created);
    }
}

/// Returns why a collision is refused after which the peer expects the other kind of chunks than those that went with
/// the COOKIE ECHO: I-DATA or DATA. `None` if there is no such data.
fn refusal_of_other_kind(association: &Association, cookie: &Cookie) -> Option<&'static str> {
    let interleaves = cookie.features.has(Extensions::INTERLEAVING);
    let refuses = association.state.in_setup() && !may_interleave(&association.outbound, interleaves);
    refuses.then_some(OTHER_CHUNKS)
}

/// Ends a set-up because of a collision. The ABORT goes to the process that waits for an answer now, authenticated with
/// what its cookie has agreed on. Does nothing in COOKIE-WAIT, or if only an authenticated packet may end the
/// association.
#[cold]
fn end_for_other_peer(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    cookie: &Cookie,
    why: &'static str,
) {
    if matches!(association.state, State::CookieWait(_)) || !auth::may_be_ended(association) {
        return;
    }
    (association.peer_tag, association.features) = (cookie.peer_tag, cookie.features);
    auth::adopt(association, cx, cookie.auth.as_deref());
    association.send_abort(cx, &encode_cause(&Cause::ProtocolViolation(why.as_bytes())));
    association.end(cx, now, CloseReason::ProtocolViolation(why));
}
