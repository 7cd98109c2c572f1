//! Output: bundling (RFC 9260 section 6.10), top to bottom: path, burst, packet, chunks. Order in a packet: COOKIE ECHO
//! (`cookie_echo`) or COOKIE ACK, SACK, retransmitted DATA, new DATA. A burst has as many packets of one size to one
//! destination as window, burst limit and buffer allow, so that the carrier can hand it to the kernel in one call.

mod cookie_echo;

use std::sync::Arc;

use strandline_wire::chunk::CookieAck;
use strandline_wire::{COMMON_HEADER_LEN, DATA_CHUNK_HEADER_LEN, PacketBuilder};

use super::abandon::write_forward;
use super::buffers::share_receive_queue;
use super::build::{Content, build_packet, pad_oversize};
use super::context::EndpointContext;
use super::expiry::abandon_due;
use super::features::Extensions;
use super::gather::{allow_gathered, gathers};
use super::multipath::{choose_path, end_burst, uses_several};
use super::stream_credit::report_writable;
use super::{Association, State, auth};
use crate::config::FastRetransmit;
use crate::event::Transmit;
use crate::inbound::stream_credit::write_sack;
use crate::outbound::partial::forward_due;
use crate::outbound::stream_credit::has_writable;
use crate::outbound::write::{Written, write_again, write_new};
use crate::outbound::{Bundled, Retransmission, Urgency, scheduling};
use crate::packet_sizes::{ETHERNET_MTU, IPV4_HEADER_LEN, UDP_HEADER_LEN};
use crate::path::{PathState, is_dormant, substitute};
use crate::path_index::PathIndex;
use crate::time::Time;

/// The DATA in a packet.
#[derive(Debug, Default, Clone, Copy)]
struct Filled {
    /// Bytes of the chunks, including headers and padding.
    bytes: u32,
    /// True if some of it is new.
    new: bool,
    /// True if it contains the earliest outstanding chunk of the path.
    earliest: bool,
    /// True if it asks for an immediate acknowledgement (I bit).
    immediate: bool,
}

/// A burst continues with packets as short as its first one only if that one is at least this full.
const FULL_ENOUGH: (usize, usize) = (3, 4);

/// Bytes of chunks in an Ethernet packet over IPv4 and UDP.
const FULL_PACKET_CHUNKS: u32 =
    (ETHERNET_MTU - IPV4_HEADER_LEN - UDP_HEADER_LEN) as u32 - COMMON_HEADER_LEN as u32;

/// With this many bytes in flight an acknowledgement arrives in any case: the maximum that an adaptive receiver like
/// ours acknowledges at a time.
const ACKNOWLEDGED_ANYWAY: u32 = 16 * FULL_PACKET_CHUNKS;

impl Association {
    /// True if `poll_transmit` may return something. Cheap to call.
    pub(crate) fn wants_transmit(&self, now: Time) -> bool {
        match self.state {
            State::Closed | State::CookieWait(_) => false,
            State::CookieEchoed(_) => self.flags.cookie_echo_due || has_data_to_echo(self),
            _ if self.flags.held => false,
            _ => {
                self.flags.cookie_ack_due
                    || (self.state.receives_data() && self.inbound.sack_due(now))
                    || (self.state.sends_data() && self.has_data_work())
            }
        }
    }

    /// Builds the next burst into `buffer`.
    pub(crate) fn poll_transmit(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        if !self.wants_transmit(now) {
            return None;
        }
        abandon_due(self, cx, now);
        if let State::CookieEchoed(_) = self.state {
            return self.transmit_cookie_echo(now, buffer, segments_max);
        }
        share_receive_queue(self, cx, now);
        let data_waits = self.flags.burst_open && gathers(self, self.control_path);
        if !data_waits {
            // First, because the path of data depends on what each path may send.
            self.open_burst(now);
        }
        let data_path = self.choose_data_path();
        let sack_path = self.path_of_sacks();
        let sack_due = self.state.receives_data() && self.inbound.sack_due(now);
        let path = match () {
            () if self.flags.cookie_ack_due => self.control_path,
            () if sack_due => sack_path,
            () => data_path,
        };
        let content = Content { data: path == data_path && !data_waits, sack: path == sack_path };
        let burst = self.build_burst(now, path, content, buffer, segments_max);
        match burst {
            Some(_) if self.paths.get(path).flight > 0 => self.probe_mtu(cx, now, path),
            Some(_) => {}
            None if data_waits => {}
            None => end_burst(self, data_path),
        }
        if self.extras.as_ref().is_some_and(|extras| extras.proof.is_some()) {
            self.prove_sack_size(cx, now);
        }
        self.watch_window(now, data_path);
        if has_writable(&self.outbound) {
            report_writable(self, cx);
        }
        burst
    }

