//! The 100 response to an INVITE (RFC 3261 section 17.2.1). It is rarely sent, because most INVITEs get
//! another response within 200 ms.

use super::super::id::ServerId;
use super::super::step::{Timer, Timers};
use super::super::time::Time;
use super::{SERVER, Transactions};
use crate::codec::{HeaderName, Message, Reply, StatusCode};

/// The headers from which 100 is built.
const COPIED: [HeaderName; 6] = [
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::Timestamp,
];

impl Transactions {
    /// Prepares the 100 response to an INVITE that has just begun. It is sent when the INVITE is
    /// retransmitted, or when no other response was sent for
    /// [`Timings::trying`](crate::transaction::Timings::trying). Until then, only the needed lines of the
    /// INVITE are kept. The response states the source address to which responses go.
    pub fn trying(&mut self, now: Time, id: ServerId, invite: &Message<'_>) {
        let Some(server) = self.servers.get_mut(id.slot).filter(|server| server.generation == id.generation)
        else {
            return;
        };
        let lines = || COPIED.into_iter().flat_map(|name| invite.lines(name));
        // The request line doesn't occur in a response.
        const FIRST: &[u8] = b"INVITE sip:invalid SIP/2.0\r\n";
        let len = lines().map(|line| line.line().len()).sum::<usize>() + FIRST.len() + 2;
        let before = server.response.capacity();
        server.response.reserve_exact(len);
        server.response.extend_from_slice(FIRST);
        lines().for_each(|line| server.response.extend_from_slice(line.line()));
        server.response.extend_from_slice(b"\r\n");
        self.account.changed(before, server.response.capacity());
        server.trying_due = true;
        let timers = Timers { resend: Timer::Start(self.timings.trying()), end: Timer::Keep };
        self.set_timers(now, id.slot << 2 | SERVER, timers);
    }

    /// Writes the 100 response if only its lines are stored. If that fails, the lines are discarded.
    pub(super) fn make_trying(&mut self, slot: u32) {
        let Some(server) = self.servers.get_mut(slot).filter(|server| server.trying_due) else { return };
        server.trying_due = false;
        self.scratch.clear();
        let written = match Message::parse(&server.response, &mut self.index) {
            Ok(invite) => {
                let reply = Reply { source: Some(server.flow.peer), ..Reply::new(StatusCode::TRYING) };
                reply.write(&invite, &mut self.scratch).finish(b"").is_ok()
            }
            Err(_) => false,
        };
        let written: &[u8] = if written { &self.scratch } else { &[] };
        self.account.put(&mut server.response, written);
    }
}
