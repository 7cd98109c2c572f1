//! Input: a packet whose tag and source address have been checked, chunk by chunk.

use core::net::SocketAddr;

use strandline_wire::cause::{Cause, code};
use strandline_wire::chunk::{self, Chunk, Data, IData, kind};
use strandline_wire::{Packet, RawChunk, UnrecognisedAction};

use super::auth::{self, Admission};
use super::context::EndpointContext;
use super::data::on_nr_sack_chunk;
use super::diagnostics::log_of;
use super::features::Extensions;
use super::multipath::redirect_sacks;
use super::offer::{append_tlv, encode_cause};
use super::seen::Seen;
use super::setup::on_data_in_wrong_state;
use super::teardown::restart_guard;
use super::verification::on_packet_from_unconfirmed;
use super::{Association, State, asconf, forward, reconfig, stream_credit};
use crate::event::{CloseReason, Event};
use crate::inbound::dropped::progress;
use crate::number::Tsn;
use crate::path_index::PathIndex;
use crate::time::Time;

/// Maximum number of bytes of unrecognised chunks and causes reported for one packet.
const REPORT_LEN_MAX: usize = 1024;

/// Maximum number of HEARTBEATs answered per packet: nobody has a reason to send more than one, and each answer is a
/// packet.
const HEARTBEATS_MAX: u8 = 4;

/// Maximum number of RE-CONFIG chunks processed per packet: a response and a request, each of which may be a chunk.
const RE_CONFIGS_MAX: u8 = 2;

/// Maximum number of FORWARD TSN chunks processed per packet: a later one supersedes the earlier ones.
const FORWARD_TSNS_MAX: u8 = 2;

impl Association {
    /// Processes a packet of this association. `source` is one of the peer's addresses, except for an INIT ACK.
    /// `ecn_ce` is true if the network reports congestion (ECN).
    pub(crate) fn handle_packet(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        packet: &Packet<'_>,
        source: SocketAddr,
        ecn_ce: bool,
    ) {
        let from = self.paths.by_address(source.ip());
        self.handle_packet_from(cx, now, packet, (source, from), ecn_ce);
    }

    /// As [`handle_packet`](Self::handle_packet), with the path of the source address already looked up.
    pub(crate) fn handle_packet_from(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        packet: &Packet<'_>,
        (source, from): (SocketAddr, Option<PathIndex>),
        ecn_ce: bool,
    ) {
        self.stats.packets_received += 1;
        self.verification.on_received(packet.size());
        self.flags.burst_open = true;
        if let Some(index) = from {
            self.learn_port(index, source);
            self.probe_unconfirmed(cx, now, index);
        }
        let progress = matches!(self.state, State::ShutdownSent { .. }).then(|| progress(&self.inbound));
        let mut seen = Seen { sack_path: Some(self.sack_path), progress, ..Seen::default() };
        let is_open = match self.features.has(Extensions::AUTHENTICATION) {
            false => handle_chunks(self, cx, now, packet, (source, from), &mut seen),
            true => handle_chunks_with_auth(self, cx, now, packet, (source, from), &mut seen),
        };
        if !is_open {
            return;
        }
        if let Some(ecn) = &mut self.ecn {
            ecn.end_packet();
        }
        seen.ecn_ce = ecn_ce;
        self.finish_packet(cx, now, from, &seen);
    }

    /// Updates the encapsulation port from the peer's packets (RFC 6951 section 5.4).
    fn learn_port(&mut self, index: PathIndex, source: SocketAddr) {
        let path = self.paths.get_mut(index);
        if path.remote.port() != source.port() {
            path.remote.set_port(source.port());
        }
    }

    /// Probes an unconfirmed address, because the peer uses it, or has answered an ASCONF that was sent there.
    #[inline]
    pub(super) fn probe_unconfirmed(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        if !self.is_confirmed(index) && self.state.heartbeats() {
            on_packet_from_unconfirmed(self, cx, now, index);
        }
    }