    /// Returns the path of SACKs: back to the source of the data (section 6.4), unless that path is not known
    /// to work and another one is. Hosts with several addresses often send from an address that does not
    /// belong to the path in use.
    pub(super) fn path_of_sacks(&mut self) -> PathIndex {
        let answers = match self.paths.get(self.sack_path).state {
            PathState::Active => true,
            state => state.is_inactive() && is_dormant(&self.paths),
        };
        if answers { self.sack_path } else { self.choose_data_path() }
    }

    /// Returns the path of DATA. Retransmissions after a time-out use the alternate path that the time-out chose
    /// (section 6.4.1). So do chunks lost a second time, lost on a path that is no longer active, or with
    /// [`FastRetransmit::OtherPath`], if the other path's window allows. Everything else uses the primary path or its
    /// replacement.
    fn choose_data_path(&mut self) -> PathIndex {
        match self.outbound.retransmission() {
            Some(again) => self.path_of_retransmission(&again),
            None if uses_several(self) => choose_path(self),
            None => self.paths.data_path().unwrap_or(self.control_path),
        }
    }

    /// Returns the path of a retransmission.
    fn path_of_retransmission(&self, again: &Retransmission) -> PathIndex {
        let last = again.last_path;
        if !again.fast {
            return self.paths.alternate(last).unwrap_or(last);
        }
        // A tail-loss probe tests its own path.
        let wanted_here = again.probe || self.config.fast_retransmit == FastRetransmit::SamePath;
        let stays = !again.repeated && wanted_here && self.paths.get(last).state == PathState::Active;
        let other = if stays { None } else { self.paths.active_other_than(last) };
        let may_take = |other: &PathIndex| self.paths.get(*other).may_retransmit();
        // A probe does not wait for the window of another path.
        let replaces = |other: &PathIndex| !again.probe || may_take(other);
        other.filter(may_take).or_else(|| substitute(&self.paths, last).filter(replaces)).unwrap_or(last)
    }

    /// True if a chunk to be retransmitted uses another path than this one: each packet contains chunks of one path.
    /// A COOKIE ECHO carries any chunks.
    fn uses_other_path(&self, again: &Retransmission, index: PathIndex) -> bool {
        self.paths.has_several() && !self.state.in_setup() && self.path_of_retransmission(again) != index
    }

    /// True if data waits to be sent or retransmitted.
    pub(super) fn has_data_work(&self) -> bool {
        self.outbound.has_retransmissions() || self.outbound.has_pending() || forward_due(&self.outbound)
    }

    /// Begins an opportunity to send: allows a burst beyond what was just acknowledged (section 6.1 rule D).
    fn open_burst(&mut self, now: Time) {
        if core::mem::take(&mut self.flags.burst_open) {
            let config = Arc::clone(&self.config);
            for index in self.paths.indices() {
                self.paths.get_mut(index).allow_burst(now, &config);
            }
            allow_gathered(self, self.control_path);
        }
    }

    /// Probes the path MTU while data flows.
    pub(super) fn probe_mtu(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        if self.config.probes_mtu()
            && let Some(size) = self.paths.get_mut(index).mtu_probe_due(now)
        {
            self.send_mtu_probe(cx, now, index, size);
        }
    }

