//! Establishment (RFC 9260 section 5.1): INIT, INIT ACK, COOKIE ECHO, COOKIE ACK, and the Stale Cookie error of
//! section 5.2.6. The listener is stateless until the cookie returns; that part is in `endpoint::listen`.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use strandline_wire::TlvWriter;
use strandline_wire::cause::Cause;
use strandline_wire::chunk::{Init, InitAck};
use strandline_wire::number::{Tsn, VerificationTag};
use strandline_wire::parameter::{Parameter, Parameters};

use super::addresses::choose_sources;
use super::build::{Ports, abort_packet};
use super::context::{EndpointContext, Route};
use super::cookie::Cookie;
use super::deadlines::Deadlines;
use super::diagnostics::log_of;
use super::early_streams;
use super::ecn::Ecn;
use super::error_counts::ErrorCounts;
use super::extras::Extras;
use super::features::{Extensions, Features};
use super::left_over;
use super::offer::{Offer, Refusal, read, report_parameter};
use super::state::{Setup, State};
use super::stream_credit;
use super::verification::{AmplificationBudget, INIT_LEN};
use super::{Association, Flags};
use super::{adaptation, asconf, auth};
use crate::config::AssociationConfig;
use crate::event::{AssociationId, CloseReason, Event};
use crate::inbound::Inbound;
use crate::inbound::dropped::{is_new, note_dropped};
use crate::inbound::i_data::set_interleaved;
use crate::outbound::Outbound;
use crate::outbound::interleaving::set_interleaving;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::path::{Path, PathSet, PathState};
use crate::path_index::PathIndex;
use crate::stats::{AssociationState, AssociationStats};
use crate::time::Time;

/// Maximum number of restarts of the set-up after Stale Cookie errors.
const STALE_MAX: u8 = 3;
/// Maximum extension of a cookie's lifetime that a peer may ask for.
pub(crate) const PRESERVATIVE_MAX: Duration = Duration::from_secs(30);

/// The parameters of a new association of ours.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) id: AssociationId,
    pub(crate) config: Arc<AssociationConfig>,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_tag: VerificationTag,
    /// The peer's addresses; the first is the primary path.
    pub(crate) remotes: Vec<SocketAddr>,
    /// Local addresses; none for those of the endpoint.
    pub(crate) local: Vec<IpAddr>,
}

/// Encodes the parameters of INIT or INIT ACK: the addresses that the peer at `peer` can use, then what `more` writes.
fn parameters<'b>(
    buffer: &'b mut [u8],
    cx: &EndpointContext,
    (own, peer): (&[IpAddr], IpAddr),
    takes: impl Fn(IpAddr) -> bool,
    more: impl FnOnce(&mut TlvWriter<'_>),
) -> &'b [u8] {
    let mut writer = TlvWriter::new(buffer);
    for address in cx.local_addresses_for(own, peer).filter(|address| takes(*address)) {
        let parameter = match address {
            IpAddr::V4(v4) => Parameter::Ipv4Address(v4),
            IpAddr::V6(v6) => Parameter::Ipv6Address(v6),
        };
        let _ = writer.push(&parameter);
    }
    more(&mut writer);
    writer.finish()
}

