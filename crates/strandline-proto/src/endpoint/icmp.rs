//! ICMP messages (RFC 9260 section 10).

use core::net::SocketAddr;

use strandline_wire::number::VerificationTag;
use strandline_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN};

use super::Endpoint;
use super::demux::PeerKey;
use super::listen::quotes_init;
use super::look_up::find_by_peer;
use crate::association::State;
use crate::event::{IcmpError, IcmpKind};
use crate::time::Time;
use crate::zone;

// Positions in an SCTP packet, in bytes (RFC 9260 sections 3.1 and 3.3.2).
const SOURCE_PORT_AT: usize = 0;
const DESTINATION_PORT_AT: usize = 2;
const TAG_AT: usize = 4;
const INITIATE_TAG_AT: usize = COMMON_HEADER_LEN + CHUNK_HEADER_LEN;

/// The parts of the quoted packet that matter: ports, tag and, for an INIT, the Initiate Tag.
struct Quoted {
    source_port: u16,
    destination_port: u16,
    tag: VerificationTag,
    initiate_tag: Option<VerificationTag>,
}

fn quoted(bytes: &[u8]) -> Option<Quoted> {
    let u16_at = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some(Quoted {
        source_port: u16_at(SOURCE_PORT_AT)?,
        destination_port: u16_at(DESTINATION_PORT_AT)?,
        tag: VerificationTag(u32_at(TAG_AT)?),
        initiate_tag: if quotes_init(bytes) { u32_at(INITIATE_TAG_AT).map(VerificationTag) } else { None },
    })
}

impl Endpoint {
    /// Processes an ICMP message about one of our packets. Anybody can forge one, so it counts only if it quotes the
    /// association's tag (rule ICMP6).
    pub fn handle_icmp(&mut self, now: Time, error: IcmpError<'_>) {
        let Some(quoted) = quoted(error.quoted) else { return };
        let error = IcmpError { destination: zone::inward(error.destination), ..error };
        let key = PeerKey {
            address: error.destination.ip(),
            peer_port: quoted.destination_port,
            local_port: quoted.source_port,
        };
        let Some(slot) = find_by_peer(self, &key) else { return };
        if !self.icmp_is_ours(slot, &quoted) {
            return;
        }
        self.context.stats.icmp += 1;
        self.apply_icmp(now, slot, error.destination, error.kind, quoted.initiate_tag.is_some());
        self.update_after_change(now, slot);
    }

    fn icmp_is_ours(&self, slot: u32, quoted: &Quoted) -> bool {
        let Some(association) = self.table.at(slot) else { return false };
        match (quoted.tag.0, quoted.initiate_tag) {
            // The Initiate Tag of our INIT is our own tag.
            (0, Some(initiate)) => initiate == association.local_tag,
            (0, None) => false,
            (tag, _) => tag == association.peer_tag.0,
        }
    }

    fn apply_icmp(&mut self, now: Time, slot: u32, destination: SocketAddr, kind: IcmpKind, init: bool) {
        let Some(association) = self.table.at_mut(slot) else { return };
        let Some(index) = association.paths.by_address(destination.ip()) else { return };
        // The peer's packets come from another port now (RFC 6951 section 5.4), of which the error says nothing.
        let has_left = association.paths.get(index).remote.port() != destination.port();
        if has_left && !matches!(kind, IcmpKind::PacketTooBig { .. }) {
            return;
        }
        match kind {
            IcmpKind::PacketTooBig { mtu } => {
                association.on_packet_too_big(&mut self.context, now, index, mtu)
            }
            // ICMP8: as an ABORT with the T bit. For an INIT it counts only while an answer to one is awaited.
            IcmpKind::ProtocolUnreachable => {
                if init == matches!(association.state, State::CookieWait(_)) {
                    association.on_unreachable(&mut self.context, now, index);
                }
            }
            IcmpKind::NoRoute => {
                if !init || matches!(association.state, State::CookieWait(_)) {
                    association.on_no_route(&mut self.context, now, index);
                }
            }
            IcmpKind::HostUnreachable => association.on_host_unreachable(&mut self.context, now, index),
        }
    }
}
