//! 100 for an INVITE (RFC 3261 section 17.2.1), which few ever get: most hear something else within 200 ms.

use super::super::id::ServerId;
use super::super::step::{Timer, Timers};
use super::super::time::Time;
use super::{SERVER, Transactions};
use crate::codec::{HeaderName, Message, Reply, StatusCode};

/// What 100 is made of.
const COPIED: [HeaderName; 6] = [
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::Timestamp,
];

impl Transactions {
    /// Keeps 100 for an INVITE that was just begun. It is sent when the INVITE comes again, or when nothing else was sent for
    /// [`Timings::trying`](crate::transaction::Timings::trying), and written only then: until then those lines of the INVITE are
    /// kept that it is made of. It says that the INVITE came from where its responses go.
    pub fn trying(&mut self, now: Time, id: ServerId, invite: &Message<'_>) {
        let Some(server) = self.servers.get_mut(id.slot).filter(|server| server.generation == id.generation)
        else {
            return;
        };
        let lines = || COPIED.into_iter().flat_map(|name| invite.lines(name));
        // Nothing of the first line stands in an answer.
        const FIRST: &[u8] = b"INVITE sip:invalid SIP/2.0\r\n";
        let len = lines().map(|line| line.line().len()).sum::<usize>() + FIRST.len() + 2;
        let before = server.response.capacity();
        server.response.reserve_exact(len);
        server.response.extend_from_slice(FIRST);
        lines().for_each(|line| server.response.extend_from_slice(line.line()));
        server.response.extend_from_slice(b"\r\n");
        self.account.changed(before, server.response.capacity());
        server.asked = true;
        let timers = Timers { resend: Timer::Start(self.timings.trying()), end: Timer::Keep };
        self.set_timers(now, id.slot << 2 | SERVER, timers);
    }

    /// Writes 100 if there is only what it is made of. What it can't be made of is forgotten.
    pub(super) fn make_trying(&mut self, slot: u32) {
        let Some(server) = self.servers.get_mut(slot).filter(|server| server.asked) else { return };
        server.asked = false;
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
