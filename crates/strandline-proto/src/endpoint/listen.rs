//! Stateless INIT processing (RFC 9260 sections 5.1 B, 5.2.1, 5.2.2).

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use rand_core::RngCore;
use strandline_wire::cause::Cause;
use strandline_wire::chunk::{Chunk, Init, kind};
use strandline_wire::number::{Tsn, VerificationTag};
use strandline_wire::parameter::{Parameter, Parameters};
use strandline_wire::{Packet, TLV_HEADER_LEN, TlvWriter};

use super::Endpoint;
use super::demux::PeerKey;
use super::diagnostics::{abort_reply, discarded, ignored};
use super::look_up::{arrived_at, find_existing};
use super::used_cookies::PeerInit;
use crate::association::auth::auth_of;
use crate::association::context::{EndpointContext, Route};
use crate::association::cookie::Cookie;
use crate::association::features::{Extensions, Features};
use crate::association::keys::{CookieParameters, OwnParameters, PeerParameters, RANDOM_LEN};
use crate::association::offer::{Offer, Refusal, encode_cause, read};
use crate::association::{AnswerPorts, Association, PRESERVATIVE_MAX, State, init_packet, note_init};
use crate::authentication::Authentication;
use crate::config::AssociationConfig;
use crate::event::Datagram;
use crate::time::Time;
use crate::zone;

/// The contents of our INIT ACK, and the tie tags for its cookie.
struct Answer {
    tag: VerificationTag,
    initial_tsn: Tsn,
    outbound_streams: u16,
    inbound_streams: u16,
    a_rwnd: u32,
    ties: (u32, u32),
    features: Features,
    /// What this side demands and its Random Number, if authentication is offered (RFC 4895).
    own: Option<Box<(Authentication, [u8; RANDOM_LEN])>>,
    /// Local addresses of the association; empty if it has those of the endpoint.
    local: Vec<IpAddr>,
    /// The code point of our Adaptation Layer Indication.
    adaptation: Option<u32>,
    /// True if the INIT came to an address that its association has deleted: the answer lists those of the listener.
    at_deleted_address: bool,
}

impl Answer {
    /// Returns the local addresses that the INIT ACK names, of which an association may lose or gain some
    /// before the cookie of a restart comes back. `source` is the source of the INIT ACK: the only one that
    /// it names if it lists none.
    fn named(&self, cx: &EndpointContext, features: &Features, source: Option<IpAddr>) -> Vec<IpAddr> {
        if self.ties == (0, 0) || !(features.has(Extensions::DYNAMIC_ADDRESSES) || self.at_deleted_address) {
            return Vec::new();
        }
        let listed = cx.local_addresses(&self.local);
        if listed.is_empty() { source.into_iter().collect() } else { listed.to_vec() }
    }

    /// Writes the parameters of extensions, without those of authentication.
    fn write(&self, features: Features, writer: &mut TlvWriter<'_>) {
        if let Some(credit) = features.answered_credit() {
            let _ = writer.push(&credit);
        }
        if let Some(code_point) = self.adaptation {
            let _ = writer.push(&Parameter::AdaptationLayer { code_point });
        }
        features.answer(writer);
    }
}

impl Endpoint {
    /// Handles a packet with tag 0.
    pub(super) fn handle_init(&mut self, now: Time, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        let mut chunks = packet.chunks();
        let first = chunks.next().and_then(Result::ok);
        let init = match first.map(|raw| raw.parse()) {
            Some(Ok(Chunk::Init(init))) if chunks.next().is_none() => init,
            _ => {
                self.context.stats.malformed += 1;
                return discarded(datagram, "verification tag 0 without an INIT that is alone");
            }
        };
        let key = PeerKey::of(packet, datagram);
        let to = arrived_at(datagram);
        let listens = self.ports.listens_at(key.local_port, to);
        let own = self.context.local_addresses(self.ports.bound(key.local_port));
        let (any, family) = (own.len() > 1, datagram.source.is_ipv4());
        let usable = |a: IpAddr| {
            (any || a.is_ipv4() == family) && self.context.host_addresses.may_be_the_peers(a, key.address)
        };
        let offer = read(&init, false, key.address, usable);
        let named = offer.as_ref().map_or(&[][..], |offer| &offer.addresses);
        let existing = find_existing(self, &key, named, to);
        if self.is_own_init(now, existing, init.initiate_tag, packet, datagram) {
            return;
        }
        let first = PeerInit {
            tag: init.initiate_tag,
            address: key.address,
            peer_port: key.peer_port,
            local_port: key.local_port,
        };
        self.used_cookies.forget_expired(now);
        if existing.is_none() && self.used_cookies.has_left(&first) {
            return discarded(datagram, "a late copy of an INIT whose association has left the address");
        }
        if existing.is_none() && !listens {
            // Without a listener the answer is an ABORT, as for any out-of-the-blue packet, with the peer's own tag
            // (section 8.4 rule 3).
            if self.answers_for(now, key.local_port) && init.initiate_tag.0 != 0 {
                self.context.stats.out_of_the_blue += 1;
                discarded(datagram, "no listener on the port");
                let ports = answer_ports(packet, init.initiate_tag);
                abort_reply(&mut self.context.replies, Self::route_back(datagram), ports, &[], false);
            }
            return;
        }
        if existing.is_none() && self.context.replies.is_full() {
            // During a flood no cookie is computed for an answer that cannot be queued.
            self.context.replies.dropped += 1;
            return ignored(datagram, "too many answers are queued");
        }
        let association = existing.and_then(|slot| self.table.at(slot));
        let settings = settings_of(association, &self.context.config.association);
        let refusal = match offer {
            Ok(mut offer) => match offer.negotiate_authentication(settings.as_ref()) {
                Ok(keys) => return self.answer_init(now, &offer, keys, existing, packet, datagram),
                Err(refusal) => refusal,
            },
            Err(refusal) => refusal,
        };
        refuse_init(&mut self.context, refusal, packet, datagram);
    }