    /// Processes one chunk. Returns false to discard the rest of the packet.
    fn handle_chunk(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        raw: &RawChunk<'_>,
        source: SocketAddr,
        from: PathIndex,
        seen: &mut Seen,
    ) -> bool {
        seen.chunks += 1;
        if raw.kind == kind::HEARTBEAT {
            // Its content is returned unchanged, whatever it is.
            if seen.heartbeats < HEARTBEATS_MAX {
                seen.heartbeats += 1;
                self.on_heartbeat(cx, raw.value, source);
            }
            return true;
        }
        let parsed = match raw.parse() {
            Ok(parsed) => parsed,
            Err(_) => return on_malformed(self, cx, now, raw, seen),
        };
        match parsed {
            Chunk::Data(data) => return self.on_data_chunk(cx, now, &data, from, seen),
            // Process all SACKs in order (section 6.10). A SACK without news costs only its parsing; any
            // other acknowledges data or reneges, and reneging has a budget.
            Chunk::Sack(sack) => {
                seen.sack = true;
                self.on_sack_chunk(cx, now, &sack);
            }
            // These must be alone in a packet: discard this chunk and the rest (section 6.10). If one
            // precedes all DATA, the endpoint has dropped the packet.
            Chunk::Init(_) | Chunk::InitAck(_) | Chunk::ShutdownComplete(_) if seen.chunks > 1 => {
                return false;
            }
            Chunk::InitAck(init) => {
                self.on_init_ack(cx, now, &init, source);
                return false;
            }
            Chunk::HeartbeatAck(heartbeat) => self.on_heartbeat_ack(cx, now, &heartbeat),
            // The T bit means a reflected tag, so our own tag is wrong (section 8.5.1 B, C). The endpoint has dropped
            // packets that have it before DATA.
            Chunk::Abort(chunk::Abort { tag_reflected: true, .. })
            | Chunk::ShutdownComplete(chunk::ShutdownComplete { tag_reflected: true }) => return false,
            Chunk::Abort(abort) => {
                self.on_abort(cx, now, &abort);
                return false;
            }
            Chunk::Error(error) => self.on_error_chunk(cx, now, &error),
            Chunk::CookieAck => self.on_cookie_ack(cx, now, true),
            Chunk::Shutdown(shutdown) => self.on_shutdown(cx, now, &shutdown, self.path_of_answer(from)),
            Chunk::ShutdownAck => self.on_shutdown_ack(cx, now, self.path_of_answer(from)),
            Chunk::ShutdownComplete(complete) => self.on_shutdown_complete(cx, now, &complete),
            // If negotiated, these were processed in `handle_chunks_with_auth`.
            Chunk::Auth(_) | Chunk::Asconf(_) | Chunk::AsconfAck(_) | Chunk::Unknown(_) => {
                return Self::on_unknown_chunk(raw, seen);
            }
            Chunk::Ecne(ecne) => self.on_ecne(now, &ecne),
            Chunk::Cwr(cwr) => self.on_cwr(cwr.lowest_tsn),
            // The endpoint handles a COOKIE ECHO before it passes the packet on, and drops an INIT. Padding has no
            // effect.
            Chunk::Heartbeat(_) | Chunk::CookieEcho(_) | Chunk::Init(_) | Chunk::Pad(_) => {}
            extension => return on_extension_chunk(self, cx, now, raw, &extension, (from, seen)),
        }
        true
    }

    #[inline]
    fn on_data_chunk(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        data: &Data<'_>,
        from: PathIndex,
        seen: &mut Seen,
    ) -> bool {
        if !self.state.receives_data() && !on_data_in_wrong_state(self, cx, now, data.tsn) {
            return true; // Section 6.
        }
        note_data(self, seen, data.tsn, data.immediate, from);
        self.on_data(cx, now, data, seen)
    }

    /// Handles an unknown chunk according to the two high bits of its type (section 3.2).
    fn on_unknown_chunk(raw: &RawChunk<'_>, seen: &mut Seen) -> bool {
        let action = raw.unrecognised_action();
        let reports = matches!(action, UnrecognisedAction::StopAndReport | UnrecognisedAction::SkipAndReport);
        if reports {
            let bytes = raw.as_bytes();
            let quoted = bytes.get(..REPORT_LEN_MAX / 2).unwrap_or(bytes);
            Self::report(&mut seen.report, &Cause::UnrecognisedChunk(quoted));
        }
        matches!(action, UnrecognisedAction::Skip | UnrecognisedAction::SkipAndReport)
    }

    /// Adds a cause to the ERROR that answers this packet, if there is room.
    pub(super) fn report(report: &mut Vec<u8>, cause: &Cause<'_>) {
        append_tlv(report, &encode_cause(cause), REPORT_LEN_MAX);
    }

