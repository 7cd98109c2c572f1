//! Packets with COOKIE ECHO (RFC 9260 section 5.1 C), each with whatever data fits. Until the COOKIE ACK
//! arrives nothing else may be sent.

use std::sync::Arc;

use strandline_wire::cause::Causes;
use strandline_wire::chunk::{CookieEcho, Error, Pad};
use strandline_wire::{CHUNK_HEADER_LEN, PacketBuilder};

use super::super::{Association, State, auth};
use super::{FULL_ENOUGH, Filled, leaves_room};
use crate::config::Recovery;
use crate::event::Transmit;
use crate::time::Time;

/// Bytes for which a packet needs room besides the cookie: headers, padding and a margin.
const COOKIE_OVERHEAD: usize = 32;

/// Number of attempts to send a COOKIE ECHO together with DATA.
const COOKIE_ECHO_WITH_DATA_MAX: u16 = 2;

impl Association {
    /// Builds packets with COOKIE ECHO and whatever data fits; nothing else may be sent until it is answered (section
    /// 5.1 C). Further data goes with a copy of the COOKIE ECHO (decision 49): the first to arrive creates the
    /// association for all of them.
    pub(super) fn transmit_cookie_echo(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        segments_max: usize,
    ) -> Option<Transmit> {
        if core::mem::take(&mut self.flags.burst_open) && !self.flags.cookie_echo_due {
            // Data that was given, or has come within the window, since the latest COOKIE ECHO.
            self.flags.cookie_echo_due = true;
            open_first_burst(self, now);
        }
        let payload_max = self.paths.get(self.control_path).payload_max();
        let (mut len, mut segment_size, mut fragment) = (0, 0, None);
        for _ in 0..segments_max {
            let room =
                buffer.get_mut(len..).filter(|room| self.flags.cookie_echo_due && room.len() >= segment_size);
            let Some(room) = room else { break };
            let Some((packet_len, oversize)) = self.cookie_echo_packet(now, room, segment_size) else {
                break;
            };
            len += packet_len;
            fragment = fragment.or(oversize);
            let full =
                if segment_size == 0 { payload_max * FULL_ENOUGH.0 / FULL_ENOUGH.1 } else { segment_size };
            segment_size = segment_size.max(packet_len);
            if packet_len < full {
                break;
            }
        }
        let path = self.paths.get_mut(self.control_path);
        if !self.flags.cookie_echo_due {
            path.end_burst();
        }
        // T1-cookie replaces T3-rtx until the answer arrives.
        path.stop_rtx();
        let (destination, source) = (path.remote, path.local);
        (len > 0).then_some(Transmit { destination, source, len, segment_size, fragment, ecn_capable: false })
    }

    /// Builds one packet with COOKIE ECHO. Returns its length, at most `len_max` unless that is 0, and the size of IP
    /// fragments if it is to be fragmented.
    fn cookie_echo_packet(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        len_max: usize,
    ) -> Option<(usize, Option<u16>)> {
        self.flags.cookie_echo_due = false;
        let index = self.control_path;
        let payload_max = self.paths.get(index).payload_max().min(buffer.len());
        let full = if len_max > 0 { payload_max.min(len_max) } else { payload_max };
        let State::CookieEchoed(setup) = &self.state else { return None };
        // A cookie larger than the path MTU is sent alone, and IP may fragment it.
        let reserve = auth::reserve(self);
        let oversize = setup.cookie.len() + COOKIE_OVERHEAD + reserve > full;
        let cut_from = self.paths.get(index).pmtu.cut_from();
        let leaves_room = leaves_room(&setup.cookie, full);
        let (attempts, echoes) = (setup.attempts, setup.echoes);
        if self.deadlines.control == Time::MAX {
            // Start T1-cookie even if the packet cannot be built: a cookie that fits no buffer must not stop the
            // set-up for ever.
            self.deadlines.control = now + self.paths.get(index).rto.rto();
        }
        let room = if oversize { buffer } else { buffer.get_mut(..full)? };
        let inner = room.split_at_mut(room.len().saturating_sub(reserve)).0;
        let mut packet = PacketBuilder::new(inner, self.local_port, self.peer_port, self.peer_tag);
        if !packet.push(&CookieEcho { cookie: &setup.cookie }) {
            return None;
        }
        if !setup.report.is_empty() && echoes == 0 {
            let causes = Self::unrecognised_report(&setup.report);
            let _ = packet.push(&Error { causes: Causes::new(&causes) });
        }
        if echoes == 0 {
            open_first_burst(self, now);
        }
        // After several unanswered attempts it may be too long for the path with DATA behind it.
        let alone = oversize || attempts >= COOKIE_ECHO_WITH_DATA_MAX;
        let filled =
            if alone { Filled::default() } else { self.fill(now, index, &mut packet, full - reserve, false) };
        if echoes > 0 && filled.bytes == 0 {
            return None;
        }
        let spare = cut_from.checked_sub(packet.len() + reserve + CHUNK_HEADER_LEN).filter(|_| oversize);
        if let Some(padding_len) = spare {
            // Without padding IP leaves the packet as it is, which may work.
            let _ = packet.push(&Pad { padding_len });
        }
        let len = packet.finish_with_zero_checksum();
        self.schedule_cookie_echo(filled.bytes > 0 && attempts == 0 && leaves_room);
        // Always with a checksum (RFC 9653 section 5.2): the receiver may have no association to look at.
        let len = auth::seal(self, room, len, true);
        self.account(now, index, len, filled);
        self.paths.get_mut(index).on_control_sent(now);
        self.stats.packets_sent += 1;
        // A cookie that stays unanswered may still be too long for the path.
        let pmtu = &self.paths.get(index).pmtu;
        let doubtful = attempts >= COOKIE_ECHO_WITH_DATA_MAX && len > pmtu.floor_len();
        let fragment = match () {
            () if doubtful => Some(pmtu.smallest()),
            () if oversize => Some(pmtu.mtu()),
            () => None,
        };
        Some((len, fragment))
    }

    /// Returns the maximum number of packets with the COOKIE ECHO at one attempt.
    pub(super) fn cookie_echo_packets_max(&self) -> u8 {
        match self.config.recovery {
            Recovery::Rfc9260 => 1,
            Recovery::Rack => self.config.cookie_echo_packets_max,
        }
    }

    /// Schedules another COOKIE ECHO if there is more data to send with it. Only at the first attempt: after a
    /// failure, one packet first tests whether the peer accepts it.
    fn schedule_cookie_echo(&mut self, allowed: bool) {
        let packets_max = self.cookie_echo_packets_max();
        let State::CookieEchoed(setup) = &mut self.state else { return };
        setup.on_echoed();
        self.flags.cookie_echo_due = allowed && setup.echoes < packets_max && self.outbound.has_pending();
    }
}

/// Allows the data of the first COOKIE ECHO of an attempt, and of those that follow it.
fn open_first_burst(association: &mut Association, now: Time) {
    let config = Arc::clone(&association.config);
    let packets_max = association.cookie_echo_packets_max();
    let path = association.paths.get_mut(association.control_path);
    match packets_max {
        1 => path.allow_burst(now, &config),
        _ => path.allow_first_window(now),
    }
}
