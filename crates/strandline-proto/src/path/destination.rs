//! A path: a transport address of the peer, with the state of the route to it.

#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use strandline_wire::COMMON_HEADER_LEN;

use super::arrivals::Arrivals;
use super::choices::{Choices, controller};
use super::frto_packets::FrtoPackets;
use super::heartbeat::Heartbeat;
use super::link::Link;
use super::pacer::Pacer;
use super::pmtu::Pmtu;
use super::prr::{Prr, Step};
use super::rto::RtoEstimator;
use super::state::PathState;
use super::tlp_budget::Probes;
use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Ack, Algorithm, Congestion, Controller};
use crate::event::PathChange;
use crate::time::Time;

/// What a tail-loss probe waits beyond two round trips: the resolution of timers.
pub(super) const PROBE_SLACK: Duration = Duration::from_millis(2);

/// How long a peer may delay the acknowledgement of a single packet (the default of SACK.Delay).
pub(super) const SACK_DELAY: Duration = Duration::from_millis(200);

/// Whether the next packet may be sent regardless of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exempt {
    No,
    /// The packet is a tail-loss probe.
    Probe,
    /// The packet follows a time-out, or tests a window that has opened.
    Other,
    /// The packet probes a closed window of the peer.
    WindowProbe,
    /// The probe was sent. Until it is answered nothing else is retransmitted (decision 81).
    WindowProbed,
}

/// One path. Data is counted in bytes of DATA chunks with header and padding (RFC 9260 section 7.2).
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// The destination: IP address and encapsulation port (0 for raw IP).
    pub(crate) remote: SocketAddr,
    /// The source address, if it must be a certain one.
    pub(crate) local: Option<IpAddr>,
    pub(crate) state: PathState,
    pub(crate) congestion: Congestion,
    pub(crate) rto: RtoEstimator,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) pmtu: Pmtu,
    /// Bytes outstanding on the path.
    pub(crate) flight: u32,
    /// When T3-rtx expires; `Time::MAX` if it is stopped.
    pub(crate) rtx_deadline: Time,
    /// Duration of T3-rtx when it was last started, in microseconds.
    pub(super) rtx_wait_us: u32,
    /// When something that the peer acknowledges was last sent; initially the time of creation.
    pub(crate) last_sent: Time,
    /// When data of the path was last acknowledged, or a tail-loss probe was sent.
    pub(super) last_answer_or_probe: Time,
    /// Only packets sent since this time measure the round-trip time: one measurement per round trip (rule C4).
    rtt_from: Time,
    /// Bytes of new data that may still be sent at this opportunity (Max.Burst).
    pub(super) burst_allowance: u32,
    pub(super) arrivals: Arrivals,
    /// Number of consecutive errors (RFC 9260 section 8.2).
    pub(crate) error_count: u16,
    /// Number of expirations of T3-rtx and of events that count as one.
    pub(crate) timeouts: u16,
    /// True if T3-rtx expired and nothing was acknowledged since: only one packet may be in flight (section 7.2.3).
    pub(crate) timed_out: bool,
    pub(super) choices: Choices,
    /// Whether one packet may be sent regardless of the window: a tail-loss probe, or the first after a time-out.
    pub(super) exempt: Exempt,
    pub(super) probes: Probes,
    /// Number of packets of new data that may be sent regardless of the window, to test whether a time-out was
    /// spurious (F-RTO).
    pub(crate) frto_packets: FrtoPackets,
    /// How late the pace timer fired, in milliseconds. The next batch makes up for it.
    pub(super) late_ms: u8,
    pub(super) prr: Prr,
    pub(super) pacer: Pacer,
}