/// Queues an INIT, or an INIT ACK in answer to the INIT that made `offer`. `more` writes the parameters that
/// follow the addresses: `own` of the association, or those of the endpoint if it has none.
pub(crate) fn init_packet(
    cx: &mut EndpointContext,
    route: Route,
    ports: Ports,
    init: Init<'_>,
    own: &[IpAddr],
    offer: Option<&Offer<'_>>,
    more: impl FnOnce(&mut TlvWriter<'_>),
) {
    let mut buffer = [0; CONTROL_PACKET_LEN_MAX - INIT_LEN];
    let peer = route.destination.ip();
    let takes = |address| offer.is_none_or(|offer| offer.takes(address, peer));
    let parameters = parameters(&mut buffer, cx, (own, peer), takes, more);
    let len = INIT_LEN + parameters.len();
    let init = Init { parameters: Parameters::new(parameters), ..init };
    let is_ack = offer.is_some();
    let tag = offer.map_or(init.initiate_tag, |offer| offer.tag);
    let cut_max = cx.long_set_ups.cut_max(peer, tag, len);
    let queue = if is_ack { &mut cx.replies } else { &mut cx.control };
    queue.push_cut(route, CONTROL_PACKET_LEN_MAX, cut_max, |out| {
        let mut packet = ports.packet(out);
        let pushed = if is_ack { packet.push(&InitAck(init)) } else { packet.push(&init) };
        if pushed { ports.finish(packet) } else { 0 }
    });
}

impl Association {
    /// Builds the TCB and sends INIT (section 5.1 A).
    pub(crate) fn open(cx: &mut EndpointContext, now: Time, opening: Opening) -> Self {
        let Opening { id, config, local_port, peer_port, local_tag, remotes, local } = opening;
        let initial_tsn = cx.random_tsn();
        let new_path = |remote: SocketAddr| {
            let mut path = Path::new(remote, None, &config, cx.link_to(remote.ip()), now);
            path.acquaint(now, cx.known.get(now, remote.ip()), &config);
            // Addresses from the application are confirmed (section 5.4 rule 1).
            let _ = path.confirm();
            path
        };
        let mut remotes = remotes.into_iter();
        // `connect` refuses an empty list; an unspecified address here would simply never be answered.
        let primary = remotes.next().unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let mut paths = PathSet::new(new_path(primary));
        for remote in remotes {
            let _ = paths.add(new_path(remote));
        }
        let features = Features::offered_by(&config);
        let mut association = Self {
            id,
            state: State::CookieWait(Box::new(Setup::new(now))),
            local_tag,
            peer_tag: VerificationTag(0),
            local_port,
            peer_port,
            inbound: Inbound::new(initial_tsn, config.inbound_streams_max, config.receive_buffer_start()),
            outbound: Outbound::new(initial_tsn, 0, config.outbound_streams),
            paths,
            stats: AssociationStats::default(),
            initial_tsn,
            peer_initial_tsn: initial_tsn,
            deadlines: Deadlines::default(),
            errors: ErrorCounts::default(),
            sack_path: PathIndex::FIRST,
            control_path: PathIndex::FIRST,
            verification: AmplificationBudget::default(),
            flags: Flags::default(),
            features,
            extras: Extras::with(auth::offered(config.extensions.demanded_authentication(), cx)),
            ecn: Ecn::declaring(features.offers(Extensions::ECN)),
            reconfig: None,
            config,
        };
        if let Some(log) = log_of(&association) {
            log.state(AssociationState::Closed);
        }
        association.flags.bound = !local.is_empty();
        association.paths.set_local(local);
        choose_sources(&mut association);
        association.send_init(cx, now);
        association
    }

    /// Sends INIT on the control path and starts T1-init.
    pub(super) fn send_init(&mut self, cx: &mut EndpointContext, now: Time) {
        let State::CookieWait(setup) = &mut self.state else { return };
        setup.sent_at = now;
        let increment_ms = setup.preservative_ms;
        let more = |writer: &mut TlvWriter<'_>| {
            self.features.offer(writer);
            if increment_ms > 0 {
                let _ = writer.push(&Parameter::CookiePreservative { increment_ms });
            }
            if let Some(credit) = self.features.offered_credit() {
                let _ = writer.push(&credit);
            }
            if let Some(code_point) = self.config.extensions.adaptation_layer {
                let _ = writer.push(&Parameter::AdaptationLayer { code_point });
            }
            if let Some(auth) = auth::auth_of(self) {
                auth.own().write(writer);
            }
        };
        let init = self.own_init(self.local_tag);
        let ports = Ports { tag: VerificationTag(0), zero_checksum: false, ..self.ports() };
        init_packet(cx, self.route(self.control_path), ports, init, self.paths.local(), None, more);
        let path = self.paths.get_mut(self.control_path);
        path.on_control_sent(now);
        self.deadlines.control = now + path.rto.rto();
    }

    /// Returns the fixed fields of our INIT.
    pub(crate) fn own_init(&self, tag: VerificationTag) -> Init<'static> {
        Init {
            initiate_tag: tag,
            a_rwnd: self.config.receive_buffer_start(),
            outbound_streams: self.config.outbound_streams,
            inbound_streams: self.config.inbound_streams_max,
            initial_tsn: self.initial_tsn,
            parameters: Parameters::new(&[]),
        }
    }

    /// Processes an INIT ACK (section 5.1 C), which may come from any address of a multi-homed peer.
    pub(super) fn on_init_ack(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        init: &Init<'_>,
        source: SocketAddr,
    ) {
        if !matches!(self.state, State::CookieWait(_)) {
            return; // Section 5.2.3.
        }
        let both_families = cx.local_addresses(self.paths.local()).len() > 1;
        let fits = |a: IpAddr| both_families || a.is_ipv4() == source.is_ipv4();
        let usable = |a: IpAddr| fits(a) && cx.host_addresses.may_be_the_peers(a, source.ip());
        let mut offer = match read(init, true, source.ip(), usable) {
            Ok(offer) => offer,
            Err(refusal) => return refuse_init_ack(self, cx, now, source, refusal),
        };
        if !early_streams::keep_parity(self, &offer) {
            return early_streams::ask_for_other_tags(self, cx, now);
        }
        let settings = auth::auth_of(self).map(|auth| auth.settings());
        let keys = match offer.negotiate_authentication(settings.as_ref()) {
            Ok(keys) => keys,
            Err(refusal) => return refuse_init_ack(self, cx, now, source, refusal),
        };
        self.peer_tag = offer.tag;
        self.features = self.features.agreed_with(&offer.declared);
        adaptation::adopt(self, offer.declared.adaptation());
        if let (Some(auth), Some(keys)) = (auth::auth_mut(self), keys) {
            auth.agree(&keys);
        }
        if let Some(ecn) = &mut self.ecn {
            ecn.agreed = self.features.has(Extensions::ECN);
        }
        self.adopt_addresses(cx, now, &offer, source);
        self.adopt_numbers(cx, &offer);
        if !adopt_interleaving(self) {
            return self.abort_for_violation(cx, now, OTHER_CHUNKS);
        }
        stream_credit::report_writable(self, cx);
        let State::CookieWait(setup) = &mut self.state else { return };
        // An INIT that was sent once measures the round-trip time.
        if setup.attempts == 0 {
            let rtt = now.since(setup.sent_at);
            let config = Arc::clone(&self.config);
            self.paths.get_mut(self.control_path).on_setup_answer(rtt, &config);
        }
        setup.take_cookie(now, offer.cookie.unwrap_or_default());
        let primary = offer.primary(&self.features);
        let unrecognised_primary = offer.unrecognised_primary(&self.features).map(<[u8]>::to_vec);
        setup.report = offer.unrecognised;
        if let Some(parameter) = unrecognised_primary {
            report_parameter(&mut setup.report, &parameter);
        }
        if let Some(parameter) = self.features.unrecognised(&offer.declared) {
            report_parameter(&mut setup.report, parameter);
        }
        self.state.move_setup(State::CookieEchoed);
        if let Some(log) = log_of(self) {
            log.state(AssociationState::CookieWait);
        }
        self.errors.total = 0;
        self.deadlines.control = Time::MAX;
        self.flags.cookie_echo_due = true;
        asconf::prefer(self, primary);
        early_streams::on_agreed(self, cx);
    }

    fn abort_init_ack(
        &self,
        cx: &mut EndpointContext,
        source: SocketAddr,
        causes: &[u8],
        tag: VerificationTag,
        reflected: bool,
    ) {
        if let Some(log) = log_of(self) {
            log.abort(causes);
        }
        let route = Route { destination: source, source: self.paths.get(self.control_path).local };
        abort_packet(&mut cx.control, route, Ports { tag, ..self.ports() }, causes, reflected);
    }

    /// Adopts the peer's addresses from its INIT ACK (section 5.1.2). Those that the application gave stay confirmed;
    /// others are probed.
    fn adopt_addresses(&mut self, cx: &EndpointContext, now: Time, offer: &Offer<'_>, source: SocketAddr) {
        let config = Arc::clone(&self.config);
        let named = |ip: IpAddr| ip == source.ip() || offer.addresses.contains(&ip);
        // Addresses that the application gave and the peer does not list belong to another host, or are unreachable.
        let mut kept: Vec<Path> = Vec::new();
        kept.extend(
            self.paths.iter().filter(|(_, path)| named(path.remote.ip())).map(|(_, path)| path.clone()),
        );
        for ip in core::iter::once(source.ip()).chain(offer.addresses.iter().copied()) {
            if !kept.iter().any(|path| path.remote.ip() == ip) {
                let remote = SocketAddr::new(ip, source.port());
                kept.push(Path::new(remote, None, &config, cx.link_to(ip), now));
            }
        }
        // If no address of the application is left, the source is confirmed, because it answered with the tag that
        // only we knew.
        if let Some(first) = kept.first_mut() {
            let _ = first.confirm();
        }
        let mut kept = kept.into_iter();
        let Some(first) = kept.next() else { return };
        self.paths.replace(first);
        for path in kept {
            let _ = self.paths.add(path);
        }
        choose_sources(self);
        // The path that answered carries the COOKIE ECHO, if the application named its address.
        let answered = self.paths.by_address(source.ip());
        let confirmed = answered.filter(|index| self.paths.get(*index).state == PathState::Active);
        self.control_path = confirmed.unwrap_or(PathIndex::FIRST);
        self.sack_path = self.control_path;
    }

    fn adopt_numbers(&mut self, cx: &mut EndpointContext, offer: &Offer<'_>) {
        let streams_in = offer.outbound_streams.min(self.config.inbound_streams_max);
        self.peer_initial_tsn = offer.initial_tsn;
        self.inbound = Inbound::new(offer.initial_tsn, streams_in, self.config.receive_buffer_start());
        let streams_out = self.config.outbound_streams.min(offer.inbound_streams);
        for failed in self.outbound.set_peer(offer.a_rwnd, streams_out) {
            cx.on_send_bytes_gone(failed.data.len());
            cx.event(self.id, Event::SendFailed(failed));
        }
        if self.outbound.take_writable() {
            cx.event(self.id, Event::Writable);
        }
    }

    /// Processes COOKIE ACK (sections 5.1 E and 5.2.5), or what stands for it and `measures` no round-trip time.
    pub(super) fn on_cookie_ack(&mut self, cx: &mut EndpointContext, now: Time, measures: bool) {
        if let State::CookieEchoed(setup) = &self.state {
            let sent_at = setup.sent_at;
            if setup.attempts == 0 && measures {
                let rtt = now.since(sent_at);
                let config = Arc::clone(&self.config);
                self.paths.get_mut(self.control_path).rto.on_sample(rtt, &config);
            }
            self.establish(cx, now);
            left_over::on_established(self, cx, now, sent_at);
            // The application has requested it before, and may be gone by now.
            if self.flags.shutdown_wanted {
                self.shutdown(cx, now);
            }
            // All data may already be acknowledged, so that nothing else would trigger a probe.
            self.probe_mtu(cx, now, self.control_path);
        }
    }

    /// Enters ESTABLISHED, from either side.
    pub(super) fn establish(&mut self, cx: &mut EndpointContext, now: Time) {
        // A listener has no association before its cookie returns (section 4).
        let before = if self.state.in_setup() { self.state.public() } else { AssociationState::Closed };
        self.state = State::Established;
        if let Some(log) = log_of(self) {
            log.state(before);
            log.established();
        }
        self.deadlines.control = Time::MAX;
        self.errors.total = 0;
        self.flags.cookie_echo_due = false;
        // Data that went with the COOKIE ECHO is acknowledged from now on like any other.
        for index in self.paths.indices() {
            let path = self.paths.get_mut(index);
            // The cached round-trip time determined the RTO of the set-up; from now on RTO.Min applies.
            path.rto.clamp(&self.config);
            if path.flight > 0 || self.outbound.has_overdue(index) {
                path.start_rtx(now);
            }
        }
        self.start_heartbeats(cx, now);
        self.touch_idle(now);
        cx.stats.established += 1;
        let event = Event::Established {
            incoming: self.flags.incoming,
            outbound_streams: self.outbound.streams(),
            inbound_streams: self.inbound.streams(),
        };
        cx.event(self.id, event);
        adaptation::report(self, cx);
        auth::report_support(self, cx);
        // Data that went with the COOKIE ECHO may have used up the credit of a stream.
        self.watch_window(now, self.control_path);
    }

    /// Builds the listener's association from its cookie (section 5.1.5 step 5).
    pub(crate) fn accept(
        cx: &mut EndpointContext,
        now: Time,
        id: AssociationId,
        config: Arc<AssociationConfig>,
        cookie: &Cookie,
    ) -> Self {
        let mut association = Self {
            id,
            state: State::Established,
            local_tag: cookie.local_tag,
            peer_tag: cookie.peer_tag,
            local_port: cookie.local_port,
            peer_port: cookie.peer_port,
            inbound: Inbound::new(
                cookie.peer_initial_tsn,
                cookie.inbound_streams,
                config.receive_buffer_start(),
            ),
            outbound: Outbound::new(cookie.local_initial_tsn, cookie.peer_rwnd, cookie.outbound_streams),
            paths: paths_of(cx, now, &config, cookie),
            stats: AssociationStats::default(),
            initial_tsn: cookie.local_initial_tsn,
            peer_initial_tsn: cookie.peer_initial_tsn,
            deadlines: Deadlines::default(),
            errors: ErrorCounts::default(),
            sack_path: PathIndex::FIRST,
            control_path: PathIndex::FIRST,
            verification: AmplificationBudget::for_init(cookie.addresses.iter().copied()),
            flags: Flags { incoming: true, ..Flags::default() },
            features: cookie.features,
            extras: Extras::with(auth::accepted(
                config.extensions.demanded_authentication(),
                cookie.auth.as_deref(),
                cx,
            )),
            ecn: Ecn::agreed(cookie.features.has(Extensions::ECN)),
            reconfig: None,
            config,
        };
        asconf::prefer(&mut association, cookie.primary);
        // The cookie's way to the peer and back measures the round-trip time, unless a packet was lost and repeated
        // by its timer. (With a clock that stood still nothing is measured.)
        let round_trip = now.since(cookie.created);
        let measures = !association.config.to_the_letter;
        if measures && !round_trip.is_zero() && round_trip < association.config.rto_initial {
            let config = Arc::clone(&association.config);
            association.paths.get_mut(PathIndex::FIRST).rto.on_sample(round_trip, &config);
        }
        association.flags.cookie_ack_due = true;
        adaptation::adopt(&mut association, cookie.adaptation);
        let adopted = adopt_interleaving(&mut association);
        debug_assert!(adopted, "nothing was sent");
        association.establish(cx, now);
        association
    }

    /// Handles a Stale Cookie error for our COOKIE ECHO (section 5.2.6), by alternative 3: a new INIT that asks for a
    /// longer lifetime.
    ///
    /// But if the COOKIE ECHO was sent more than once together with data, an earlier one may have created an
    /// association that accepted the data and has ended since. A new one would get the data a second time. The set-up
    /// then ends (alternative 2), and the application learns which messages may have arrived.
    pub(super) fn on_stale_cookie(&mut self, cx: &mut EndpointContext, now: Time) {
        let State::CookieEchoed(setup) = &mut self.state else { return };
        let sent_often = setup.attempts > 0 || setup.echoes > 1;
        let may_have_arrived = sent_often && self.outbound.unacknowledged_bytes() > 0;
        if setup.stale >= STALE_MAX || may_have_arrived {
            return self.end(cx, now, CloseReason::TimedOut);
        }
        setup.stale += 1;
        // The measured round-trip time, and up to a second more.
        let rtt = now.since(setup.sent_at);
        let increment = rtt + rtt.min(Duration::from_secs(1));
        setup.preservative_ms = u32::try_from(increment.as_millis()).unwrap_or(u32::MAX).max(1);
        setup.attempts = 0;
        setup.cookie = Vec::new();
        self.state.move_setup(State::CookieWait);
        if let Some(log) = log_of(self) {
            log.state(AssociationState::CookieEchoed);
        }
        self.flags.cookie_echo_due = false;
        self.features = self.features.offered_again();
        self.retract_cookie_data();
        self.send_init(cx, now);
    }

    /// Retracts data that went with a COOKIE ECHO, so that it is sent again with the next one.
    pub(super) fn retract_cookie_data(&mut self) {
        for index in self.paths.indices() {
            let marked = self.outbound.send_again(index);
            let path = self.paths.get_mut(index);
            path.on_lost(marked);
            path.stop_rtx();
        }
    }

    /// Encodes the causes of an ERROR that goes with the COOKIE ECHO: unknown parameters of the INIT ACK.
    pub(super) fn unrecognised_report(report: &[u8]) -> Vec<u8> {
        super::offer::encode_cause(&Cause::UnrecognisedParameters(Parameters::new(report)))
    }
}

