//! HEARTBEAT and HEARTBEAT ACK (RFC 9260 section 8.3), path verification (section 5.4) and path MTU probes
//! (RFC 8899 section 6.2).
//!
//! The Heartbeat Info of ours: which path, what kind, the nonce, and when it was sent. Nothing of it is trusted when
//! it comes back: the nonce must be the one that the path waits for.
//!
//! ```text
//! +------+------+----------------+----------------+
//! | path | kind | nonce (8)      | sent at (8)    |
//! +------+------+----------------+----------------+
//! ```

use core::net::SocketAddr;
use std::sync::Arc;

use strandline_wire::chunk::{Heartbeat, HeartbeatAck, Pad};

use super::Association;
use super::build::control_packet;
use super::context::{Route, Shared};
use crate::error::PathError;
use crate::event::Event;
use crate::path::{PathIndex, PathState};
use crate::time::Time;

const INFO_LEN: usize = 18;
const KIND_HEARTBEAT: u8 = 0;
const KIND_MTU_PROBE: u8 = 1;

fn info(path: PathIndex, kind: u8, nonce: u64, now: Time) -> [u8; INFO_LEN] {
    let mut bytes = [0; INFO_LEN];
    bytes[0] = path.0;
    bytes[1] = kind;
    bytes[2..10].copy_from_slice(&nonce.to_be_bytes());
    bytes[10..].copy_from_slice(&now.as_nanos().to_be_bytes());
    bytes
}

impl Association {
    /// Answers at once, to the address that it came from, with everything copied (section 8.3).
    pub(super) fn on_heartbeat(&mut self, cx: &mut Shared, heartbeat: &Heartbeat<'_>, source: SocketAddr) {
        let answers = self.state.sends_data() || matches!(self.state, super::State::CookieEchoed(_));
        if !answers {
            return;
        }
        let local = self.paths.by_address(source.ip()).and_then(|index| self.paths.get(index).local);
        let route = Route { destination: source, source: local };
        control_packet(&mut cx.control, route, self.ports(), &HeartbeatAck { value: heartbeat.value });
    }

    /// An answer counts only for the nonce that its path waits for.
    pub(super) fn on_heartbeat_ack(&mut self, cx: &mut Shared, now: Time, ack: &HeartbeatAck<'_>) {
        if self.state.in_setup() {
            return;
        }
        let Some(Ok((info, _))) = ack.info().map(|info| info.split_first_chunk::<INFO_LEN>().ok_or(())) else {
            return;
        };
        let Ok(nonce) = <[u8; 8]>::try_from(&info[2..10]) else { return };
        let nonce = u64::from_be_bytes(nonce);
        let index = PathIndex(info[0]);
        if usize::from(index.0) >= self.paths.len() {
            return;
        }
        let config = Arc::clone(&self.config);
        if info[1] == KIND_MTU_PROBE {
            self.paths.get_mut(index).on_mtu_probe_acked(now, nonce);
            return;
        }
        let jitter = cx.rng_word();
        let path = self.paths.get_mut(index);
        let Some(outcome) = path.on_heartbeat_ack(now, nonce, &config, jitter) else { return };
        let address = path.remote;
        self.error_count = 0;
        if let Some(change) = outcome {
            cx.event(self.id, Event::PathChanged { address, change });
        }
    }

    /// Sends a HEARTBEAT on a path.
    pub(super) fn send_heartbeat(&mut self, cx: &mut Shared, now: Time, index: PathIndex) {
        let nonce = cx.nonce();
        self.paths.get_mut(index).on_heartbeat_sent(now, nonce);
        self.send_control(cx, index, &Heartbeat::of(&info(index, KIND_HEARTBEAT, nonce, now)));
    }

    /// Sends a path MTU probe: a HEARTBEAT filled up with PAD, with IP fragmentation forbidden.
    pub(super) fn send_mtu_probe(&mut self, cx: &mut Shared, now: Time, index: PathIndex, size: usize) {
        let nonce = cx.nonce();
        self.paths.get_mut(index).on_mtu_probe_sent(now, nonce);
        let route = self.route(index);
        let ports = self.ports();
        let info = info(index, KIND_MTU_PROBE, nonce, now);
        cx.control.push(route, size, |buffer| {
            let mut packet = ports.packet(buffer);
            if !packet.push(&Heartbeat::of(&info)) {
                return 0;
            }
            let rest = packet.remaining().saturating_sub(4);
            if packet.push(&Pad { len: rest }) { packet.finish() } else { 0 }
        });
    }

    /// REQUEST HEARTBEAT (section 11.1.10).
    pub(crate) fn request_heartbeat(
        &mut self,
        cx: &mut Shared,
        now: Time,
        index: PathIndex,
    ) -> Result<(), PathError> {
        if !self.state.heartbeats() {
            return Err(PathError::UnknownAssociation);
        }
        self.send_heartbeat(cx, now, index);
        Ok(())
    }

    /// True if the path may carry more than heartbeats.
    pub(super) fn is_confirmed(&self, index: PathIndex) -> bool {
        self.paths.get(index).state != PathState::Unconfirmed
    }
}
