//! COOKIE ECHO (RFC 9260 sections 5.1.5 and 5.2.4).

use core::time::Duration;
use std::sync::Arc;

use strandline_wire::Packet;
use strandline_wire::cause::{Cause, Causes};
use strandline_wire::chunk::{Abort, Chunk, CookieEcho, Error, kind};

use super::Endpoint;
use super::diagnostics::{abort_replied, discarded};
use super::input::never_answered;
use super::listen::{answer_ports, new_port};
use super::local_addresses::{LocalAddresses, regain, regained_at_restart};
use super::look_up::{arrived_at, find_for_cookie};
use super::used_cookies::PeerInit;
use crate::association::auth::{admits_cookie, begin_cookie, of_cookie, verified_ahead};
use crate::association::context::EndpointContext;
use crate::association::cookie::{Cookie, CookieError};
use crate::association::offer::encode_cause;
use crate::association::restart::CookieAction;
use crate::association::{Association, contains, cookie_answer, starts_with};
use crate::event::Datagram;
use crate::time::Time;

impl Endpoint {
    /// Handles a packet that starts with COOKIE ECHO, or with AUTH and COOKIE ECHO.
    pub(super) fn handle_cookie_echo(&mut self, now: Time, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let mut chunks = packet.chunks().flatten();
        let has_auth = starts_with(packet, kind::AUTH);
        let echo = chunks.nth(usize::from(has_auth)).and_then(|raw| raw.parse().ok());
        let Some(Chunk::CookieEcho(CookieEcho { cookie: sealed })) = echo else { return };
        if never_answered(packet) {
            self.context.stats.malformed += 1;
            return discarded(datagram, "COOKIE ECHO with an ABORT");
        }
        let opened = self.context.cookies.open(sealed, now);
        let (cookie, stale) = match opened {
            Ok(cookie) => (cookie, None),
            Err(CookieError::Stale(cookie, by)) => (*cookie, Some(by)),
            Err(CookieError::Forged) => {
                self.context.stats.cookies_forged += 1;
                return discarded(datagram, "cookie refused: forged, or of an earlier run");
            }
        };
        let fits = cookie.local_port == packet.destination_port()
            && cookie.peer_port == packet.source_port()
            && cookie.local_tag == packet.verification_tag();
        if !fits {
            self.context.stats.cookies_forged += 1;
            return discarded(datagram, "cookie refused: it is for other ports or another tag");
        }
        let existing = find_for_cookie(self, &cookie);
        let association = existing.and_then(|slot| self.table.at(slot));
        let Some(verified) =
            admits_cookie(&self.context, association, cookie.auth.as_deref(), packet, has_auth)
        else {
            self.context.stats.cookies_forged += 1;
            return discarded(datagram, "cookie refused: it is not authenticated");
        };
        if let Some(by) = stale {
            let same = existing.and_then(|slot| self.table.at(slot)).is_some_and(|a| a.matches_tags(&cookie));
            if !same {
                discarded(datagram, "cookie refused: stale");
                return self.report_stale(existing, (&cookie, by), packet, datagram);
            }
        }
        match existing {
            Some(slot) => self.cookie_for_existing(now, slot, (&cookie, verified), packet, datagram),
            None => self.cookie_for_new(now, (&cookie, verified), packet, datagram),
        }
    }

    /// Reports a stale cookie with its staleness in microseconds (section 3.3.10.3).
    fn report_stale(
        &mut self,
        existing: Option<u32>,
        (cookie, by): (&Cookie, Duration),
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
    ) {
        self.context.stats.cookies_stale += 1;
        let staleness_us = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
        let causes = encode_cause(&Cause::StaleCookie { staleness_us });
        let ports = answer_ports(packet, cookie.peer_tag);
        let error = Error { causes: Causes::new(&causes) };
        let existing = existing.and_then(|slot| self.table.at(slot));
        let auth = of_cookie(&self.context, existing, cookie.auth.as_deref());
        cookie_answer(&mut self.context.replies, Self::route_back(datagram), ports, auth.as_ref(), &error);
    }

    fn cookie_for_existing(
        &mut self,
        now: Time,
        slot: u32,
        (cookie, verified): (&Cookie, bool),
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
    ) {
        let Some(association) = self.table.at(slot) else { return };
        let action = association.classify(&self.context, cookie);
        // A client that shares its address with another may hold a cookie from before the other's association. The
        // association's own peer is never refused: an ABORT with its tag would end the association.
        let another = cookie.peer_tag != association.peer_tag;
        if another
            && matches!(action, CookieAction::Restart | CookieAction::Discard)
            && let Some(causes) = new_port(association, cookie.source)
        {
            return abort_cookie(&mut self.context, Some(association), cookie, packet, datagram, &causes);
        }
        if action == CookieAction::Discard {
            discarded(datagram, "cookie refused: it is for another association");
        }
        let (source, tag, marked) = (datagram.source, association.local_tag, datagram.is_marked());
        let inits: Vec<_> = PeerInit::all_of(association).filter(|_| another).collect();
        let is_usable = !contains(packet, kind::ASCONF);
        let regained = regained_at_restart(self, association, cookie);
        self.with_reindex(now, slot, |association, cx| {
            begin_cookie(association, verified);
            let goes_on = association.on_cookie_echo(cx, now, cookie, action);
            if action == CookieAction::Restart && goes_on {
                regain(association, &regained);
            }
            // A valid cookie is accepted from any address. What follows it must come from one of the peer's.
            if goes_on && is_usable && association.paths.by_address(source.ip()).is_some() {
                verified_ahead(association, verified);
                association.handle_packet(cx, now, packet, source, marked);
            }
        });
        // A restart replaces both tags, and a collision the peer's: the cookies of the old ones become invalid.
        let after = self.table.at(slot).map(|association| (association.local_tag, association.peer_tag));
        if after.is_none_or(|(local_tag, _)| local_tag != tag) {
            self.used_cookies.insert_tag(now, tag);
        }
        for init in inits.iter().filter(|init| after.is_none_or(|(_, peer_tag)| init.tag != peer_tag)) {
            self.used_cookies.insert_init(now, init);
        }
    }

