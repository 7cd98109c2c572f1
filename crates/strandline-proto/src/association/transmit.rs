//! The way out: bundling (RFC 9260 section 6.10). Order in a packet: COOKIE ECHO or COOKIE ACK, SACK, DATA sent again,
//! new DATA. A burst is as many packets of one size to one destination as window, burst limit and buffer allow, so
//! that the carrier can hand it to the kernel in one piece.

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::{CookieAck, CookieEcho, Error};
use strandline_wire::cause::Causes;

use super::context::Shared;
use super::{Association, State};
use crate::event::Transmit;
use crate::path::PathIndex;
use crate::time::Time;

/// A burst goes on with packets as short as its first one only if that one was at least three quarters full.
const FULL_ENOUGH: (usize, usize) = (3, 4);

impl Association {
    /// True if `poll_transmit` may have something; it costs next to nothing to ask.
    pub(crate) fn wants_transmit(&self, now: Time) -> bool {
        match self.state {
            State::Closed | State::CookieWait(_) => false,
            State::CookieEchoed(_) => self.flags.cookie_echo_due,
            _ => {
                self.flags.cookie_ack_due
                    || (self.state.receives_data() && self.inbound.sack_due(now))
                    || (self.state.sends_data() && self.outbound.has_work())
            }
        }
    }

    /// Builds the next burst into `buffer`.
    pub(crate) fn poll_transmit(
        &mut self,
        cx: &mut Shared,
        now: Time,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        if !self.wants_transmit(now) {
            return None;
        }
        if let State::CookieEchoed(_) = self.state {
            return self.transmit_cookie_echo(now, buffer);
        }
        let data_path = self.choose_data_path();
        let sack_path = if self.is_confirmed(self.sack_path) { self.sack_path } else { data_path };
        let sack_due = self.state.receives_data() && self.inbound.sack_due(now);
        let path = match () {
            () if self.flags.cookie_ack_due => self.control_path,
            () if sack_due => sack_path,
            () => data_path,
        };
        self.open_burst(path);
        let burst = self.build_burst(now, path, path == data_path, path == sack_path, buffer, segments_max);
        if burst.is_some() {
            self.after_burst(cx, now, path);
        }
        burst
    }

    /// Where DATA goes: what is sent again after a time-out takes the alternate that the time-out chose (section
    /// 6.4.1), everything else the primary or its stand-in.
    fn choose_data_path(&self) -> PathIndex {
        let usual = self.paths.data_path().unwrap_or(self.control_path);
        if self.outbound.has_timed_out() && self.is_confirmed(self.control_path) {
            return self.control_path;
        }
        usual
    }

    /// Section 6.1 rule D: what may be sent at this opportunity beyond what was just acknowledged.
    fn open_burst(&mut self, index: PathIndex) {
        if core::mem::take(&mut self.flags.burst_open) {
            let burst_max = self.config.burst_max;
            for each in self.paths.indices() {
                self.paths.get_mut(each).open_burst(burst_max);
            }
        }
        let _ = index;
    }