    /// Builds as many packets of one size as window, burst limit and buffer allow.
    fn build_burst(
        &mut self,
        now: Time,
        index: PathIndex,
        content: Content,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        let (sent_before, resent_before) = (self.stats.data_sent, self.stats.retransmissions);
        let full = self.paths.get(index).payload_max().min(buffer.len());
        let mut len = 0;
        let mut segment = full;
        let mut segments = 0;
        let mut oversize = false;
        while segments < segments_max && len + segment <= buffer.len() {
            let room = buffer.get_mut(len..len + segment)?;
            let built = build_packet(self, now, index, content, room, full);
            if built == 0 {
                if segments == 0 && content.data {
                    let (size, large) = self.build_oversize(now, index, buffer);
                    (len, segment, oversize) = (size, size, large);
                }
                break;
            }
            len += built;
            segments += 1;
            if segments == 1 {
                segment = built;
                if built * FULL_ENOUGH.1 < full * FULL_ENOUGH.0 {
                    break;
                }
            } else if built < segment {
                break;
            }
        }
        if len == 0 {
            return None;
        }
        self.stats.packets_sent += segments as u64;
        // Retransmissions must not be ECN-capable (RFC 3168 section 6.1.5), and packets without data have no window.
        let resent = u64::from(self.stats.retransmissions.wrapping_sub(resent_before));
        let new = self.stats.data_sent - sent_before > resent;
        let ecn_capable = new && self.mark_new_data(now, index, resent > 0);
        if content.data && self.paths.get(index).was_paced() && !self.has_data_work() {
            self.paths.get_mut(index).forget_pace();
        }
        let path = self.paths.get(index);
        Some(Transmit {
            destination: path.remote,
            source: path.local,
            len,
            segment_size: segment.min(len),
            fragment: oversize.then_some(path.pmtu.mtu()),
            ecn_capable,
        })
    }

    /// Builds a packet with a chunk that was made for a larger path MTU: it is sent alone, and IP fragments it. If IP
    /// fragments only what exceeds the interface's MTU, a PAD chunk makes it longer than that.
    fn build_oversize(&mut self, now: Time, index: PathIndex, buffer: &mut [u8]) -> (usize, bool) {
        let full = self.paths.get(index).payload_max();
        let Some(again) = self.outbound.retransmission() else { return (0, false) };
        let size = again.size + COMMON_HEADER_LEN + auth::reserve(self);
        let path = self.paths.get(index);
        if size <= full || !(path.is_exempt() || path.may_retransmit()) {
            return (0, false);
        }
        let padded = size.max(path.pmtu.cut_from());
        let len = if padded <= buffer.len() { padded } else { size };
        let Some(room) = buffer.get_mut(..len) else { return (0, false) };
        let built = build_packet(self, now, index, Content { data: true, sack: false }, room, full);
        (built, built > 0)
    }

    /// Writes one packet, without authentication, into `room`. `full` is the packet size that messages are fragmented
    /// for. Returns the length, or 0 if there is nothing to send.
    pub(super) fn write_packet(
        &mut self,
        now: Time,
        index: PathIndex,
        content: Content,
        room: &mut [u8],
        full: usize,
    ) -> usize {
        let ports = self.ports();
        let oversize = room.len() > full;
        let mut packet = ports.packet(room);
        if (self.flags.cookie_ack_due || self.flags.cookie_ack_again) && packet.push(&CookieAck) {
            self.flags.cookie_ack_due = false;
            self.flags.cookie_ack_again = false;
        }
        let data_ready = content.data && self.state.sends_data() && self.has_data_work();
        let mut answers = false;
        if content.sack && self.state.receives_data() {
            let due = self.inbound.sack_due(now);
            // A SACK is bundled with DATA even before it is due (section 6.1), but only if there is DATA to send.
            let bundled = !due && data_ready && self.inbound.sack_pending() && self.data_may_go(index);
            if due || bundled {
                self.write_ecne(&mut packet);
                let len_max = self.sack_len_max(now, index);
                let keeps = self.features.has(Extensions::NR_SACK);
                answers = write_sack(&mut self.inbound, now, &mut packet, len_max, keeps);
                self.on_sack_written(index, packet.len());
                self.stats.sacks_sent += u32::from(answers);
            }
        }
        if data_ready {
            write_forward(self, now, index, &mut packet);
        }
        if data_ready && self.ecn.is_some() && self.data_may_go(index) {
            self.write_cwr(&mut packet);
        }
        if oversize {
            pad_oversize(self, &mut packet);
        }
        let filled =
            if data_ready { self.fill(now, index, &mut packet, full, answers) } else { Filled::default() };
        if packet.is_empty() {
            return 0;
        }
        let len = ports.finish(packet);
        self.account(now, index, len, filled);
        len
    }