    /// Sends an ABORT for a valid cookie that cannot be used, with a reason for the peer's log.
    fn refuse_cookie(&mut self, cookie: &Cookie, packet: &Packet<'_>, datagram: &Datagram<'_>, why: &[u8]) {
        let causes = encode_cause(&Cause::UserInitiatedAbort(why));
        abort_cookie(&mut self.context, None, cookie, packet, datagram, &causes);
    }

    /// Creates an association from a cookie (section 5.1.5 step 5).
    fn cookie_for_new(
        &mut self,
        now: Time,
        (cookie, verified): (&Cookie, bool),
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
    ) {
        let init = PeerInit {
            tag: cookie.peer_tag,
            address: cookie.source.ip(),
            peer_port: packet.source_port(),
            local_port: packet.destination_port(),
        };
        self.used_cookies.forget_expired(now);
        if self.used_cookies.has_left(&init) {
            // An ABORT would end the association.
            self.context.stats.cookies_spent += 1;
            return discarded(datagram, "cookie refused: its association has left the address");
        }
        if self.used_cookies.has_tag(cookie.local_tag) || self.used_cookies.has_init(&init) {
            // A peer that still waits for our COOKIE ACK learns that the association has ended. Any other peer
            // ignores the ABORT.
            self.context.stats.cookies_spent += 1;
            discarded(datagram, "cookie refused: its association has ended");
            return self.refuse_cookie(cookie, packet, datagram, b"the association of this cookie has ended");
        }
        if self.demux.by_tag(cookie.local_tag).is_some() {
            // Another association uses the tag now. The peer's next INIT gets another one.
            self.context.stats.refused += 1;
            discarded(datagram, "cookie refused: another association has its tag");
            return self.refuse_cookie(
                cookie,
                packet,
                datagram,
                b"the tag was taken meanwhile: set up again",
            );
        }
        // The listener may have closed since the INIT, or the cookie belongs to an association of ours that has
        // ended.
        if !self.ports.listens_at(cookie.local_port, arrived_at(datagram)) {
            if cookie.auth.is_none() {
                return self.handle_out_of_the_blue(packet, datagram);
            }
            // The peer may demand that an ABORT is authenticated.
            discarded(datagram, "cookie refused: nothing listens at its port any more");
            return self.refuse_cookie(cookie, packet, datagram, b"nothing listens at this port any more");
        }
        if self.table.len() >= self.context.config.associations_max as usize {
            self.context.stats.refused += 1;
            discarded(datagram, "cookie refused: associations_max was reached");
            let causes = encode_cause(&Cause::OutOfResource);
            return abort_cookie(&mut self.context, None, cookie, packet, datagram, &causes);
        }
        let id = self.table.next_id();
        let config = Arc::clone(&self.context.config.association);
        let mut association = Association::accept(&mut self.context, now, id, config, cookie);
        LocalAddresses::adopt(self, &mut association, cookie.created);
        // DATA may follow in the same packet if it comes from an address in the cookie, but no change of addresses: the
        // peer sends ASCONF once it has the COOKIE ACK (RFC 5061 section 5.1).
        if !contains(packet, kind::ASCONF) && association.paths.by_address(datagram.source.ip()).is_some() {
            verified_ahead(&mut association, verified);
            association.handle_packet(&mut self.context, now, packet, datagram.source, datagram.is_marked());
        }
        self.table.insert(association);
        self.register(id.slot);
        self.update_after_change(now, id.slot);
    }
}

/// Sends an ABORT in answer to a valid cookie. `existing` is the association that the peer's address belongs to.
fn abort_cookie(
    cx: &mut EndpointContext,
    existing: Option<&Association>,
    cookie: &Cookie,
    packet: &Packet<'_>,
    datagram: &Datagram<'_>,
    causes: &[u8],
) {
    let (route, ports) = (Endpoint::route_back(datagram), answer_ports(packet, cookie.peer_tag));
    let auth = of_cookie(cx, existing, cookie.auth.as_deref());
    let abort = Abort { tag_reflected: false, causes: Causes::new(causes) };
    abort_replied(route, ports, causes, false);
    cookie_answer(&mut cx.replies, route, ports, auth.as_ref(), &abort);
}
