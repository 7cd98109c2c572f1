//! Packets that belong to no association (RFC 9260 section 8.4).

use strandline_wire::Packet;
use strandline_wire::cause::code;
use strandline_wire::chunk::{Chunk, ShutdownComplete, kind};

use super::Endpoint;
use super::diagnostics::{abort_reply, discarded};
use crate::association::{AnswerPorts, control_packet};
use crate::event::Datagram;

impl Endpoint {
    /// Applies rules 2 and 5 to 8. Rule 1 and the checksum are checked before; `listen` handles rules 3 and 4.
    pub(super) fn handle_out_of_the_blue(&mut self, packet: &Packet<'_>, datagram: &Datagram<'_>) {
        self.context.stats.out_of_the_blue += 1;
        discarded(datagram, "out of the blue");
        let (mut shutdown_ack, mut silent) = (false, false);
        for raw in packet.chunks() {
            // Malformed packets get no answer.
            let Ok(raw) = raw else { return };
            match raw.kind {
                kind::ABORT => return,
                // Rule 5 comes before rules 6 and 7.
                kind::SHUTDOWN_ACK => shutdown_ack = true,
                kind::SHUTDOWN_COMPLETE | kind::COOKIE_ACK => silent = true,
                kind::ERROR if is_stale_cookie(&raw) => silent = true,
                // This includes an INIT with a tag other than 0 (rule 8).
                _ => {}
            }
        }
        let ports = AnswerPorts {
            source: packet.destination_port(),
            destination: packet.source_port(),
            tag: packet.verification_tag(),
            zero_checksum: false,
        };
        let route = Self::route_back(datagram);
        if shutdown_ack {
            let complete = ShutdownComplete { tag_reflected: true };
            control_packet(&mut self.context.replies, route, ports, &complete);
        } else if !silent {
            abort_reply(&mut self.context.replies, route, ports, &[], true);
        }
    }
}

fn is_stale_cookie(raw: &strandline_wire::RawChunk<'_>) -> bool {
    match raw.parse() {
        Ok(Chunk::Error(error)) => {
            error.causes.iter().flatten().any(|cause| cause.code == code::STALE_COOKIE)
        }
        _ => false,
    }
}