    /// True if window and burst limit allow another packet with DATA.
    fn data_may_go(&self, index: PathIndex) -> bool {
        let path = self.paths.get(index);
        if self.outbound.has_retransmissions() {
            path.is_exempt() || self.outbound.fast_retransmit_pending() || path.may_retransmit()
        } else {
            path.probes_with_new() || path.frto_packets.is_some() || path.may_send()
        }
    }

    /// Fills a packet with DATA. Marked chunks come first (section 6.1 rule C), within cwnd, except that the first
    /// packet of a fast retransmission is sent regardless of cwnd (section 7.2.4 rule 3). New DATA follows, within
    /// cwnd, burst limit and the peer's window. The packet that begins below cwnd may exceed it (rule B).
    fn fill(
        &mut self,
        now: Time,
        index: PathIndex,
        packet: &mut PacketBuilder<'_>,
        full: usize,
        answers: bool,
    ) -> Filled {
        let mut filled = Filled::default();
        if self.outbound.has_retransmissions() {
            let exempt = self.outbound.fast_retransmit_pending();
            let path = self.paths.get(index);
            if exempt || path.is_exempt() || path.may_retransmit() {
                self.fill_retransmissions(now, index, packet, &mut filled);
            }
            if exempt && filled.bytes > 0 {
                self.outbound.fast_retransmit_sent();
            }
        }
        let path = self.paths.get(index);
        if (path.probes_with_new() && filled.bytes == 0) || path.frto_packets.is_some() || path.may_send() {
            let immediate = answers && filled.bytes == 0 && self.paths.get(index).is_quiet(now);
            self.fill_new(now, index, packet, full, immediate, &mut filled);
        }
        filled
    }

    /// Fills a packet with marked chunks, while they use this path.
    fn fill_retransmissions(
        &mut self,
        now: Time,
        index: PathIndex,
        packet: &mut PacketBuilder<'_>,
        filled: &mut Filled,
    ) {
        let immediate = self.paths.get(index).wants_immediate_ack();
        loop {
            // A probe that uses another path than the one it was to test.
            let again = self.outbound.retransmission();
            if again.is_some_and(|again| self.uses_other_path(&again, index)) {
                break;
            }
            let moves = again.filter(|again| again.probe && again.last_path != index);
            let now_immediate = immediate || moves.is_some();
            let written = write_again(&mut self.outbound, now, index, now_immediate, packet);
            let Some(Written { tsn, bytes, immediate }) = written else { break };
            filled.immediate |= immediate;
            filled.bytes += bytes;
            filled.earliest |= self.outbound.is_earliest_outstanding(tsn, index);
            self.stats.data_sent += 1;
            self.stats.retransmissions += 1;
            // Later data arrived on that path, so it works. After a probe this is unknown, and T3-rtx decides.
            if let Some(again) = again.filter(|again| again.fast && !again.probe && again.last_path != index)
            {
                let overdue = self.outbound.has_overdue(again.last_path);
                self.paths.get_mut(again.last_path).on_moved_away(overdue);
            }
            if let Some(moves) = moves {
                self.stats.tail_probes += 1;
                self.paths.get_mut(moves.last_path).on_probe_moved();
            }
        }
    }

