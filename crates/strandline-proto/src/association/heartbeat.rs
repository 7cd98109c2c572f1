//! HEARTBEAT and HEARTBEAT ACK (RFC 9260 section 8.3), path verification (section 5.4) and path MTU probes (RFC 8899
//! section 6.2).
//!
//! Our Heartbeat Info contains the path, the nonce, and the sending time. Nothing of it is trusted when it returns:
//! the nonce must be the one that the path waits for.
//!
//! ```text
//! +------+----------------+----------------+
//! | path | nonce (8)      | sent at (8)    |
//! +------+----------------+----------------+
//! ```

use core::net::SocketAddr;
use std::sync::Arc;

use strandline_wire::chunk::{Heartbeat, Pad, kind};
use strandline_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, PacketBuilder, padded};

use super::build::{finish_control, push_control};
use super::context::{EndpointContext, Route};
use super::diagnostics::log_mtu_change;
use super::left_over;
use super::multipath::longest_round_trip;
use super::{Association, asconf, auth};
use crate::error::PathError;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::time::Time;

/// Length of our Heartbeat Info in bytes.
pub(super) const INFO_LEN: usize = 17;

fn info(path: PathIndex, nonce: u64, now: Time) -> [u8; INFO_LEN] {
    let mut bytes = [0; INFO_LEN];
    bytes[0] = path.number();
    bytes[1..9].copy_from_slice(&nonce.to_be_bytes());
    bytes[9..].copy_from_slice(&now.as_nanos().to_be_bytes());
    bytes
}

impl Association {
    /// Answers a HEARTBEAT at once, to its source, with everything copied (section 8.3).
    pub(super) fn on_heartbeat(&mut self, cx: &mut EndpointContext, value: &[u8], source: SocketAddr) {
        // Section 8.3 demands no answer after SHUTDOWN. But the peer may still have much to send, and must
        // find out which paths work, or confirm a new address of ours before its SHUTDOWN ACK goes there.
        let answers = self.state.sends_data()
            || matches!(self.state, super::State::CookieEchoed(_) | super::State::ShutdownSent { .. });
        if !answers {
            return;
        }
        let local = self.paths.by_address(source.ip()).and_then(|index| self.paths.get(index).local);
        let route = Route { destination: source, source: local };
        let len = padded(value.len()) + COMMON_HEADER_LEN + CHUNK_HEADER_LEN + auth::reserve(self);
        push_control(self, cx, route, len.max(CONTROL_PACKET_LEN_MAX), |packet| {
            let Some(place) = packet.push_raw(kind::HEARTBEAT_ACK, 0, value.len()) else { return false };
            place.copy_from_slice(value);
            true
        });
    }

    /// Processes a HEARTBEAT ACK. It counts only with the nonce that its path waits for.
    pub(super) fn on_heartbeat_ack(&mut self, cx: &mut EndpointContext, now: Time, ack: &Heartbeat<'_>) {
        if self.state.in_setup() {
            return;
        }
        let Ok(info) = <[u8; INFO_LEN]>::try_from(ack.info) else { return };
        let Ok(nonce) = <[u8; 8]>::try_from(&info[1..9]) else { return };
        let nonce = u64::from_be_bytes(nonce);
        let Some(index) = self.paths.by_number(info[0]) else { return };
        self.inbound.on_rtt_answer(now, nonce);
        self.on_size_proved(now, index, nonce);
        let config = Arc::clone(&self.config);
        let random = cx.rng_word();
        let peer = self.paths.primary_address();
        let path = self.paths.get_mut(index);
        let mtu = path.pmtu.mtu();
        let verified = path.state == PathState::Unconfirmed;
        let Some(answer) = path.on_heartbeat_ack(now, nonce, random, &config) else { return };
        let address = path.remote;
        if verified {
            cx.verification.on_answer(peer, address.ip());
        }
        if answer.mtu_rose {
            cx.known.learn_mtu(now, address.ip(), path.pmtu.mtu());
        }
        log_mtu_change(self, index, mtu);
        left_over::on_answer(self, now);
        self.errors.total = 0;
        self.flags.burst_open |= answer.mtu_rose;
        if let Some(change) = answer.change {
            self.on_path_change(cx, index, change);
        }
        if verified && self.extras.is_some() {
            asconf::on_confirmed(self, cx, index);
        }
    }

    /// Sends a HEARTBEAT on a path. While no address may be its source, it is deferred by an RTO.
    pub(super) fn send_heartbeat(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        if self.flags.sourceless {
            let path = self.paths.get_mut(index);
            return path.heartbeat.defer(now + path.rto.rto());
        }
        let nonce = cx.nonce();
        let random = cx.rng_word();
        let config = Arc::clone(&self.config);
        self.paths.get_mut(index).on_heartbeat_sent(now, nonce, random, &config);
        self.send_control(cx, index, &Heartbeat { info: &info(index, nonce, now) });
    }

    /// Sends a HEARTBEAT to where the SACKs of a large flow go, to measure the round-trip time. Its loss is no error of
    /// the path. Its answer confirms no address, so it goes to none that waits for that (section 5.4).
    pub(super) fn measure_rtt(&mut self, cx: &mut EndpointContext, now: Time) {
        let index = self.path_of_sacks();
        let measures = self.config.heartbeat_interval.is_some() && self.state.heartbeats();
        let nonce = if measures { cx.nonce() } else { 0 };
        let longest = longest_round_trip(&self.paths);
        self.inbound.on_rtt_probe_sent(now, nonce, self.paths.get(index).rto.srtt(), longest);
        if measures {
            self.send_control(cx, index, &Heartbeat { info: &info(index, nonce, now) });
        }
    }

    /// Sends a path MTU probe: a HEARTBEAT padded with PAD, with IP fragmentation forbidden.
    pub(super) fn send_mtu_probe(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        index: PathIndex,
        size: usize,
    ) {
        // One that does not leave would count as lost.
        if self.flags.sourceless {
            return;
        }
        let nonce = cx.nonce();
        self.paths.get_mut(index).pmtu.on_probe_sent(now, nonce);
        self.send_padded(cx, now, index, (size, nonce));
    }

    /// Queues a HEARTBEAT padded with PAD to a packet of `size` bytes, which is never fragmented.
    pub(super) fn send_padded(
        &self,
        cx: &mut EndpointContext,
        now: Time,
        index: PathIndex,
        (size, nonce): (usize, u64),
    ) {
        if self.flags.sourceless {
            return;
        }
        let route = self.route(index);
        let info = info(index, nonce, now);
        let reserve = auth::reserve_for(self, &[kind::HEARTBEAT, kind::PAD]);
        cx.control.push_whole(route, size, |buffer| {
            finish_control(self, buffer, reserve, |packet| {
                let rest = |packet: &PacketBuilder<'_>| packet.remaining().saturating_sub(CHUNK_HEADER_LEN);
                packet.push(&Heartbeat { info: &info }) && packet.push(&Pad { padding_len: rest(packet) })
            })
        });
    }

    /// REQUEST HEARTBEAT (section 11.1.10).
    pub(crate) fn request_heartbeat(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        index: PathIndex,
    ) -> Result<(), PathError> {
        if !self.state.heartbeats() {
            return Err(PathError::NotEstablished);
        }
        self.send_heartbeat(cx, now, index);
        Ok(())
    }

    /// True if the path may carry more than heartbeats.
    pub(super) fn is_confirmed(&self, index: PathIndex) -> bool {
        self.paths.get(index).state != PathState::Unconfirmed
    }
}