    /// Processes an ERROR (section 3.3.10): only a Stale Cookie has an effect; the others are reported to the
    /// application.
    fn on_error_chunk(&mut self, cx: &mut EndpointContext, now: Time, error: &chunk::Error<'_>) {
        if let Some(log) = log_of(self) {
            log.report("ERROR", error.causes);
        }
        for raw in error.causes.iter() {
            let Ok(raw) = raw else { return };
            if raw.code == code::STALE_COOKIE {
                self.on_stale_cookie(cx, now);
            } else if !self.state.in_setup() || raw.code != code::UNRECOGNISED_PARAMETERS {
                asconf::on_unknown_chunk(self, cx, &raw);
                cx.peer_error(self.id, &raw);
            }
        }
    }

    /// Handles the effects of a whole packet: acknowledgement, report, shutdown progress, messages for the
    /// application.
    fn finish_packet(&mut self, cx: &mut EndpointContext, now: Time, from: Option<PathIndex>, seen: &Seen) {
        let source = from.unwrap_or(self.sack_path);
        // Until the COOKIE ACK only COOKIE ECHO may be sent (section 5.1 C).
        if !seen.report.is_empty() && !self.state.in_setup() {
            let causes = strandline_wire::cause::Causes::new(&seen.report);
            self.send_control(cx, self.path_of_answer(source), &chunk::Error { causes });
        }
        if seen.sack {
            for index in self.paths.indices() {
                self.paths.get_mut(index).on_answered(now, !seen.data);
            }
        }
        if seen.data {
            let changed =
                seen.first.is_some_and(|first| self.on_data_packet_mark(source, first, seen.ecn_ce));
            let buffer_max = || cx.receive_buffer_max(&self.config);
            let shutting_down = matches!(self.state, State::ShutdownSent { .. });
            let at_once = seen.immediate || shutting_down || changed;
            if self.inbound.on_packet_end(now, at_once, &self.config, buffer_max) {
                self.measure_rtt(cx, now);
            }
            if shutting_down {
                // Always with a SACK: SHUTDOWN does not report the window, and a peer that lost the last window
                // update would wait for as long as it has data.
                self.send_shutdown(cx, now);
                if seen.progress.is_some_and(|before| before != progress(&self.inbound)) {
                    restart_guard(self, now);
                }
            }
            if seen.duplicate {
                self.switch_sack_path(seen.sack_path);
                self.revoke_sack_size();
            }
            self.announce_readable(cx);
            self.touch_idle(now);
        }
        // Nearly all packets.
        if matches!(self.state, State::Established) && self.reconfig.is_none() && !self.flags.cookie_ack_again
        {
            return;
        }
        // The repeated COOKIE ACK waits for the delayed SACK, and for nothing else.
        if self.flags.cookie_ack_again && (!self.inbound.sack_pending() || !self.state.receives_data()) {
            self.flags.cookie_ack_again = false;
            self.flags.cookie_ack_due = true;
        }
        if matches!(self.state, State::ShutdownSent { .. }) && from.is_some() {
            // Any packet of the peer gives it time to send what is queued (section 9.2). Data restarts T2-shutdown with
            // the SHUTDOWN that answers it. HEARTBEATs do not: if they come more often than T2-shutdown would expire, a
            // lost SHUTDOWN would never be repeated.
            self.errors.shutdown = 0;
        }
        if self.reconfig.is_some() {
            reconfig::progress(self, cx, now, self.path_of_answer(source));
        }
        if matches!(self.state, State::ShutdownPending | State::ShutdownReceived) {
            self.progress_shutdown(cx, now);
        }
    }

    /// Changes the path of SACKs after a duplicate, because the acknowledgement may have been lost on its path
    /// (section 6.4). If the sender has changed paths already, the change leads back to that path.
    fn switch_sack_path(&mut self, before: Option<PathIndex>) {
        let other = self.paths.alternate(self.sack_path).filter(|_| before == Some(self.sack_path));
        self.sack_path = other.unwrap_or(self.sack_path);
    }

    /// Sends `Readable` once until the application has read everything.
    pub(super) fn announce_readable(&mut self, cx: &mut EndpointContext) {
        if !self.flags.readable_given && self.inbound.readable() {
            self.flags.readable_given = true;
            cx.event(self.id, Event::Readable);
        }
    }

    /// Handles a protocol violation of the peer: ABORT with Protocol Violation (section 3.3.10.13).
    pub(super) fn abort_for_violation(&mut self, cx: &mut EndpointContext, now: Time, what: &'static str) {
        if matches!(self.state, State::CookieWait(_)) {
            return; // Nothing is negotiated yet: anybody may have sent this.
        }
        if !auth::may_be_ended(self) {
            return;
        }
        let causes = encode_cause(&Cause::ProtocolViolation(what.as_bytes()));
        self.send_abort(cx, &causes);
        self.end(cx, now, CloseReason::ProtocolViolation(what));
    }
}