    fn build_burst(
        &mut self,
        now: Time,
        index: PathIndex,
        with_data: bool,
        with_sack: bool,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        let full = self.paths.get(index).packet_len_max().min(buffer.len());
        let mut len = 0;
        let mut segment = full;
        let mut segments = 0;
        let mut oversize = false;
        while segments < segments_max && len + segment <= buffer.len() {
            let room = buffer.get_mut(len..len + segment)?;
            let built = self.build_packet(now, index, with_data, with_sack, room, full);
            if built == 0 {
                if segments == 0 && with_data {
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
        let path = self.paths.get_mut(index);
        path.last_sent = now;
        Some(Transmit {
            destination: path.remote,
            source: path.local,
            len,
            segment_size: segment.min(len),
            fragment: oversize,
        })
    }

    /// A chunk that was made for a larger path MTU than the path has now: it goes alone, and IP may fragment it.
    fn build_oversize(&mut self, now: Time, index: PathIndex, buffer: &mut [u8]) -> (usize, bool) {
        if !self.outbound.has_retransmissions() || !self.window_open(index) {
            return (0, false);
        }
        let room = buffer.len();
        let built = self.build_packet(now, index, true, false, buffer, room);
        (built, built > 0)
    }

    /// One packet into `room`; `full` is the size of packet that messages are fragmented for. 0: nothing to send.
    fn build_packet(
        &mut self,
        now: Time,
        index: PathIndex,
        with_data: bool,
        with_sack: bool,
        room: &mut [u8],
        full: usize,
    ) -> usize {
        let mut packet = PacketBuilder::new(room, self.local_port, self.peer_port, self.peer_tag);
        if self.flags.cookie_ack_due && packet.push(&CookieAck) {
            self.flags.cookie_ack_due = false;
        }
        let data_ready = with_data && self.state.sends_data() && self.outbound.has_work();
        if with_sack && self.state.receives_data() {
            let due = self.inbound.sack_due(now);
            // Bundled with DATA even before its time (section 6.1), but only if there is DATA to go.
            let bundled = !due && data_ready && self.inbound.sack_pending() && self.window_open(index);
            if (due || bundled) && self.inbound.write_sack(&mut packet) {
                self.stats.sacks_sent += 1;
            }
        }
        if data_ready {
            self.fill_retransmissions(now, index, &mut packet);
            self.fill_new(now, index, &mut packet, full);
        }
        if packet.is_empty() { 0 } else { packet.finish() }
    }

    /// True if the congestion window, cut by the burst limit, lets another packet begin.
    fn window_open(&self, index: PathIndex) -> bool {
        let path = self.paths.get(index);
        path.flight < path.congestion.window()
    }

    /// Section 6.1 rule C: what is marked goes first, within cwnd; the first packet of a fast retransmission goes
    /// whatever cwnd says (section 7.2.4 rule 3).
    fn fill_retransmissions(&mut self, now: Time, index: PathIndex, packet: &mut PacketBuilder<'_>) {
        let exempt = self.outbound.take_fast_retransmit();
        while exempt || self.window_open(index) {
            let Some(data) = self.outbound.next_retransmission(now, index.0, packet.remaining()) else { break };
            let size = data.payload.len() as u32;
            if !packet.push(&data) {
                debug_assert!(false, "next_retransmission keeps to the space it is given");
                break;
            }
            self.stats.data_sent += 1;
            self.stats.retransmissions += 1;
            let earliest = data.tsn == self.outbound.cumulative_ack().next();
            let path = self.paths.get_mut(index);
            path.flight = path.flight.saturating_add(size);
            if earliest {
                path.restart_rtx(now);
            } else {
                path.start_rtx(now);
            }
        }
    }

    /// New DATA, within cwnd, the burst limit and the peer's window.
    fn fill_new(&mut self, now: Time, index: PathIndex, packet: &mut PacketBuilder<'_>, full: usize) {
        let empty_space = full - strandline_wire::COMMON_HEADER_LEN;
        if !self.config.nodelay && self.holds_back(empty_space) {
            return;
        }
        let hurry = matches!(self.state, State::ShutdownPending);
        loop {
            let path = self.paths.get(index);
            if path.flight >= path.congestion.window().min(path.burst_limit) {
                break;
            }
            let limit = path.congestion.window();
            let before = path.flight;
            let Some(mut data) = self.outbound.next_new(now, index.0, packet.remaining(), empty_space) else { break };
            let size = data.payload.len() as u32;
            // The acknowledgement is wanted soon where sending has to stop for it (section 6.1, I bit).
            data.immediate |= hurry || before.saturating_add(size) >= limit;
            if !packet.push(&data) {
                debug_assert!(false, "next_new keeps to the space it is given");
                break;
            }
            self.stats.data_sent += 1;
            let path = self.paths.get_mut(index);
            path.flight = path.flight.saturating_add(size);
            path.start_rtx(now);
        }
    }

    /// Nagle's algorithm (section 6.1): less than a packet waits while anything is unacknowledged.
    fn holds_back(&self, empty_space: usize) -> bool {
        matches!(self.state, State::Established)
            && self.outbound.outstanding_bytes() > 0
            && !self.outbound.has_full_packet(empty_space)
    }

    /// COOKIE ECHO with whatever data fits; nothing else may go until it is answered (section 5.1 C).
    fn transmit_cookie_echo(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        self.flags.cookie_echo_due = false;
        let index = self.control_path;
        let full = self.paths.get(index).packet_len_max().min(buffer.len());
        let State::CookieEchoed(setup) = &self.state else { return None };
        // A cookie larger than the path MTU goes alone, and IP may fragment it.
        let oversize = setup.cookie.len() + 32 > full;
        let room = if oversize { buffer } else { buffer.get_mut(..full)? };
        let mut packet = PacketBuilder::new(room, self.local_port, self.peer_port, self.peer_tag);
        if !packet.push(&CookieEcho { cookie: &setup.cookie }) {
            return None;
        }
        if !setup.report.is_empty() {
            let causes = Self::unrecognised_report(&setup.report);
            let _ = packet.push(&Error { causes: Causes::new(&causes) });
        }
        if !oversize {
            self.fill_retransmissions(now, index, &mut packet);
            self.fill_new(now, index, &mut packet, full);
        }
        let len = packet.finish();
        let path = self.paths.get_mut(index);
        // T1-cookie stands in for T3-rtx until the answer comes.
        path.stop_rtx();
        path.last_sent = now;
        self.control_deadline = now + path.rto.rto();
        self.stats.packets_sent += 1;
        Some(Transmit {
            destination: path.remote,
            source: path.local,
            len,
            segment_size: len,
            fragment: oversize,
        })
    }

    /// What follows a burst: the window probe's timer, path MTU probing while data flows.
    fn after_burst(&mut self, cx: &mut Shared, now: Time, index: PathIndex) {
        if self.outbound.window_probe_wanted() && self.probe_deadline == Time::MAX {
            self.probe_deadline = now + self.paths.get(index).rto.rto();
        }
        if self.paths.get(index).flight > 0
            && let Some(size) = self.paths.get_mut(index).mtu_probe_due(now)
        {
            self.send_mtu_probe(cx, now, index, size);
        }
    }
}