    /// Fills a packet with new DATA. `full` is the packet size that messages are fragmented for; with
    /// `immediate`, the packet asks for an immediate acknowledgement unless more follows.
    fn fill_new(
        &mut self,
        now: Time,
        index: PathIndex,
        packet: &mut PacketBuilder<'_>,
        full: usize,
        immediate: bool,
        filled: &mut Filled,
    ) {
        // Fragments fit every path, in case this one fails (section 7.3).
        let empty_space = full.min(self.paths.payload_max() - auth::reserve(self)) - COMMON_HEADER_LEN;
        let alone = !self.config.bundling;
        let waits = (!self.config.nodelay && self.holds_back(empty_space)) || (alone && filled.bytes > 0);
        if waits || !scheduling::begin_packet(&mut self.outbound, filled.bytes > 0) {
            return;
        }
        let mut urgency = self.urgency(index, filled.bytes);
        urgency.always |= immediate && !self.outbound.has_full_packet(empty_space);
        // Stop at a full packet without looking for the next message.
        while packet.remaining() > DATA_CHUNK_HEADER_LEN {
            let bundled = match alone {
                false => self.outbound.bundle(now, index, empty_space, urgency, packet),
                true => Bundled::default(),
            };
            filled.new |= bundled.chunks > 0;
            filled.immediate |= bundled.immediate;
            filled.bytes += bundled.bytes;
            self.stats.data_sent += u64::from(bundled.chunks);
            urgency.from_bytes = urgency.from_bytes.saturating_sub(bundled.bytes);
            let written = write_new(&mut self.outbound, now, index, empty_space, urgency, packet);
            let Some(Written { bytes: size, immediate, .. }) = written else { break };
            filled.immediate |= immediate;
            filled.bytes += size;
            filled.new = true;
            self.stats.data_sent += 1;
            urgency.from_bytes = urgency.from_bytes.saturating_sub(size);
            if alone {
                break;
            }
        }
    }

    /// Returns when the I bit is needed (RFC 7053 section 4): when sending stops until an acknowledgement and nothing
    /// else in flight will bring one, when packets test what became of others, and before SHUTDOWN. `fill_new` adds a
    /// lone answer after a pause. `filled` is the number of bytes of chunks already in the packet.
    fn urgency(&self, index: PathIndex, filled: u32) -> Urgency {
        let path = self.paths.get(index);
        let always = matches!(self.state, State::ShutdownPending) || path.wants_immediate_ack();
        let under_way = path.flight.saturating_add(filled);
        let mut from_bytes = u32::MAX;
        if under_way < ACKNOWLEDGED_ANYWAY {
            let by_cwnd = path.window().saturating_sub(under_way);
            let by_rwnd = self.outbound.peer_rwnd().saturating_sub(FULL_PACKET_CHUNKS);
            let stops = by_cwnd.min(by_rwnd).min(self.outbound.bytes_until_blocked());
            if under_way.saturating_add(stops) < ACKNOWLEDGED_ANYWAY {
                from_bytes = stops;
            }
        }
        Urgency { always, from_bytes }
    }

    /// Accounts for a packet's DATA on its path.
    fn account(&mut self, now: Time, index: PathIndex, len: usize, filled: Filled) {
        if filled.bytes == 0 {
            return;
        }
        let path = self.paths.get_mut(index);
        self.stats.tail_probes += u32::from(path.sends_probe());
        path.on_data_sent(now, len, filled.bytes, filled.new, filled.immediate);
        if filled.earliest {
            path.restart_rtx(now);
        }
    }

    /// Nagle's algorithm (section 6.1): less than a packet waits while anything is unacknowledged.
    fn holds_back(&self, empty_space: usize) -> bool {
        matches!(self.state, State::Established)
            && self.outbound.unacknowledged_bytes() > 0
            && !self.outbound.has_full_packet(empty_space)
    }
}

/// True if something may go with a further COOKIE ECHO that did not exist when the latest one was sent, or had no room
/// in the window.
fn has_data_to_echo(association: &Association) -> bool {
    let State::CookieEchoed(setup) = &association.state else { return false };
    let full = association.paths.get(association.control_path).payload_max();
    association.flags.burst_open
        && setup.attempts == 0
        && (1..association.cookie_echo_packets_max()).contains(&setup.echoes)
        && leaves_room(&setup.cookie, full)
        && association.outbound.has_pending()
}

/// Returns whether a packet of `full` bytes has enough room for data behind a cookie that it is worth sending again.
fn leaves_room(cookie: &[u8], full: usize) -> bool {
    cookie.len() <= full / 2
}