/// Records a chunk of user data of the packet. SACKs go to the path that it came from.
#[inline]
fn note_data(association: &mut Association, seen: &mut Seen, tsn: Tsn, immediate: bool, from: PathIndex) {
    seen.data = true;
    seen.first.get_or_insert(tsn);
    seen.immediate |= immediate;
    if association.sack_path != from {
        redirect_sacks(association, from);
    }
}

/// Processes the chunks of a packet of an association without authentication. Returns false if that ended the
/// association.
#[inline]
fn handle_chunks(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    packet: &Packet<'_>,
    (source, from): (SocketAddr, Option<PathIndex>),
    seen: &mut Seen,
) -> bool {
    // Ends at a chunk whose length exceeds the packet; the chunks before it are processed (sections 6.10, 8.4).
    for raw in packet.chunks().map_while(Result::ok) {
        let came_from = from.unwrap_or(association.control_path);
        let continues = match raw.parse_data() {
            Some(Ok(data)) => {
                seen.chunks += 1;
                association.on_data_chunk(cx, now, &data, came_from, seen)
            }
            _ => association.handle_chunk(cx, now, &raw, source, came_from, seen),
        };
        if !continues {
            break;
        }
        if association.state.is_closed() {
            return false;
        }
    }
    true
}

/// Processes the chunks of a packet of an association with authentication (RFC 4895 section 6.3). Returns false if that
/// ended the association.
#[cold]
#[inline(never)]
fn handle_chunks_with_auth(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    packet: &Packet<'_>,
    (source, from): (SocketAddr, Option<PathIndex>),
    seen: &mut Seen,
) -> bool {
    auth::begin_packet(association);
    let dynamic = association.features.has(Extensions::DYNAMIC_ADDRESSES);
    let (mut from, mut asconfs) = (from, 0);
    for raw in packet.chunks().map_while(Result::ok) {
        match auth::admit(association, cx, packet, &raw) {
            Admission::Process => {}
            Admission::Skip => {
                seen.chunks += 1;
                continue;
            }
            Admission::Discard => break,
            Admission::Unsupported(hmac) => {
                Association::report(&mut seen.report, &Cause::UnsupportedHmac { hmac });
                break;
            }
        }
        let came_from = from.unwrap_or(association.control_path);
        let continues = match raw.kind {
            kind::ASCONF | kind::ASCONF_ACK if dynamic => {
                seen.chunks += 1;
                let continues = on_asconf_chunk(association, cx, now, &raw, source, &mut asconfs);
                // It may have added the address that it comes from.
                from = association.paths.by_address(source.ip());
                continues
            }
            // From any other address only ASCONF is accepted (RFC 5061 section 5.3.2).
            _ if from.is_none() => true,
            _ => association.handle_chunk(cx, now, &raw, source, came_from, seen),
        };
        if !continues {
            break;
        }
        if association.state.is_closed() {
            return false;
        }
    }
    if asconfs > 0 {
        asconf::flush(association, cx, source);
    }
    true
}

/// Handles a chunk with a wrong length. Returns false to discard the rest of the packet.
#[cold]
fn on_malformed(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    raw: &RawChunk<'_>,
    seen: &mut Seen,
) -> bool {
    if association.features.is_unknown(raw.kind) {
        return Association::on_unknown_chunk(raw, seen);
    }
    association.abort_for_violation(cx, now, "a chunk with a wrong length");
    false
}

/// Processes an ASCONF or ASCONF-ACK chunk. `asconfs` is the number of ASCONF chunks in the packet so far.
fn on_asconf_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    raw: &RawChunk<'_>,
    source: SocketAddr,
    asconfs: &mut u8,
) -> bool {
    let before = *asconfs;
    if raw.kind == kind::ASCONF {
        if before == asconf::ASCONFS_MAX {
            return true;
        }
        *asconfs += 1;
    }
    asconf::on_chunk(association, cx, now, raw, source, before)
}