    fn answer_init(
        &mut self,
        now: Time,
        offer: &Offer<'_>,
        keys: Option<Box<PeerParameters>>,
        existing: Option<u32>,
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
    ) {
        let mut route = Self::route_back(datagram);
        let ports = answer_ports(packet, offer.tag);
        let Some(slot) = existing else {
            let answer = self.fresh_answer(packet.destination_port());
            return self.send_init_ack(now, (offer, keys), &answer, route, ports);
        };
        let tag = self.free_tag();
        let bound = self.ports.bound(packet.destination_port());
        let cx = &mut self.context;
        let Some(association) = self.table.at_mut(slot) else { return };
        let causes = new_port(association, datagram.source);
        let added = added_addresses(association, offer, datagram.source.ip());
        if is_late(association, offer.tag, (causes.is_some(), !added.is_empty())) {
            return discarded(datagram, "a late copy of the INIT that set the association up");
        }
        if let Some(causes) = causes {
            return abort_reply(&mut cx.replies, route, ports, &causes, false);
        }
        note_init(association, now, offer.tag);
        let answer = match &association.state {
            // Section 9.2: the SHUTDOWN COMPLETE was lost.
            State::ShutdownAckSent => {
                association.resend_shutdown_ack(cx, now);
                return self.update_after_change(now, slot);
            }
            // Section 5.2.1: answer with our own parameters and tag again. In COOKIE-WAIT the answer may go only to
            // an address that the application named and the INIT lists, preferably its source.
            State::CookieWait(_) => {
                if association.paths.by_address(datagram.source.ip()).is_none() {
                    let reported = offer.addresses.iter();
                    let known = reported.filter_map(|ip| association.paths.by_address(*ip)).next();
                    let Some(known) = known else { return };
                    route = association.route(known);
                }
                answer_of(association, association.local_tag, (0, 0))
            }
            _ if !added.is_empty() => {
                let cause =
                    encode_cause(&Cause::RestartWithNewAddresses(Parameters::new(&encode_addresses(&added))));
                return abort_reply(&mut cx.replies, route, ports, &cause, false);
            }
            State::CookieEchoed(_) => {
                let ties = cx.tie_tags(association.local_tag, association.peer_tag);
                answer_of(association, association.local_tag, ties)
            }
            _ => {
                let answer = answer_to_lost_peer(association, cx, tag);
                // Such a peer may use an address that the association has deleted.
                let has_address = association.paths.is_at(arrived_at(datagram));
                match has_address {
                    true => answer,
                    false => Answer { local: bound.to_vec(), at_deleted_address: true, ..answer },
                }
            }
        };
        self.send_init_ack(now, (offer, keys), &answer, route, ports);
    }

    /// Returns an answer for a new peer. It is not stored, only sealed into the cookie.
    fn fresh_answer(&mut self, port: u16) -> Answer {
        let config = Arc::clone(&self.context.config.association);
        Answer {
            tag: self.free_tag(),
            initial_tsn: self.context.random_tsn(),
            outbound_streams: config.outbound_streams,
            inbound_streams: config.inbound_streams_max,
            a_rwnd: config.receive_buffer_start(),
            ties: (0, 0),
            features: Features::offered_by(&config),
            own: config
                .extensions
                .demanded_authentication()
                .map(|own| Box::new((own, self.context.random_number()))),
            local: self.ports.bound(port).to_vec(),
            adaptation: config.extensions.adaptation_layer,
            at_deleted_address: false,
        }
    }