/// What a SACK acknowledged on one path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PathSack {
    /// Bytes newly acknowledged.
    pub(crate) acked_bytes: u32,
    /// True if some of them were sent on this path only.
    pub(crate) answered: bool,
    /// True if some chunks that were sent on this path only were still in flight.
    pub(crate) answered_in_time: bool,
    /// Bytes that leave the flight: less than `acked_bytes` if chunks had been marked for retransmission.
    pub(crate) flight_drop: u32,
    /// When the chunk that measures the round-trip time was sent; `None` if rule C5 (Karn) allows no measurement.
    pub(crate) rtt_sent_at: Option<Time>,
    /// True if that chunk may have arrived long before the SACK reported it, so that the measured time may be much
    /// too long.
    pub(crate) rtt_late: bool,
    /// True if the earliest outstanding TSN of the path was acknowledged (rule R3).
    pub(crate) lowest_acked: bool,
    /// True if chunks of the path are outstanding outside its flight, because no SACK had room to report them.
    pub(crate) overdue: bool,
    pub(crate) cumulative_advanced: bool,
    pub(crate) in_fast_recovery: bool,
    /// True if an ECNE chunk came with it.
    pub(crate) ecn_echoed: bool,
    /// The share of its growth that the window may take (see [`Ack::share`]); `None` if the path is not coupled with
    /// others.
    pub(crate) share: Option<f32>,
}

/// The effect of an acknowledgement, or of passed time, on the loss recovery of one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PathLoss {
    /// Bytes of chunks declared lost. They leave the flight.
    pub(crate) lost_bytes: u32,
    /// True if a loss must shrink the window (section 7.2.3).
    pub(crate) shrink: bool,
    /// True if a loss is repaired for which the window has already shrunk.
    pub(crate) repairs: bool,
    /// With `shrink`: true if the previous reduction may still turn out to be spurious.
    pub(crate) undo_continues: bool,
    /// True if the path is in recovery by the rules of `Recovery::Rack`.
    pub(crate) in_recovery: bool,
    /// True if the loss that shrank the window was spurious.
    pub(crate) undo: bool,
    /// Bytes that left the flight because they were acknowledged.
    pub(crate) flight_drop: u32,
    /// Bytes that left the flight because they are overdue and no SACK has room to report them.
    pub(crate) overdue_bytes: u32,
    /// Part of `flight_drop` that was acknowledged for the first time. A SACK that was overtaken by a later one
    /// revokes acknowledgements, which the next one repeats.
    pub(crate) delivered: u32,
    pub(crate) cumulative_advanced: bool,
}

/// The effects of a time-out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeoutOutcome {
    pub(crate) change: Option<PathChange>,
    /// True if the PMTU fell, because full packets are lost on this path.
    pub(crate) mtu_fell: bool,
}

impl Path {
    /// Creates an unconfirmed path. Heartbeats begin with [`start_heartbeats`](Self::start_heartbeats).
    pub(crate) fn new(
        remote: SocketAddr,
        local: Option<IpAddr>,
        config: &AssociationConfig,
        link: Link,
        now: Time,
    ) -> Self {
        let ipv6 = remote.ip().to_canonical().is_ipv6();
        let pmtu = Pmtu::new(config.path_mtu_initial, link.mtu_max(config), link.overhead, ipv6);
        Self {
            remote,
            local,
            state: PathState::Unconfirmed,
            congestion: controller(config.congestion, data_chunk_len_max(&pmtu), ipv6, config),
            rto: RtoEstimator::new(config),
            heartbeat: Heartbeat::new(),
            pmtu,
            flight: 0,
            rtx_deadline: Time::MAX,
            rtx_wait_us: 0,
            last_sent: now,
            last_answer_or_probe: Time::ZERO,
            rtt_from: Time::ZERO,
            burst_allowance: 0,
            arrivals: Arrivals::default(),
            error_count: 0,
            timeouts: 0,
            timed_out: false,
            choices: Choices::new(config.recovery),
            exempt: Exempt::No,
            probes: Probes::default(),
            frto_packets: FrtoPackets::NO,
            late_ms: 0,
            prr: Prr::default(),
            pacer: Pacer::new(),
        }
    }

    /// Returns PMDCS: the size of the largest DATA chunk, header included, that fits a packet.
    pub(crate) fn data_chunk_len_max(&self) -> u32 {
        data_chunk_len_max(&self.pmtu)
    }

    /// Returns the length of the longest SCTP packet, common header included, at the current PMTU; a multiple of 4.
    pub(crate) fn payload_max(&self) -> usize {
        self.pmtu.packet_len()
    }