/// Processes a chunk of an extension.
#[cold]
fn on_extension_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    raw: &RawChunk<'_>,
    chunk: &Chunk<'_>,
    context: (PathIndex, &mut Seen),
) -> bool {
    if association.features.is_unknown(raw.kind) {
        return Association::on_unknown_chunk(raw, context.1);
    }
    match chunk {
        Chunk::ReConfig(chunk) => on_re_config_chunk(association, cx, now, chunk, context),
        Chunk::ForwardTsn(chunk) => on_forward_tsn_chunk(association, cx, now, chunk, context),
        Chunk::IData(data) => on_i_data_chunk(association, cx, now, data, context),
        Chunk::IForwardTsn(chunk) => on_i_forward_tsn_chunk(association, cx, now, chunk, context),
        Chunk::NrSack(sack) => {
            context.1.sack = true;
            on_nr_sack_chunk(association, cx, now, sack);
            true
        }
        Chunk::StreamCredit(chunk) => {
            stream_credit::on_credit(association, cx, chunk);
            true
        }
        Chunk::StreamBlocked(chunk) => {
            stream_credit::on_blocked(association, chunk);
            true
        }
        // `handle_chunk` processes these. There is no wildcard, so that the compiler asks where a new type belongs.
        Chunk::Data(_)
        | Chunk::Init(_)
        | Chunk::InitAck(_)
        | Chunk::Sack(_)
        | Chunk::Heartbeat(_)
        | Chunk::HeartbeatAck(_)
        | Chunk::Abort(_)
        | Chunk::Shutdown(_)
        | Chunk::ShutdownAck
        | Chunk::Error(_)
        | Chunk::CookieEcho(_)
        | Chunk::CookieAck
        | Chunk::Ecne(_)
        | Chunk::Cwr(_)
        | Chunk::ShutdownComplete(_)
        | Chunk::Auth(_)
        | Chunk::Asconf(_)
        | Chunk::AsconfAck(_)
        | Chunk::Pad(_)
        | Chunk::Unknown(_) => true,
    }
}

/// Processes a RE-CONFIG chunk (RFC 6525).
fn on_re_config_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    chunk: &chunk::ReConfig<'_>,
    (from, seen): (PathIndex, &mut Seen),
) -> bool {
    if seen.re_configs < RE_CONFIGS_MAX {
        seen.re_configs += 1;
        let path = association.path_of_answer(from);
        reconfig::on_re_config(association, cx, now, chunk, path, &mut seen.report);
    }
    true
}

/// Records a FORWARD TSN or I-FORWARD-TSN of the packet. Returns false if it is ignored.
fn admit_forward_tsn(association: &mut Association, from: PathIndex, seen: &mut Seen) -> bool {
    if !association.state.receives_data() || seen.forward_tsns == FORWARD_TSNS_MAX {
        return false;
    }
    seen.forward_tsns += 1;
    seen.data = true;
    association.sack_path = from;
    true
}

/// Processes a FORWARD TSN chunk (RFC 3758 section 3.6).
fn on_forward_tsn_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    chunk: &chunk::ForwardTsn<'_>,
    (from, seen): (PathIndex, &mut Seen),
) -> bool {
    if association.features.has(Extensions::INTERLEAVING) {
        association.abort_for_violation(cx, now, "FORWARD TSN although I-DATA was negotiated");
        return false;
    }
    if !admit_forward_tsn(association, from, seen) {
        return true;
    }
    forward::on_chunk(association, cx, now, chunk)
}

/// Processes an I-FORWARD-TSN chunk (RFC 8260 section 2.3.1).
fn on_i_forward_tsn_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    chunk: &chunk::IForwardTsn<'_>,
    (from, seen): (PathIndex, &mut Seen),
) -> bool {
    if !association.features.has(Extensions::I_FORWARD_TSN) {
        association.abort_for_violation(cx, now, "I-FORWARD-TSN although it was not negotiated");
        return false;
    }
    if !admit_forward_tsn(association, from, seen) {
        return true;
    }
    forward::on_i_chunk(association, cx, chunk);
    true
}

/// Processes an I-DATA chunk (RFC 8260 section 2.2.3).
fn on_i_data_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    data: &IData<'_>,
    (from, seen): (PathIndex, &mut Seen),
) -> bool {
    if !association.state.receives_data() && !on_data_in_wrong_state(association, cx, now, data.tsn) {
        return true;
    }
    note_data(association, seen, data.tsn, data.immediate, from);
    association.on_i_data(cx, now, data, seen)
}

/// True if the packet's first chunk is of this type.
#[inline]
pub(crate) fn starts_with(packet: &Packet<'_>, wanted: u8) -> bool {
    packet.first_kind() == Some(wanted)
        && matches!(packet.chunks().next(), Some(Ok(raw)) if raw.kind == wanted)
}

/// True if the packet has a chunk of this type anywhere.
pub(crate) fn contains(packet: &Packet<'_>, wanted: u8) -> bool {
    packet.chunks().flatten().any(|raw| raw.kind == wanted)
}