    fn send_init_ack(
        &mut self,
        now: Time,
        (offer, keys): (&Offer<'_>, Option<Box<PeerParameters>>),
        answer: &Answer,
        route: Route,
        ports: AnswerPorts,
    ) {
        let cx = &mut self.context;
        if cx.cookies.rotation_due(now) {
            let mut key = [0; 32];
            cx.rng.fill_bytes(&mut key);
            cx.cookies.rotate(key, now);
        }
        let features = answer.features.agreed_with(&offer.declared);
        let own = answer.own.as_deref().filter(|_| features.has(Extensions::AUTHENTICATION));
        let kept = own.zip(keys).map(|((_, random), peer)| CookieParameters { random: *random, peer: *peer });
        let own = own.map(|(settings, random)| OwnParameters::new(settings, *random));
        // The peer relies on this from the first packet on.
        let ports = AnswerPorts { zero_checksum: features.zero_checksum.by_peer, ..ports };
        let increment = Duration::from_millis(u64::from(offer.preservative_ms)).min(PRESERVATIVE_MAX);
        let lifetime = cx.config.association.cookie_lifetime + increment;
        let cookie = cx.cookies.seal(&Cookie {
            created: now,
            lifetime_ms: u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX),
            local_tag: answer.tag,
            peer_tag: offer.tag,
            local_tie_tag: answer.ties.0,
            peer_tie_tag: answer.ties.1,
            local_port: ports.source,
            peer_port: ports.destination,
            local_initial_tsn: answer.initial_tsn,
            peer_initial_tsn: offer.initial_tsn,
            peer_rwnd: offer.a_rwnd,
            outbound_streams: answer.outbound_streams.min(offer.inbound_streams),
            inbound_streams: answer.inbound_streams.min(offer.outbound_streams),
            features,
            adaptation: offer.declared.adaptation(),
            auth: kept.map(Box::new),
            source: route.destination,
            destination: route.source,
            addresses: offer.addresses.clone(),
            primary: offer.primary(&features),
            named: answer.named(cx, &features, route.source),
        });
        let init = Init {
            initiate_tag: answer.tag,
            a_rwnd: answer.a_rwnd,
            // No more than the peer accepts (section 3.3.3).
            outbound_streams: answer.outbound_streams.min(offer.inbound_streams),
            inbound_streams: answer.inbound_streams,
            initial_tsn: answer.initial_tsn,
            parameters: Parameters::new(&[]),
        };
        // The declaration comes first: parameters that do not fit are left out, and the peer relies on this one.
        let more = |writer: &mut TlvWriter<'_>| {
            if let Some(own) = &own {
                own.write(writer);
            }
            answer.write(features, writer);
            let _ = writer.push(&Parameter::StateCookie(&cookie));
            for parameter in offer.reported(&features) {
                let _ = writer.push(&Parameter::UnrecognisedParameter(parameter));
            }
        };
        init_packet(cx, route, ports, init, &answer.local, Some(offer), more);
        cx.stats.inits += 1;
    }
}

pub(super) fn answer_ports(packet: &Packet<'_>, tag: VerificationTag) -> AnswerPorts {
    AnswerPorts {
        source: packet.destination_port(),
        destination: packet.source_port(),
        tag,
        // Nothing is known about the peer, or no longer.
        zero_checksum: false,
    }
}

/// Refuses an INIT.
fn refuse_init(cx: &mut EndpointContext, refusal: Refusal, packet: &Packet<'_>, datagram: &Datagram<'_>) {
    let (causes, tag, reflected) = match refusal {
        Refusal::Silently => {
            cx.stats.malformed += 1;
            return discarded(datagram, "malformed INIT");
        }
        Refusal::Window { causes, tag } => (causes, tag, false),
        Refusal::Abort { causes, tag, reflected } => (causes, tag, reflected),
    };
    let ports = answer_ports(packet, tag);
    abort_reply(&mut cx.replies, Endpoint::route_back(datagram), ports, &causes, reflected);
}