/// Refuses an INIT ACK.
#[cold]
fn refuse_init_ack(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    source: SocketAddr,
    refusal: Refusal,
) {
    match refusal {
        Refusal::Silently => {}
        // T1-init keeps running, and the set-up fails by itself if the peer repeats this.
        Refusal::Window { causes, tag } => association.abort_init_ack(cx, source, &causes, tag, false),
        Refusal::Abort { causes, tag, reflected } => {
            let tag = if reflected { association.local_tag } else { tag };
            association.abort_init_ack(cx, source, &causes, tag, reflected);
            association.end(cx, now, CloseReason::ProtocolViolation("INIT ACK that cannot be accepted"));
        }
    }
}

/// Maximum distance of a TSN from the peer's first one for DATA to complete the set-up: no gap block could
/// report DATA further ahead.
const EARLY_TSN_MAX: u32 = u16::MAX as u32;

/// Handles DATA in a state in which section 6 recommends to discard it. Returns whether the association receives data
/// now.
///
/// In COOKIE-ECHOED it stands for the COOKIE ACK, which must have been lost: a peer sends none before it has
/// accepted the cookie. After SHUTDOWN, new DATA is a violation: a peer sends SHUTDOWN only once all its data
/// is acknowledged, and none afterwards (section 9.2), and the application knows already that it has
/// everything.
#[cold]
pub(super) fn on_data_in_wrong_state(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    tsn: Tsn,
) -> bool {
    let echoed = matches!(&association.state, State::CookieEchoed(setup) if setup.echoed);
    // A packet of an earlier association with the same tag has other TSNs.
    let is_first = tsn.distance_from(association.peer_initial_tsn) <= EARLY_TSN_MAX;
    let to_the_letter = association.config.to_the_letter;
    let peer_is_done = matches!(association.state, State::ShutdownReceived | State::ShutdownAckSent);
    match () {
        // Data comes when the peer has some.
        () if echoed && is_first && !to_the_letter => association.on_cookie_ack(cx, now, false),
        () if peer_is_done && is_new(&association.inbound, tsn) && !to_the_letter => {
            association.abort_for_violation(cx, now, "DATA after SHUTDOWN");
        }
        () if peer_is_done || (echoed && is_first) => note_dropped(&mut association.inbound, tsn),
        () => {}
    }
    association.state.receives_data()
}