    /// Returns the next deadline of this path: T3-rtx, a HEARTBEAT or its time-out, a lost PMTU probe, pacing, or a
    /// tail-loss probe.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        let rto = self.rto.rto();
        let quiet = self.pacer.deadline().min(self.heartbeat.deadline(rto)).min(self.pmtu.deadline(rto));
        // Fast path for receivers, which ask for each packet and have nothing in flight.
        if self.flight == 0 {
            return quiet.min(self.rtx_deadline);
        }
        quiet.min(self.rtx_deadline).min(self.probe_deadline())
    }

    /// True if the path has had no acknowledgement and sent no probe yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.last_answer_or_probe == Time::ZERO
    }

    /// True if nothing is in flight and nothing was sent for as long as an acknowledgement may be delayed. An answer
    /// that is sent now asks for an immediate acknowledgement (RFC 7053). The peer will hardly send more data that
    /// would carry one, and a round-trip time that includes the delay would double the wait for the next tail-loss
    /// probe.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        self.recovery() == Recovery::Rack && self.flight == 0 && now.since(self.last_sent) >= SACK_DELAY
    }

    /// True if the next packet is to reveal what became of earlier ones: it is a tail-loss probe or follows a
    /// time-out.
    pub(crate) fn wants_immediate_ack(&self) -> bool {
        self.is_exempt() || self.timed_out || self.frto_packets.is_some()
    }

    /// True if the next packet may be sent regardless of the window, provided that there is data.
    pub(crate) fn is_exempt(&self) -> bool {
        !matches!(self.exempt, Exempt::No | Exempt::WindowProbed)
    }

    /// True during proportional rate reduction.
    pub(crate) fn is_recovering(&self) -> bool {
        self.prr.is_active()
    }

    /// Returns cwnd, or in recovery the flight that proportional rate reduction allows, in bytes.
    pub(crate) fn window(&self) -> u32 {
        if self.prr.is_active() { self.prr.window() } else { self.congestion.window() }
    }

    // --- sending -----------------------------------------------------------------------------------------------------

    /// Notes that acknowledged data was not replaced, because the application had nothing to send.
    pub(crate) fn forget_acked(&mut self) {
        self.arrivals.take_packets();
    }

    /// Ends an opportunity to send: nothing more can be sent now.
    pub(crate) fn end_burst(&mut self) {
        self.burst_allowance = 0;
        self.frto_packets = FrtoPackets::NO; // Sent later, it would not answer that SACK.
        if self.flight < self.window() && self.pacer.may_send() {
            self.congestion.on_starved(self.flight);
        }
    }

    /// True if another packet with new data may be sent: rules B (with an excess of less than one packet over cwnd)
    /// and D of section 6.1, and the single packet after a time-out of section 7.2.3.
    pub(crate) fn may_send(&self) -> bool {
        self.burst_allowance > 0 && self.may_retransmit()
    }

    /// True if another packet of retransmissions may be sent (section 6.1 rule C).
    pub(crate) fn may_retransmit(&self) -> bool {
        match () {
            () if self.exempt == Exempt::WindowProbed => false,
            () if self.timed_out => self.flight == 0,
            () => self.flight < self.window() && self.pacer.may_send(),
        }
    }

    /// Records that an SCTP packet of `packet_len` bytes with `data_bytes` of DATA chunks was sent, and starts T3-rtx
    /// if it is stopped (rule R1). With `first_transmission`, the packet contains new data, measures the round-trip
    /// time, and makes the path busy (section 8.3). With `immediate`, it asks for an immediate acknowledgement.
    pub(crate) fn on_data_sent(
        &mut self,
        now: Time,
        packet_len: usize,
        data_bytes: u32,
        first_transmission: bool,
        immediate: bool,
    ) {
        self.decay(now);
        self.note_immediate(first_transmission, immediate);
        self.flight = self.flight.saturating_add(data_bytes);
        self.burst_allowance = self.burst_allowance.saturating_sub(data_bytes);
        let probed = matches!(self.exempt, Exempt::WindowProbe | Exempt::WindowProbed);
        self.exempt = if probed { Exempt::WindowProbed } else { Exempt::No };
        self.frto_packets.on_sent(first_transmission);
        if self.pacer.is_behind(now) {
            self.catch_up(now);
        }
        self.pacer.on_sent(data_bytes);
        self.congestion.on_sent(now, data_bytes);
        if self.prr.is_active() {
            self.prr.on_sent(data_bytes);
        }
        self.last_sent = now;
        if first_transmission {
            self.heartbeat.on_path_used();
        }
        self.pmtu.on_packet_sent(packet_len);
        self.start_rtx(now);
    }

    /// Updates the pacer before retransmissions, which are sent without an opportunity to send. Otherwise tokens
    /// that had reached their limit would be refilled for that time afterwards.
    #[cold]
    #[inline(never)]
    fn catch_up(&mut self, now: Time) {
        self.pacer.refill(now, self.pacing_rate(), self.data_chunk_len_max(), Duration::ZERO);
    }

    /// Reduces cwnd for an idle period when the first data after it is sent (section 7.2.1). No timer per RTO is
    /// needed, because the window does not matter before and one packet may always be sent.
    fn decay(&mut self, now: Time) {
        if self.flight == 0 {
            let periods = now.since(self.last_sent).as_nanos() / self.rto.rto().as_nanos().max(1);
            self.congestion.on_idle(u32::try_from(periods).unwrap_or(u32::MAX));
            if periods > 0 {
                // With nothing in flight for so long, no acknowledgement clocks what a recovery allows.
                self.prr = Prr::default();
            }
        }
    }

    /// Records that an INIT or COOKIE ECHO was sent, which measures the round-trip time too.
    pub(crate) fn on_control_sent(&mut self, now: Time) {
        self.last_sent = now;
        self.heartbeat.on_path_used();
    }

    // --- T3-rtx (sections 6.3.2 and 6.3.3) ---------------------------------------------------------------------------

    /// Starts the timer if it is stopped (rule R1).
    pub(crate) fn start_rtx(&mut self, now: Time) {
        if self.rtx_deadline == Time::MAX {
            self.restart_rtx(now);
        }
    }

    pub(crate) fn restart_rtx(&mut self, now: Time) {
        self.rtx_deadline = self.rto.after(now);
        self.rtx_wait_us = self.rto.rto_us();
    }

    pub(crate) fn stop_rtx(&mut self) {
        self.rtx_deadline = Time::MAX;
    }

    /// Stops T3-rtx if lost data of this path was sent on another one and nothing else is outstanding (rule R2).
    pub(crate) fn on_moved_away(&mut self, overdue: bool) {
        if self.flight == 0 && !overdue {
            self.stop_rtx();
        }
    }

    pub(crate) fn rtx_expired(&self, now: Time) -> bool {
        self.rtx_deadline != Time::MAX && self.rtx_deadline <= now
    }

    /// Handles an expiry of T3-rtx with packets of `lost` bytes at most in flight: stops the timer (rules E1, E2
    /// and section 8.2). The caller marks the chunks and takes them from the flight by [`on_lost`](Self::on_lost).
    pub(crate) fn on_rtx_timeout(
        &mut self,
        now: Time,
        lost: u32,
        config: &AssociationConfig,
    ) -> TimeoutOutcome {
        self.stop_rtx();
        // After several time-outs in a row, the window before the first one is kept.
        if !self.timed_out {
            self.congestion.on_certain();
        }
        self.congestion.on_timeout(now);
        self.rto.back_off(config);
        self.timed_out = true;
        self.timeouts = self.timeouts.saturating_add(1);
        self.arrivals.forget_full();
        self.prr = Prr::default();
        self.probes.on_timeout();
        self.frto_packets = FrtoPackets::NO;
        // Other data in flight may be lost or not. The one packet of section 7.2.3 is sent in any case.
        self.exempt = if self.recovery() == Recovery::Rack { Exempt::Other } else { Exempt::No };
        let mtu_fell = config.probes_mtu() && self.pmtu.on_timeout(lost as usize);
        if mtu_fell {
            self.on_mtu();
        }
        TimeoutOutcome { change: self.on_error(config), mtu_fell }
    }

    // --- acknowledgements --------------------------------------------------------------------------------------------

    /// Processes a SACK that acknowledged data of this path: RTT, cwnd, flight, T3-rtx and reachability. Called
    /// before [`on_lost`](Self::on_lost) and [`on_fast_retransmit`](Self::on_fast_retransmit) (section 7.2.4, note).
    pub(crate) fn on_sack(
        &mut self,
        now: Time,
        sack: &PathSack,
        config: &AssociationConfig,
    ) -> Option<PathChange> {
        let rtt_sent_at =
            sack.rtt_sent_at.filter(|sent_at| !(sack.rtt_late && self.makes_longer(now, *sent_at)));
        let rtt = rtt_sent_at.and_then(|sent_at| self.on_rtt(now, sent_at, config));
        let flight_before = self.flight;
        self.flight = self.flight.saturating_sub(sack.flight_drop);
        let all_acked = self.flight == 0 && !sack.overdue;
        if all_acked {
            self.stop_rtx();
        } else if sack.lowest_acked {
            self.restart_rtx(now);
        }
        if sack.acked_bytes == 0 {
            return None; // Acknowledged again after a revocation: nothing is new.
        }
        let window_full = self.note_sack(now, flight_before, sack.acked_bytes, config);
        self.congestion.on_ack(&Ack {
            now,
            acked_bytes: sack.acked_bytes,
            flight_before,
            window_full,
            cumulative_advanced: sack.cumulative_advanced,
            in_fast_recovery: sack.in_fast_recovery,
            all_acked,
            rtt,
            latest_rtt: sack.rtt_sent_at.map(|sent_at| now.since(sent_at)),
            latest_is_late: sack.rtt_late,
            ecn_echoed: sack.ecn_echoed,
            share: sack.share.unwrap_or(1.0),
        });
        self.timed_out = false;
        self.last_answer_or_probe = now;
        self.probes.on_acked();
        self.exempt = Exempt::No;
        self.pmtu.on_acked(sack.acked_bytes);
        // Data that also went to another path, or that had timed out before the path failed, is no answer (RFC 7829
        // section 3.2 rule 9).
        let answers = match self.state {
            PathState::PotentiallyFailed => sack.answered_in_time,
            _ => sack.answered,
        };
        if answers {
            return self.on_answer();
        }
        if self.state == PathState::Inactive && sack.flight_drop > 0 {
            self.state = PathState::Ambiguous;
        }
        None
    }

    /// Records that the peer acknowledged a FORWARD TSN sent on this path. That is an answer, and measures nothing.
    pub(crate) fn on_skipped(&mut self) -> Option<PathChange> {
        self.timed_out = false;
        if self.state == PathState::PotentiallyFailed { None } else { self.on_answer() }
    }

    /// Records a SACK. Returns whether the window counts as full for growth: data that pacing holds back is no lack
    /// of data, and RFC 9260 considers only the current moment.
    fn note_sack(
        &mut self,
        now: Time,
        flight_before: u32,
        acked_bytes: u32,
        config: &AssociationConfig,
    ) -> bool {
        let packets = acked_bytes.div_ceil(self.data_chunk_len_max());
        let full = flight_before >= self.window() || self.pacer.holds();
        self.arrivals.on_sack(now, packets, full);
        match self.congestion.algorithm() {
            Algorithm::Rfc9260 if config.to_the_letter => full,
            Algorithm::Rfc9260 => self.arrivals.window_full(),
            _ => self.arrivals.window_full_within(now, self.rto.srtt().unwrap_or_default()),
        }
    }

    /// True if a sample would increase the smoothed round-trip time.
    fn makes_longer(&self, now: Time, sent_at: Time) -> bool {
        self.rto.srtt().is_some_and(|srtt| now.since(sent_at) > srtt)
    }

    /// Records that a packet sent at `sent_at` was answered. Returns the round-trip time if it counts: one
    /// measurement per round trip (rule C4).
    pub(crate) fn on_rtt(
        &mut self,
        now: Time,
        sent_at: Time,
        config: &AssociationConfig,
    ) -> Option<Duration> {
        if sent_at < self.rtt_from || sent_at > now {
            return None;
        }
        self.rtt_from = now;
        let rtt = now.since(sent_at);
        self.rto.on_sample(rtt, config);
        Some(rtt)
    }

    /// Removes `bytes` from the flight that were not acknowledged on this path: they are lost, or were sent again
    /// elsewhere.
    pub(crate) fn on_lost(&mut self, bytes: u32) {
        self.flight = self.flight.saturating_sub(bytes);
    }

    /// Removes `bytes` from the flight that were abandoned.
    pub(crate) fn on_abandoned(&mut self, bytes: u32) {
        self.on_lost(bytes);
        if self.prr.is_active() {
            self.prr.on_abandoned(bytes, self.flight, self.data_chunk_len_max());
        }
    }

    /// Reacts to a loss on this path that began Fast Recovery (section 7.2.4 rule 2).
    pub(crate) fn on_fast_retransmit(&mut self, now: Time) {
        self.congestion.on_fast_retransmit(now);
        self.arrivals.forget_full();
    }

    /// Processes losses after [`on_sack`](Self::on_sack) or after a timer, and continues recovery.
    pub(crate) fn on_loss(&mut self, now: Time, loss: &PathLoss) {
        // RecoverFS is everything that was outstanding (RFC 9937 section 6.1), including what the SACK that revealed
        // the loss removed from the flight.
        let flight_before = self.flight.saturating_add(loss.flight_drop).saturating_add(loss.overdue_bytes);
        // The spurious loss precedes the losses of this call.
        if loss.undo {
            self.congestion.on_undo();
            self.timed_out = false;
        }
        if loss.shrink {
            if !loss.undo_continues {
                self.congestion.on_certain();
            }
            self.on_fast_retransmit(now);
        }
        self.on_lost(loss.lost_bytes);
        if loss.lost_bytes > 0 {
            self.congestion.on_lost(loss.lost_bytes);
        }
        let is_undone = loss.undo && !loss.shrink;
        if is_undone || !(loss.in_recovery && self.congestion.recovers_in_proportion()) {
            self.prr = Prr::default();
        } else {
            if loss.shrink || loss.repairs {
                self.prr = Prr::begin(flight_before);
            }
            // A controller that was selected during a recovery follows its own window.
            if self.prr.is_active() {
                self.prr.on_sack(Step {
                    acked: loss.delivered,
                    flight: self.flight,
                    threshold: self.congestion.window(),
                    safe: loss.cumulative_advanced && loss.lost_bytes == 0,
                    pmdcs: self.data_chunk_len_max(),
                });
            }
        }
    }

    // --- path MTU (section 7.3) --------------------------------------------------------------------------------------

    /// Returns the length of the SCTP packet (HEARTBEAT and PAD chunk) that should probe the PMTU now. Call it after
    /// data was sent, and then [`Pmtu::on_probe_sent`] with a random nonce.
    pub(crate) fn mtu_probe_due(&mut self, now: Time) -> Option<usize> {
        if self.state == PathState::Active && self.error_count == 0 { self.pmtu.probe_due(now) } else { None }
    }

    /// Handles the loss of packets of the PMTU's size that was noticed by chunks other than DATA. Returns true if the
    /// PMTU fell.
    pub(crate) fn on_black_hole(&mut self) -> bool {
        let fell = self.pmtu.on_black_hole(usize::from(u16::MAX));
        self.on_mtu();
        fell
    }

    /// Handles a Packet Too Big message about a packet on this path, which the caller has checked. Returns true if
    /// the PMTU fell.
    pub(crate) fn on_packet_too_big(&mut self, now: Time, mtu: u32) -> bool {
        let fell = self.pmtu.on_packet_too_big(now, mtu);
        self.on_mtu();
        fell
    }

    pub(super) fn on_mtu(&mut self) {
        self.congestion.on_mtu(data_chunk_len_max(&self.pmtu));
    }
}

fn data_chunk_len_max(pmtu: &Pmtu) -> u32 {
    u32::try_from(pmtu.packet_len().saturating_sub(COMMON_HEADER_LEN)).unwrap_or(u32::MAX)
}