/// Returns what an association demands of its peer, or without one, what the endpoint demands. A peer that
/// restarts must support authentication again once it was agreed on: otherwise any host that can restart it
/// would get rid of it.
fn settings_of(association: Option<&Association>, config: &AssociationConfig) -> Option<Authentication> {
    let Some(association) = association else { return config.extensions.demanded_authentication() };
    let demanded = || association.config.extensions.demanded_authentication();
    let settings = auth_of(association).map(|auth| auth.settings()).or_else(demanded)?;
    let restarts = !association.state.in_setup() && !matches!(association.state, State::ShutdownAckSent);
    let agreed = restarts && association.features.has(Extensions::AUTHENTICATION);
    Some(Authentication { required: settings.required || agreed, ..settings })
}

/// Returns an answer with the association's own parameters.
fn answer_of(association: &Association, tag: VerificationTag, ties: (u32, u32)) -> Answer {
    let init = association.own_init(tag);
    Answer {
        tag,
        initial_tsn: init.initial_tsn,
        outbound_streams: init.outbound_streams,
        inbound_streams: init.inbound_streams,
        a_rwnd: init.a_rwnd,
        ties,
        // What was declared before stands.
        features: association.features.offered_again(),
        own: auth_of(association).map(|auth| Box::new((auth.settings(), auth.random()))),
        local: association.paths.local().to_vec(),
        adaptation: association.config.extensions.adaptation_layer,
        at_deleted_address: false,
    }
}

/// Returns the answer to a peer that may have lost its state: a new tag, and the tie tags of the association (section
/// 5.2.2).
fn answer_to_lost_peer(association: &Association, cx: &mut EndpointContext, tag: VerificationTag) -> Answer {
    let ties = cx.tie_tags(association.local_tag, association.peer_tag);
    let initial_tsn = Tsn(cx.rng.next_u32());
    // The peer may support more than it did before.
    let features = Features::offered_by(&association.config);
    let settings = settings_of(Some(association), &association.config);
    let own = settings.map(|settings| Box::new((settings, cx.random_number())));
    Answer { initial_tsn, features, own, ..answer_of(association, tag, ties) }
}

/// The cause that refuses a set-up from another encapsulation port than the association's packets come from,
/// if it is one: there may be another client behind the same NAT, and nothing proves that it is the one that
/// the association is with (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).
pub(super) fn new_port(association: &Association, source: SocketAddr) -> Option<Vec<u8>> {
    let path = association.paths.get(association.paths.by_address(source.ip())?);
    let (current, new) = (path.remote.port(), source.port());
    let cause = Cause::RestartWithNewEncapsulationPort { current, new };
    (current != new).then(|| encode_cause(&cause))
}

/// True for a late copy of the INIT that set the association up, from an encapsulation port that a NAT has replaced
/// since (`moved`), or with an address that is no longer the peer's (`added`). An ABORT, which has the tag of the
/// association, would end it.
fn is_late(association: &Association, tag: VerificationTag, (moved, added): (bool, bool)) -> bool {
    let may_have_left = match association.state {
        // It is answered in any case.
        State::CookieWait(_) | State::ShutdownAckSent => false,
        State::CookieEchoed(_) => association.features.has(Extensions::DYNAMIC_ADDRESSES),
        _ => true,
    };
    let is_late = (moved && !association.state.in_setup()) || (added && may_have_left);
    is_late && tag == association.peer_tag
}

/// Addresses of an INIT that the association does not have (sections 5.2.1 and 5.2.2).
fn added_addresses(association: &Association, offer: &Offer<'_>, source: IpAddr) -> Vec<IpAddr> {
    let all = core::iter::once(source).chain(offer.addresses.iter().copied());
    all.filter(|address| association.paths.by_address(*address).is_none()).collect()
}

/// Maximum length of an address parameter in bytes: that of an IPv6 address (RFC 9260 section 3.3.2.1.2).
const ADDRESS_LEN_MAX: usize = TLV_HEADER_LEN + 16;

/// Addresses as parameters, for the cause "Restart of an Association with New Addresses".
fn encode_addresses(addresses: &[IpAddr]) -> Vec<u8> {
    let mut buffer = vec![0; addresses.len() * ADDRESS_LEN_MAX];
    let mut writer = strandline_wire::TlvWriter::new(&mut buffer);
    for address in addresses {
        let parameter = match zone::bare(*address) {
            IpAddr::V4(v4) => Parameter::Ipv4Address(v4),
            IpAddr::V6(v6) => Parameter::Ipv6Address(v6),
        };
        let _ = writer.push(&parameter);
    }
    let len = writer.finish().len();
    buffer.truncate(len);
    buffer
}

/// True if a quoted packet starts with an INIT.
pub(super) fn quotes_init(quoted: &[u8]) -> bool {
    quoted.get(strandline_wire::COMMON_HEADER_LEN).is_some_and(|first| *first == kind::INIT)
}