/// Returns the paths of a cookie. Only the address that the INIT ACK went to is confirmed (section 5.4 rule 2).
pub(super) fn paths_of(
    cx: &EndpointContext,
    now: Time,
    config: &AssociationConfig,
    cookie: &Cookie,
) -> PathSet {
    let link = cx.link_to(cookie.source.ip());
    let mut first = Path::new(cookie.source, cookie.destination, config, link, now);
    first.acquaint(now, cx.known.get(now, cookie.source.ip()), config);
    let _ = first.confirm();
    let mut paths = PathSet::new(first);
    for ip in &cookie.addresses {
        let remote = SocketAddr::new(*ip, cookie.source.port());
        let _ = paths.add(Path::new(remote, None, config, cx.link_to(*ip), now));
    }
    paths
}

/// Makes both halves use I-DATA or DATA, and count credit, as was negotiated. Nothing may have arrived.
/// Returns false without a change if data was sent in the other chunks.
#[must_use]
pub(super) fn adopt_interleaving(association: &mut Association) -> bool {
    let interleaves = association.features.has(Extensions::INTERLEAVING);
    if !set_interleaving(&mut association.outbound, interleaves) {
        return false;
    }
    set_interleaved(&mut association.inbound, interleaves);
    if interleaves {
        stream_credit::adopt(association);
    }
    true
}

/// Why a set-up ends in which data was sent with a COOKIE ECHO in chunks of one kind, and the peer now expects the
/// other.
pub(super) const OTHER_CHUNKS: &str = "I-DATA was negotiated once and not at another attempt";
